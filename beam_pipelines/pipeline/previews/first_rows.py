"""Converts the first rows of a recipe in memory.

It reads the head of the base source and runs the functions of the PTransforms
(``pipeline/row_chain.py``). Nothing is written.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core.arrow.python_values import json_value, python_rows
from beam_pipelines.core.chunks import ROW, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.private import HIDDEN
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.labels import labels_of_features
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.private import private_features
from beam_pipelines.pipeline.previews.estimate import fitted_on, null_columns
from beam_pipelines.pipeline.row_chain import RowChain
from beam_pipelines.recipe.unions import unused_lines, unused_sources
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import ByteRange, SourcePlan

# Of a text file of several ranges; the other formats are read chunk by chunk.
_HEAD_BYTES = 1 << 20
# Rows that encodings are fitted on, at least, if there are so many.
_FITTED_ROWS = 2_000


@dataclasses.dataclass(frozen=True)
class ShownRow:
    """One row before and after its encoding, as plain Python values.

    Attributes:
      split: of the row.
      raw: column -> value, after joins, ``derive`` and ``drop``.
      encoded: feature -> value.
    """

    split: str
    raw: Mapping[str, Any]
    encoded: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class FirstRows:
    """The first rows of a conversion.

    Attributes:
      rows: in the order of the source.
      inputs: feature -> the columns that it is made of.
      labels: feature of ids -> its texts by id.
      read: rows that were read.
      notes: how the rows may differ from those of the conversion.
    """

    rows: tuple[ShownRow, ...]
    inputs: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[str, ...]]
    read: int
    notes: tuple[str, ...]


def first_rows(plan: Plan, number: int) -> FirstRows:
    """Reads and converts the first rows of a plan.

    Args:
      plan: of the conversion.
      number: of rows to show, at most.

    Raises:
      DataError: a file cannot be read or converted, or ``filter`` leaves no row of the head.
    """
    notes: list[str] = []
    if plan.groups is None:
        row = pa.field(ROW, pa.int64())
        split = dataclasses.replace(plan.split, schema=plan.split.schema.append(row))
        numbered = dataclasses.replace(plan, select=plan.select.numbered(), split=split)
    else:
        numbered = plan
        notes.append("sequences are made of the rows that were read, and may be longer")
    if plan.split.stratify:
        notes.append("splits are by hash, and not yet divided by class")
    if plan.preprocessing is not None:
        notes.append("'preprocessing_fn' did not run")
    rows = RowChain(numbered, skips_large=True)
    notes += map(null_columns, rows.omitted)
    chunks: list[Chunk] = []
    kept, is_cut = 0, False
    for _, parts in itertools.groupby(_head(rows), key=lambda part: part[:2]):
        if is_cut := kept >= max(number, _FITTED_ROWS):
            break
        chunks += parts
        kept = sum(chunk.batch.num_rows for chunk in chunks)
    if not kept:
        raise DataError(
            f"{plan.base.files[0].path}: found no row after 'filter' and joins in the first "
            f"{rows.read_rows:,}, expected some to show."
        )
    numbers, chunks = _first(chunks, number)
    encode = fitted_on(plan.encode, _to_fit_on(plan.encode, chunks, notes))
    if plan.encode.reads and (notes or is_cut or len(plan.base.ranges) > 1):
        notes.append(f"encodings are fitted on {kept:,} rows only, so that values differ")
    chains = {chain.name: tuple(chain.inputs) for chain in encode.chains}
    return FirstRows(
        tuple(_rows(chunks, numbers, encode, private_features(plan.recipe, encode.chains))),
        {name: chains.get(name, (name,)) for name in encode.written},
        {**labels_of_features(encode), **plan.labels},
        rows.read_rows,
        tuple(dict.fromkeys([*notes, *unused_lines(unused_sources(plan.recipe))])),
    )


def _to_fit_on(encode: EncodePlan, chunks: list[Chunk], notes: list[str]) -> list[Chunk]:
    """Returns the chunks to fit on: all, if none qualifies."""
    splits = encode.fit.splits
    if not encode.reads or any(chunk.split in splits for chunk in chunks):
        return chunks
    notes.append(f"no row that was read is of {', '.join(splits)}, so that all are fitted on")
    return [chunk._replace(split=splits[0]) for chunk in chunks]


def _head(rows: RowChain) -> Iterator[Chunk]:
    """Yields chunks from the beginning of the base source, by split."""
    source = rows.plan.base
    for byte_range in source.ranges:
        head = _cut(source, byte_range)
        yield from rows.split(head)
        if head is not byte_range:
            return


def _cut(source: SourcePlan, byte_range: ByteRange) -> ByteRange:
    """Returns the beginning of a range, if it can be cut there."""
    can_cut = format_of(source).has_lines and any(
        other.number_in_file and other.file == byte_range.file for other in source.ranges[:2]
    )
    if not can_cut or byte_range.end - byte_range.start <= _HEAD_BYTES:
        return byte_range
    return dataclasses.replace(byte_range, end=byte_range.start + _HEAD_BYTES)


def _first(chunks: list[Chunk], number: int) -> tuple[list[tuple[int, int]], list[Chunk]]:
    """Returns the (chunk, row) of the first rows, and plain chunks."""
    places = []
    plain = []
    for index, chunk in enumerate(chunks):
        batch = chunk.batch
        rows = range(batch.num_rows)
        if ROW in batch.schema.names:
            rows = batch.column(ROW).to_pylist()
            batch = batch.drop_columns([ROW])
        address = (chunk.range_number, chunk.part)
        places += [(address, row, index, place) for place, row in enumerate(rows)]
        plain.append(chunk._replace(batch=batch))
    return [(index, place) for _, _, index, place in sorted(places)[:number]], plain


def _rows(
    chunks: list[Chunk],
    numbers: list[tuple[int, int]],
    encode: EncodePlan,
    private: Collection[str],
) -> Iterator[ShownRow]:
    encoded: dict[int, pa.RecordBatch] = {}
    for index, place in numbers:
        chunk = chunks[index]
        if index not in encoded:
            encoded[index] = encode_batch(encode, chunk.batch, chunk.path)
        raw, made = (_values(batch, place) for batch in (chunk.batch, encoded[index]))
        for row in (raw, made):
            row.update(dict.fromkeys(row.keys() & set(private), HIDDEN))
        yield ShownRow(chunk.split, raw, made)


def _values(batch: pa.RecordBatch, place: int) -> dict[str, Any]:
    (row,) = python_rows(batch.slice(place, 1))
    return {name: json_value(value) for name, value in row.items()}
