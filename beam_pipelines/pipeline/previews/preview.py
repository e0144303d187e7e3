"""A preview: converts some byte ranges in memory to measure rows.

It takes the first byte range of some files, and runs the functions of the PTransforms themselves
(``pipeline/row_chain.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core import stripes
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.ipc import batches_to_bytes
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.row_chain import IndexOf, split_rows
from beam_pipelines.sources.plan import ByteRange, SourcePlan
from beam_pipelines.sources.text.quotes import fold
from beam_pipelines.transforms import read
from beam_pipelines.transforms.fit import fit_batch
from beam_pipelines.transforms.join.index import JoinIndex
from beam_pipelines.transforms.join.join import load_index
from beam_pipelines.transforms.join.plan import BROADCAST_LIMIT_BYTES
from beam_pipelines.transforms.size_sample import estimate_row_bytes

_FILES = 8
_SAMPLED_ROWS = 50_000


@dataclasses.dataclass(frozen=True)
class Preview:
    """Measures of the first byte range of some files, to extrapolate from.

    Attributes:
      row_bytes: of a row of the base source on disk.
      chunk_rows: rows of a chunk.
      written: rows written for each row read.
      splits: split -> share of the written rows.
      columns: number of columns read of the base source.
      features: number of features written.
      kept_bytes: of a row of columns as Arrow data.
      spilled_bytes: of a row of columns in a file of stripes.
      packed_bytes: of a row of features on its way to its shard.
      block_bytes: of a block of one row, which is mostly overhead.
      framed_bytes, shard_bytes: of a record, before and after compression.
      omissions: notes on parts that the preview leaves out.
    """

    row_bytes: float
    chunk_rows: float
    written: float
    splits: Mapping[str, float]
    columns: int
    features: int
    kept_bytes: float
    spilled_bytes: float
    packed_bytes: float
    block_bytes: float
    framed_bytes: float
    shard_bytes: float
    omissions: tuple[str, ...]


def make_preview(plan: Plan, most_files: int = _FILES) -> Preview:
    """Converts the first byte range of some files in memory.

    Args:
      plan: of the conversion.
      most_files: number of files, at most.

    Raises:
      DataError: the files cannot be read or converted, or hold no rows.
    """
    firsts = [byte_range for byte_range in plan.base.ranges if byte_range.number_in_file == 0]
    chosen = firsts[:: -(-len(firsts) // most_files)]
    read_chunks = [chunk for byte_range in chosen for chunk in _read(plan.base, byte_range)]
    rows = sum(chunk.batch.num_rows for chunk in read_chunks)
    if not rows:
        raise DataError(
            f"{chosen[0].file.path}: found no rows in its beginning, expected some to plan by."
        )
    omissions: list[str] = []
    split = list(split_rows(plan, read_chunks, join_indexes(plan, omissions)))
    if plan.groups is not None:
        omissions.append(
            "rows are grouped within a chunk only, so that sequences look shorter than they will be"
        )
    written = sum(chunk.batch.num_rows for chunk in split)
    if not written:
        raise DataError(
            f"{chosen[0].file.path}: found no rows left of its beginning after 'filter', expected "
            "some to plan by."
        )
    encoded = _encode(plan, _sampled(split), omissions)
    shard_bytes, framed_bytes = estimate_row_bytes(encoded, plan.recipe.output, plan.encode.lists)
    sampled = sum(chunk.batch.num_rows for chunk in encoded)
    return Preview(
        row_bytes=sum(byte_range.end - byte_range.start for byte_range in chosen) / rows,
        chunk_rows=rows / len(read_chunks),
        written=written / rows,
        splits=_shares(plan, split, written, is_whole=len(chosen) == len(plan.base.ranges)),
        columns=len(plan.base.read_schema),
        features=len(encoded[0].batch.schema),
        kept_bytes=sum(chunk.batch.nbytes for chunk in split) / written,
        spilled_bytes=sum(_spilled_bytes(chunk.batch) for chunk in split) / written,
        packed_bytes=sum(_packed_bytes(chunk.batch) for chunk in encoded) / sampled,
        block_bytes=float(_packed_bytes(encoded[0].batch.slice(0, 1))),
        framed_bytes=framed_bytes,
        shard_bytes=shard_bytes,
        omissions=tuple(dict.fromkeys(omissions)),
    )


def _read(source: SourcePlan, byte_range: ByteRange) -> list[Chunk]:
    states: dict[str, bytes] = {}
    if read.has_quotes(source, byte_range):
        states[byte_range.file.path] = fold([read.scan_range(source, byte_range)])
    return list(read.read_range(source, byte_range, states, reject=True))


def join_indexes(plan: Plan, omissions: list[str]) -> IndexOf:
    """Returns the index of each join; ``None`` if it is too large."""
    indexes: dict[int, JoinIndex | None] = {}
    for step in plan.joins.steps:
        indexes[step.number] = None
        if step.size_bytes > BROADCAST_LIMIT_BYTES:
            omissions.append(
                f"the columns of '{step.join.source}' count as null: it is too large to be read "
                "for a plan"
            )
        else:
            indexes[step.number] = load_index(step, reject=True)
    return lambda step, _: indexes[step.number]


def _shares(plan: Plan, split: Sequence[Chunk], written: int, is_whole: bool) -> dict[str, float]:
    declared = plan.recipe.split
    is_known = declared.time_column is not None or bool(declared.files)
    if declared.stratify or not (is_whole or is_known):
        return declared.shares
    rows = dict.fromkeys(plan.split.names, 0)
    for chunk in split:
        rows[chunk.split] += chunk.batch.num_rows
    return {name: count / written for name, count in rows.items()}


def _sampled(chunks: Sequence[Chunk]) -> list[Chunk]:
    share = _SAMPLED_ROWS / sum(chunk.batch.num_rows for chunk in chunks)
    if share >= 1:
        return list(chunks)
    return [
        chunk._replace(batch=chunk.batch.slice(0, max(1, int(chunk.batch.num_rows * share))))
        for chunk in chunks
    ]


def _encode(plan: Plan, chunks: Sequence[Chunk], omissions: list[str]) -> list[Chunk]:
    """Encodes chunks by encodings that are fitted on these chunks."""
    if plan.preprocessing is not None:
        omissions.append("columns that 'preprocessing_fn' adds or leaves out are not counted")
    encode = fitted_on(plan.encode, chunks)
    return [chunk._replace(batch=encode_batch(encode, chunk.batch, chunk.path)) for chunk in chunks]


def fitted_on(encode: EncodePlan, chunks: Sequence[Chunk]) -> EncodePlan:
    """Returns encodings fitted on the chunks of the splits to fit on."""
    to_fit_on = [chunk.batch for chunk in chunks if chunk.split in encode.fit.splits] or [
        chunks[0].batch.slice(0, 0)
    ]
    (batch,) = pa.Table.from_batches(to_fit_on).combine_chunks().to_batches() or [
        chunks[0].batch.slice(0, 0)
    ]
    return fit_batch(encode, batch, "the preview")


def _packed_bytes(batch: pa.RecordBatch) -> int:
    return len(batches_to_bytes([batch]))


def _spilled_bytes(batch: pa.RecordBatch) -> int:
    return sum(map(len, stripes.pack(batch, "").buffers))
