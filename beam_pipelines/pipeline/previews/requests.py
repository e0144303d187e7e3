"""Estimates the requests to an object store in which the output is."""

from __future__ import annotations

import math

from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.previews.estimate import Preview, Scale
from beam_pipelines.transforms.merged_files import BIN, MERGED_BYTES
from beam_pipelines.transforms.shards import PARTITION_BYTES
from beam_pipelines.transforms.shuffle import MOST_PLACES

# Requests of S3's clients: to write a file, with one more for each UPLOADED_BYTES; to read rows of
# a chunk (its size, its tail, the rows); for statistics and samples of a chunk; and to write, read
# back, index and move a shard, with three more for each 2 * UPLOADED_BYTES.
WRITE_REQUESTS, READ_REQUESTS, CHUNK_REQUESTS, SHARD_REQUESTS = 2.5, 3, 18, 14
UPLOADED_BYTES = 8 << 20


def count_requests(plan: Plan, preview: Preview, scale: Scale) -> float:
    """Returns the requests to an object store, for rows and shards."""
    chunks = max(scale.ranges, scale.rows / preview.chunk_rows)
    read = scale.rows * preview.kept_bytes
    shards = sum(split.shards for split in scale.splits.values())
    framed = sum(split.rows for split in scale.splits.values()) * preview.framed_bytes
    places = max(shards, framed / PARTITION_BYTES)
    hashed = [step.partitions for step in plan.joins.steps if step.strategy == "hash"]
    grouped = [plan.groups.partitions] if plan.groups else []
    return (
        _merging(chunks, places, scale.kept_bytes, MOST_PLACES)
        + sum(_merging(chunks, count, read, count) for count in (*hashed, *hashed, *grouped))
        + chunks * CHUNK_REQUESTS
        + shards * SHARD_REQUESTS
        + 1.5 * scale.shard_bytes / UPLOADED_BYTES
    )


def _merging(chunks: float, partitions: float, size: float, spread: float) -> float:
    """Returns the requests to write, merge and read rows.

    Args:
      chunks: which are written as files.
      partitions: to which the rows go.
      size: bytes of all rows.
      spread: partitions, at most, to which a chunk's rows go.
    """
    bins = math.ceil(partitions / BIN)
    spans = chunks * min(bins, spread / BIN + 1)
    merges = max(bins, size / MERGED_BYTES)
    written = WRITE_REQUESTS * (chunks + merges) + 2 * size / UPLOADED_BYTES
    return written + READ_REQUESTS * spans + 2 * merges * min(BIN, partitions)
