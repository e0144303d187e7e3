"""Estimates a conversion at any size: counts, bytes, memory, CPU, limits.

Counts follow from the plan, by the functions that a run uses. Bytes of rows are measured: the first
byte range of some files is converted in memory (``pipeline/row_chain.py``). docs/scale.md explains
every figure, and how the costs below were measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.core.layout import stripes
from beam_pipelines.core.limits import MIB
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.row_chain import RowChain
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import GATHERED_FILES, RANGE_BYTES
from beam_pipelines.transforms.fit import fit_batch
from beam_pipelines.transforms.join.plan import PARTITION_BYTES as JOIN_PARTITION_BYTES
from beam_pipelines.transforms.join.plan import JoinStep, plain_bytes
from beam_pipelines.transforms.shards import PARTITION_BYTES, count_shards, fit_part_size
from beam_pipelines.transforms.size_sample import (
    MOST_SAMPLED_BYTES,
    SAMPLE_BYTES,
    estimate_row_bytes,
)

_FILES = 8
_SAMPLED_ROWS = 50_000

# CPU seconds for each value (a row has as many as columns), by benchmarks/bench_costs.py on a table
# of 40 columns.
READ_AND_STATISTICS = 58e-9
SHUFFLE_AND_WRITE = 115e-9
# For each value and step of an encoding, of texts and of numbers.
ENCODE, ENCODE_NUMBER = 70e-9, 15e-9
# CPU seconds for each row of the base source; of a hash join, for each of the right source as well.
JOIN_BROADCAST = 0.6e-6
JOIN_HASH = 3.6e-6

# Bytes by benchmarks/bench_costs.py --sizes.
INDEX_BYTES_PER_PART = 44
# Of one worker, which merges row counts and plans shards: benchmarks/hollow.py.
PLAN_BYTES_PER_CHUNK = 116
MOST_BYTES = 2048 * MIB
# An idle worker process after its imports.
PROCESS_BYTES = 466 << 20


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
    framed_bytes: float
    shard_bytes: float
    omissions: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SplitScale:
    """A split: its rows, its shards, the bytes of their parts."""

    rows: float
    shards: int
    part_size: int


@dataclasses.dataclass(frozen=True)
class Scale:
    """Estimates for a conversion.

    Attributes:
      size_bytes: of the base source.
      ranges: byte ranges of the base source.
      largest_range_bytes: one worker reads such a range alone.
      rows: read.
      splits: by name.
      kept_bytes: temporary files of spilled columns.
      temporary_bytes: peak of the temporary files without shards, on one machine. There, writers
        read spilled rows from the files in which they are.
      shard_bytes: of all shards.
      broadcast_bytes: of the indexes of broadcast joins, in every worker process.
      worker_bytes: peak memory of a worker process.
      cpu_secs: step -> CPU seconds.
      limits: what is met -> size of the base source at which it is, the least first.
    """

    size_bytes: float
    ranges: int
    largest_range_bytes: float
    rows: float
    splits: Mapping[str, SplitScale]
    kept_bytes: float
    temporary_bytes: float
    shard_bytes: float
    broadcast_bytes: float
    worker_bytes: float
    cpu_secs: Mapping[str, float]
    limits: Mapping[str, float]


def make_preview(plan: Plan) -> Preview:
    """Converts the first byte range of some files in memory.

    Args:
      plan: of the conversion.

    Raises:
      DataError: the files cannot be read or converted, or hold no rows.
    """
    firsts = [byte_range for byte_range in plan.base.ranges if byte_range.number_in_file == 0]
    chosen = firsts[:: -(-len(firsts) // _FILES)]
    reader = RowChain(plan, reject=True, skips_large=True)
    split = [chunk for byte_range in chosen for chunk in reader.split(byte_range)]
    written = sum(chunk.batch.num_rows for chunk in split)
    if not written:
        if reader.bad_row is not None and not reader.read_rows:
            raise DataError(reader.bad_row.describe())
        found = "rows left of its beginning after 'filter'" if reader.read_rows else "rows"
        raise DataError(f"{chosen[0].file.path}: found no {found}, expected some to plan by.")
    omissions = [*map(null_columns, reader.omitted)]
    if plan.groups is not None:
        omissions.append(
            "rows are grouped within a chunk only, so that sequences look shorter than they will be"
        )
    if plan.preprocessing is not None:
        omissions.append("columns that 'preprocessing_fn' adds or leaves out are not counted")
    sampled = _sampled(split)
    encode = fitted_on(plan.encode, sampled)
    encoded = [
        chunk._replace(batch=encode_batch(encode, chunk.batch, chunk.path)) for chunk in sampled
    ]
    shard_bytes, framed_bytes = estimate_row_bytes(encoded, plan.recipe.output, plan.encode.lists)
    return Preview(
        row_bytes=sum(byte_range.end - byte_range.start for byte_range in chosen)
        / reader.read_rows,
        chunk_rows=reader.read_rows / reader.read_chunks,
        written=written / reader.read_rows,
        splits=_shares(plan, split, written, is_whole=len(chosen) == len(plan.base.ranges)),
        columns=len(plan.base.read_schema),
        features=len(encoded[0].batch.schema),
        kept_bytes=sum(chunk.batch.nbytes for chunk in split) / written,
        spilled_bytes=sum(
            len(part) for chunk in split for part in stripes.pack(chunk.batch, "").buffers
        )
        / written,
        framed_bytes=framed_bytes,
        shard_bytes=shard_bytes,
        omissions=tuple(dict.fromkeys(omissions)),
    )


def null_columns(source: str) -> str:
    """Returns the note on a source that is too large to join."""
    return f"the columns of '{source}' count as null: it is too large to be read for a plan"


def fitted_on(encode: EncodePlan, chunks: Sequence[Chunk]) -> EncodePlan:
    """Returns encodings fitted on the chunks of the splits to fit on."""
    none = chunks[0].batch.slice(0, 0)
    to_fit_on = [chunk.batch for chunk in chunks if chunk.split in encode.fit.splits] or [none]
    (batch,) = pa.Table.from_batches(to_fit_on).combine_chunks().to_batches() or [none]
    return fit_batch(encode, batch, "the preview")


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
    share = min(1.0, _SAMPLED_ROWS / sum(chunk.batch.num_rows for chunk in chunks))
    return [
        chunk._replace(batch=chunk.batch.slice(0, max(1, int(chunk.batch.num_rows * share))))
        for chunk in chunks
    ]


def make_scale(plan: Plan, preview: Preview, assumed_bytes: int | None = None) -> Scale:
    """Estimates a conversion.

    Args:
      plan: of the conversion.
      preview: of the conversion.
      assumed_bytes: another size of the base source: more files of the same size, or, if files are
        cut, of any size. Other sources keep their size.
    """
    base = plan.base
    size = float(base.size_bytes if assumed_bytes is None else assumed_bytes)
    ranges, largest = (
        _ranges(plan, size) if assumed_bytes is not None else (len(base.ranges), _largest(plan))
    )
    rows = size / preview.row_bytes
    written = rows * preview.written
    splits = {
        name: SplitScale(
            written * share,
            count_shards(plan.recipe.output, written * share * preview.shard_bytes),
            fit_part_size(plan.recipe.output, written * share * preview.framed_bytes),
        )
        for name, share in preview.splits.items()
    }
    kept, read = written * preview.spilled_bytes, rows * preview.kept_bytes
    sampled = kept * min(1.0, SAMPLE_BYTES / max(size, 1))
    hashed = [step for step in plan.joins.steps if step.strategy == "hash"]
    # A hash join sends rows to their partition and back. Its files stay to the end of the run.
    exchanged = sum(2 * read + plain_bytes(step.source_plan) for step in hashed) + (
        read if plan.groups else 0.0
    )
    broadcast = sum(
        1.5 * step.size_bytes for step in plan.joins.steps if step.strategy == "broadcast"
    )
    chunks = max(float(ranges), rows / preview.chunk_rows)
    worker = (
        PROCESS_BYTES
        + 3 * max(largest / preview.row_bytes * preview.kept_bytes, largest)
        + broadcast
        + 8 * chunks * (2 + len(splits))  # the shard plan
        + 3 * min(PARTITION_BYTES, written * preview.framed_bytes)
        + (2 * JOIN_PARTITION_BYTES if hashed else 0)
        + sum(map(_window_bytes, plan.joins.steps))
    )
    largest_parts = written * max(preview.splits.values()) * preview.framed_bytes / PARTITION_BYTES
    most = show_bytes(MOST_BYTES)
    limits = {
        f"the index of a split passes {most}: make several datasets": largest_parts
        * INDEX_BYTES_PER_PART,
        f"one worker needs {most} to plan shards: take workers with more": chunks
        * PLAN_BYTES_PER_CHUNK,
    }
    return Scale(
        size_bytes=size,
        ranges=ranges,
        largest_range_bytes=largest,
        rows=rows,
        splits=splits,
        kept_bytes=kept,
        # Samples are stored twice: before and after encoding.
        temporary_bytes=exchanged + kept + 2 * min(sampled, MOST_SAMPLED_BYTES),
        shard_bytes=written * preview.shard_bytes,
        broadcast_bytes=broadcast,
        worker_bytes=worker,
        cpu_secs=_cpu(plan, preview, rows, written),
        limits={
            name: size * MOST_BYTES / found
            for name, found in sorted(limits.items(), key=lambda limit: -limit[1])
        },
    )


def _window_bytes(step: JoinStep) -> float:
    """Returns the bytes that features of windows keep of an index.

    ``count_distinct`` keeps an int32 of each row for each block of 1, 2, 4 … rows of its key, which
    may have all rows. Others keep up to two values a row, ``std`` six.
    """
    is_whole = step.strategy == "broadcast"
    plain = step.size_bytes if is_whole else min(step.size_bytes, JOIN_PARTITION_BYTES)
    rows = plain / (8 * len(step.source_plan.schema))
    kept = {"count_distinct": 4 * math.log2(2 + rows), "std": 48}
    made = {(each.kind, each.column) for each in step.join.parsed.values() if each.column}
    return rows * sum(kept.get(kind, 16) for kind, _ in made)


def _ranges(plan: Plan, size: float) -> tuple[int, float]:
    """Returns the number of byte ranges, and the bytes of the largest.

    Args:
      size: of the base source.
    """
    base = plan.base
    file_bytes = base.size_bytes / len(base.files)
    if base.ranges[0].members != (0, 0):
        together = min(GATHERED_FILES, max(1, RANGE_BYTES // max(1, file_bytes)))
        return max(1, math.ceil(size / file_bytes / together)), max(
            file_bytes, min(RANGE_BYTES, size)
        )
    if all(format_of(base).splittable(base.source, file.path) for file in base.files):
        return max(1, round(size / RANGE_BYTES)), min(RANGE_BYTES, size)
    return max(1, math.ceil(size / file_bytes)), _largest(plan)


def _largest(plan: Plan) -> float:
    return float(max(byte_range.end - byte_range.start for byte_range in plan.base.ranges))


def _cpu(plan: Plan, preview: Preview, rows: float, written: float) -> dict[str, float]:
    secs = {"read and statistics": rows * preview.columns * READ_AND_STATISTICS}
    for step in plan.joins.steps:
        price = JOIN_BROADCAST if step.strategy == "broadcast" else JOIN_HASH
        right = plain_bytes(step.source_plan) / preview.row_bytes
        secs[f"join {step.join.source}"] = price * (
            rows + (right if step.strategy == "hash" else 0)
        )
    if plan.encode.chains:
        numbers = {each.name for each in plan.encode.columns if pa.types.is_primitive(each.type)}
        secs["encode"] = written * sum(
            len(chain.steps) * (ENCODE_NUMBER if numbers.issuperset(chain.inputs) else ENCODE)
            for chain in plan.encode.chains
        )
    secs["shuffle and write"] = written * preview.features * SHUFFLE_AND_WRITE
    return secs
