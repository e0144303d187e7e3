"""Avro: blocks of records, cut at the bytes between them."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import FREE_BYTES, Limits, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.faults.bad_rows import as_bytes
from beam_pipelines.sources.parquet.format import top_columns
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.formats.avro_types import Named, plain, refuse_empty, type_of
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

# Rows of Python objects at a time, which take some times the bytes of their columns.
_MOST_ROWS = 16_384


class Avro(PartFiles):
    """Object container files; a range has the blocks that begin in it."""

    title = "Avro"
    suffixes = (".avro",)
    is_compressed = True

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a range, or a file; see ``PartFiles``."""
        from fastavro.schema import parse_schema  # takes 30 ms

        opened, named = AvroFile(file, path), Named()
        type_ = type_of(parse_schema(opened.schema, named), named, f"{path}: ")
        if not pa.types.is_struct(type_):
            raise DataError(
                f"{path}: found values of {type_}, expected records with fields. Write each value "
                "as the field of a record: {type: record, name: Row, fields: [{name: value, type: "
                "…}]}."
            )
        refuse_empty(type_, f"{path}: ")
        opened.schema = plain(opened.schema)
        schema = read = pa.schema(list(type_))
        start, end = opened.start, file.seek(0, io.SEEK_END)
        if part:
            read = pa.schema([schema.field(name) for name in top_columns(part[0], schema)])
            end = part[1].end
            start = opened.first_block(part[1].start, end)
        batches = _batches(_records(source.limits, path, opened, start, end), read)

        def rows_before() -> int:
            return sum(block.num_records for block in opened.packed(opened.start, start))

        yield OpenedPart(schema, batches, rows_before)


def _records(
    limits: Limits, path: str, opened: AvroFile, start: int, end: int
) -> Iterator[dict[str, Any]]:
    """Yields the records of the blocks that begin in [start, end)."""
    blocks = opened.blocks(
        start, end, lambda size: max(FREE_BYTES, limits.decompression_ratio * size)
    )
    try:
        for block in blocks:
            yield from block
            if block.bytes_.read(1):
                raise ValueError(f"the block at byte {block.offset:,} has more than its records")
    except TooLargeError as error:
        message = ratio_exceeded(limits, error.packed, error.size)
        raise DataError(f"{path}, block at byte {error.offset:,}: {message}") from error


def _batches(records: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields records as columns; texts are checked with the rows."""
    names = schema.names
    types = [as_bytes(pa.array([], field.type)).type for field in schema]
    while some := list(itertools.islice(records, _MOST_ROWS)):
        arrays = [
            pa.array([record[name] for record in some], type_).view(field.type)
            for name, type_, field in zip(names, types, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
