"""The indexes of shards become one."""

from __future__ import annotations

import tracemalloc

import numpy as np

from beam_pipelines.tfrecord.part_index import IndexedShard, PartColumns
from beam_pipelines.transforms.shards import join_indexes, write_own_index


def write(folder: str, counts: list[int]) -> list[IndexedShard]:
    """Writes the indexes of shards with parts of 3 rows."""
    shards = []
    for number, count in enumerate(counts):
        name = f"examples/Split-train/t-{number}"
        shard = IndexedShard(name, 3 * count, 10 + 100 * count, "00000000")
        parts = PartColumns(
            shard=np.zeros(count, np.int32),
            offset=10 + 100 * np.arange(count),
            bytes=np.full(count, 100),
            framed_bytes=np.arange(count) + 200,
            rows=np.full(count, 3, np.int32),
            crc32=(np.arange(count) + number).astype(np.uint32),
        )
        write_own_index(shard, "gzip", parts, folder)
        shards.append(shard)
    return shards


def test_indexes_are_joined_in_order(tmp_path):
    """Parts come in the order of the shards."""
    counts = [2, 0, *range(40), 0]
    index = join_indexes(write(str(tmp_path), counts), "gzip", str(tmp_path))
    assert index.columns.shard.tolist() == [
        n for n, count in enumerate(counts) for _ in range(count)
    ]
    assert index.columns.offset.tolist() == [10 + 100 * n for count in counts for n in range(count)]
    assert index.columns.crc32.tolist() == [
        n + number for number, count in enumerate(counts) for n in range(count)
    ]
    assert index.first_row.tolist() == list(range(0, 3 * sum(counts), 3))
    assert [column.dtype for column in index.columns] == [
        np.int32,
        np.int64,
        np.int64,
        np.int64,
        np.int32,
        np.uint32,
    ]


def test_no_parts(tmp_path):
    """A split without rows has an index without parts."""
    assert len(join_indexes(write(str(tmp_path), [0]), "gzip", str(tmp_path))) == 0


def test_memory(tmp_path):
    """The peak is below twice the bytes of the index."""
    shards = write(str(tmp_path), [2000] * 200)
    join_indexes(shards[:2], "gzip", str(tmp_path))
    tracemalloc.start()
    join_indexes(shards, "gzip", str(tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / (2000 * 200) < 75
