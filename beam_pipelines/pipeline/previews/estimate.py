"""Estimates a conversion at any size: counts, bytes, memory, cost, limits.

Counts follow from the plan, by the functions that a run uses. Bytes of rows come from a preview.
docs/scale.md explains every line, and how the costs below were measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.core.limits import MIB
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.previews.preview import Preview
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import GATHERED_FILES, RANGE_BYTES
from beam_pipelines.transforms.deal import pack_rows
from beam_pipelines.transforms.join.plan import PARTITION_BYTES as JOIN_PARTITION_BYTES
from beam_pipelines.transforms.join.plan import plain_bytes
from beam_pipelines.transforms.shards import PARTITION_BYTES, count_shards
from beam_pipelines.transforms.size_sample import MOST_SAMPLED_BYTES, SAMPLE_BYTES

GIB = 1024 * MIB
# The limit of Dataflow:
# https://cloud.google.com/dataflow/docs/guides/common-errors#job-graph-too-large
GRAPH_BYTES = 20 * MIB

# CPU seconds for each value (a row has as many as columns), by benchmarks/bench_costs.py on a table
# of 40 columns.
READ_AND_STATISTICS = 58e-9
SHUFFLE_AND_WRITE = 115e-9
# For each value and step of an encoding.
ENCODE = 100e-9
# For each block, to pack and unpack it, whatever its size.
BLOCK = 142e-6
# CPU seconds for each row of the base source; of a hash join, for each of the right source as well.
JOIN_BROADCAST = 0.6e-6
JOIN_HASH = 5.6e-6

# Bytes by benchmarks/bench_costs.py --sizes.
GRAPH_BYTES_PER_RANGE = 14
COUNTS_BYTES = 1000
OFFSET_BYTES = 170
MANIFEST_BYTES_PER_SHARD = 160
# The commit holds the columns of tfrecord/part_index.py twice.
INDEX_BYTES_PER_PART = 88
# An idle worker process after its imports.
PROCESS_BYTES = 466 << 20


@dataclasses.dataclass(frozen=True)
class SplitScale:
    """A split: its rows, its shards, and the partitions of a shard."""

    rows: float
    shards: int
    partitions: int


class Limit(NamedTuple):
    """A quantity that grows with the data, and its maximum.

    Attributes:
      name: describes the state beyond the maximum.
      value: at this size.
      most: the maximum.
      remedy: what the user can do.
    """

    name: str
    value: float
    most: float
    remedy: str

    def size_bytes(self, scale: Scale) -> float:
        """Returns the base source's size at the maximum, by linear growth."""
        return scale.size_bytes * self.most / self.value


@dataclasses.dataclass(frozen=True)
class Scale:
    """Estimates for a conversion.

    Attributes:
      size_bytes: of the base source.
      ranges: byte ranges of the base source.
      largest_range_bytes: one worker reads such a range alone.
      chunks: of the base source.
      rows: read.
      splits: by name.
      kept_bytes: temporary files of spilled columns.
      shuffle_bytes: of rows in the engine's shuffle, if the output is on an object store.
      exchanged_bytes: rows in the exchanges of hash joins and groups.
      blocks: of rows in that shuffle.
      block_rows: rows of one block.
      block_secs: CPU seconds to pack and unpack the blocks.
      shard_bytes: of all shards.
      graph_bytes: of the submitted job.
      offsets_bytes: of the shard plan, in every worker process.
      counts_bytes: of all row counts, for a moment in one worker.
      manifest_bytes: of ``dataset.json``.
      index_bytes: of the largest split's index, for a moment in one worker.
      broadcast_bytes: of the indexes of broadcast joins, in every worker process.
      join_partition_bytes: base rows in one partition of the hash join with the fewest partitions;
        0: no hash join.
      worker_bytes: peak memory of a worker process.
      cpu_secs: step -> CPU seconds.
    """

    size_bytes: float
    ranges: int
    largest_range_bytes: float
    chunks: float
    rows: float
    splits: Mapping[str, SplitScale]
    kept_bytes: float
    shuffle_bytes: float
    exchanged_bytes: float
    blocks: float
    block_rows: float
    block_secs: float
    shard_bytes: float
    graph_bytes: float
    offsets_bytes: float
    counts_bytes: float
    manifest_bytes: float
    index_bytes: float
    broadcast_bytes: float
    join_partition_bytes: float
    worker_bytes: float
    cpu_secs: Mapping[str, float]

    @property
    def shards(self) -> int:
        """Shards of all splits."""
        return sum(split.shards for split in self.splits.values())

    @property
    def side_input_bytes(self) -> float:
        """Bytes of the largest side input.

        It is either the row counts or the first pass' result with the shard plan, in elements of at
        most 1 MiB.
        """
        return max(self.counts_bytes, self.offsets_bytes)

    @property
    def temporary_bytes(self) -> float:
        """Peak bytes of temporary files without shards, on one machine.

        There, writers read spilled rows from the files in which they are.
        """
        sampled = self.kept_bytes * min(1.0, SAMPLE_BYTES / max(self.size_bytes, 1))
        # Samples are stored twice: before and after encoding.
        return self.exchanged_bytes + self.kept_bytes + 2 * min(sampled, MOST_SAMPLED_BYTES)


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
    chunks = max(float(ranges), rows / preview.chunk_rows)
    written = rows * preview.written
    splits = {
        name: _split(plan, preview, written * share) for name, share in preview.splits.items()
    }
    blocks, block_rows = _blocks(plan, splits, chunks, written)
    shards = sum(split.shards for split in splits.values())
    offsets = chunks * len(splits) * OFFSET_BYTES
    broadcast = sum(
        1.5 * step.size_bytes for step in plan.joins.steps if step.strategy == "broadcast"
    )
    hashed = [step.partitions for step in plan.joins.steps if step.strategy == "hash"]
    partition = size / min(hashed) if hashed else 0.0
    range_rows = largest / preview.row_bytes
    worker = (
        PROCESS_BYTES
        + 3 * max(range_rows * preview.kept_bytes, largest)
        + broadcast
        + offsets
        + 3 * min(PARTITION_BYTES, written * preview.framed_bytes)
        + (2 * JOIN_PARTITION_BYTES if hashed else 0)
    )
    return Scale(
        size_bytes=size,
        ranges=ranges,
        largest_range_bytes=largest,
        chunks=chunks,
        rows=rows,
        splits=splits,
        kept_bytes=written * preview.spilled_bytes,
        shuffle_bytes=written * preview.packed_bytes + blocks * preview.block_bytes,
        exchanged_bytes=_exchanged(plan, rows * preview.kept_bytes),
        blocks=blocks,
        block_rows=block_rows,
        block_secs=blocks * BLOCK,
        shard_bytes=written * preview.shard_bytes,
        graph_bytes=ranges * GRAPH_BYTES_PER_RANGE,
        offsets_bytes=offsets,
        counts_bytes=chunks * COUNTS_BYTES,
        manifest_bytes=shards * MANIFEST_BYTES_PER_SHARD,
        index_bytes=INDEX_BYTES_PER_PART
        * max(split.rows for split in splits.values())
        * min(1, preview.framed_bytes / plan.recipe.output.part_size),
        broadcast_bytes=broadcast,
        join_partition_bytes=partition,
        worker_bytes=worker,
        cpu_secs=_cpu(plan, preview, rows, written),
    )


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


def _split(plan: Plan, preview: Preview, rows: float) -> SplitScale:
    shards = count_shards(plan.recipe.output, rows * preview.shard_bytes)
    return SplitScale(
        rows, shards, max(1, round(rows * preview.framed_bytes / shards / PARTITION_BYTES))
    )


def _blocks(
    plan: Plan, splits: Mapping[str, SplitScale], chunks: float, written: float
) -> tuple[float, float]:
    """Returns the number of blocks, and the rows of one.

    A chunk has a block for each partition of a shard that gets rows of it.
    """
    blocks = 0.0
    for split in splits.values():
        places = split.shards * split.partitions
        packs = split.rows / chunks / pack_rows(round(split.rows), places, chunks)
        blocks += (
            chunks * min(packs, places)
            if plan.recipe.output.shuffle
            else max(chunks, float(places))
        )
    return max(1.0, blocks), written / max(1.0, blocks)


def _exchanged(plan: Plan, read_bytes: float) -> float:
    """Returns the bytes of hash joins and of grouping.

    A hash join sends rows to their partition and back. Its files stay to the end of the run.
    """
    hashed = [step for step in plan.joins.steps if step.strategy == "hash"]
    return sum(2 * read_bytes + plain_bytes(step.source_plan) for step in hashed) + (
        read_bytes if plan.groups else 0.0
    )


def _cpu(plan: Plan, preview: Preview, rows: float, written: float) -> dict[str, float]:
    secs = {"read and statistics": rows * preview.columns * READ_AND_STATISTICS}
    for step in plan.joins.steps:
        price = JOIN_BROADCAST if step.strategy == "broadcast" else JOIN_HASH
        right = plain_bytes(step.source_plan) / preview.row_bytes
        secs[f"join {step.join.source}"] = price * (
            rows + (right if step.strategy == "hash" else 0)
        )
    if plan.encode.chains:
        secs["encode"] = written * sum(len(chain.steps) for chain in plan.encode.chains) * ENCODE
    secs["shuffle and write"] = written * preview.features * SHUFFLE_AND_WRITE
    return secs


def limits(scale: Scale) -> list[Limit]:
    """Returns the limits, the first to be met first.

    It leaves out quantities that are 0.
    """
    parts = "or convert parts of the source into datasets of their own"
    larger = "raise 'shard_size' in 'output'"
    memory = f"take workers with more memory for each core, {parts}"
    known = [
        Limit(
            f"the job graph, which names every range, passes {show_bytes(GRAPH_BYTES)}, which is "
            "Dataflow's limit",
            scale.graph_bytes,
            GRAPH_BYTES,
            parts.removeprefix("or "),
        ),
        Limit(
            f"the shard plan takes {show_bytes(2 * GIB)} of every worker process",
            scale.offsets_bytes,
            2 * GIB,
            memory,
        ),
        Limit(
            f"the row counts of all chunks take {show_bytes(8 * GIB)} of one worker",
            scale.counts_bytes,
            8 * GIB,
            memory,
        ),
        Limit(
            f"the index of a split takes {show_bytes(8 * GIB)} of one worker at the commit",
            scale.index_bytes,
            8 * GIB,
            "raise 'part_size' in 'output'",
        ),
        Limit(
            f"{MANIFEST} passes {show_bytes(256 * MIB)}", scale.manifest_bytes, 256 * MIB, larger
        ),
        Limit("one worker renames a million shards at the commit", scale.shards, 1e6, larger),
    ]
    if scale.join_partition_bytes:
        name = (
            f"a partition of a hash join gets {show_bytes(2 * GIB)} of the base source, if its "
            "keys are even, and an engine hands it to one worker"
        )
        known.append(
            Limit(
                name,
                scale.join_partition_bytes,
                2 * GIB,
                f"leave rows out by a 'filter' on columns of the base source, {parts}",
            )
        )
    return sorted(
        (limit for limit in known if limit.value > 0), key=lambda limit: limit.size_bytes(scale)
    )
