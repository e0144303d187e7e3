"""transforms/shuffle.py deals every row to one shard, evenly, and repeatably."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms import shuffle
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.shards import ShardPlan, SplitShards

SCHEMA = pa.schema({"row": pa.binary()})
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=6)


def block_of(payload: bytes, partition: int, partitions: int) -> bytes:
    """Returns the block of a partition in a shard's payload."""
    bounds = shuffle.block_bounds(payload[len(payload) - shuffle.index_bytes(partitions) :])
    return payload[bounds[partition] : bounds[partition + 1]]


def deal(sizes: list[int], num_shards: int, partitions: int, output: Output) -> list[list[bytes]]:
    """Scatters chunks of given sizes, and returns the shards as positions."""
    offsets = {(number, 0): sum(sizes[:number]) for number in range(len(sizes))}
    plan = ShardPlan(
        {"train": SplitShards("train", sum(sizes), num_shards, partitions, 0, offsets)}
    )
    messages: list[Message] = []
    for number, size in enumerate(sizes):
        start = offsets[number, 0]
        batch = pa.RecordBatch.from_pydict(
            {"row": [str(row).encode() for row in range(start, start + size)]}, SCHEMA
        )
        chunk = shuffle.shuffle_chunk(Chunk(number, 0, batch, {}, split="train"), output)
        messages += shuffle.scatter(plan, output, "train", (number, 0), chunk.batch)
    shards = []
    for shard in range(num_shards):
        written: list[bytes] = []
        for partition in range(partitions):
            sent = sorted(message for message in messages if shard in message.payloads)
            blocks = [
                block_of(b"".join(message.payloads[shard]), partition, partitions)
                for message in sent
            ]
            batch = shuffle.unpack_blocks([block for block in blocks if block])
            records = np.array(batch["row"] if batch else [], object)
            order = shuffle.written_order(output, shard, partition, len(records))
            written += list(records if order is None else records[order])
        shards.append(written)
    return shards


@given(SIZES, st.integers(1, 5), st.integers(1, 3), st.booleans(), st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_every_row_once_and_evenly(
    sizes: list[int], num_shards: int, partitions: int, by_seed: bool, seed: int
) -> None:
    """Each row is in one shard.

    Shards differ by one row for each partition.
    """
    shards = deal(sizes, num_shards, partitions, Output(shuffle=by_seed, shuffle_seed=seed))
    rows = [int(record) for shard in shards for record in shard]
    assert sorted(rows) == list(range(sum(sizes)))
    lengths = [len(shard) for shard in shards]
    assert max(lengths) - min(lengths) <= 1


def test_many_shards_get_few_blocks_of_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many shards get few blocks of each chunk and stay even.

    With more places than blocks, rows are dealt in packs.
    """
    monkeypatch.setattr(shuffle, "MAX_BLOCKS", 16)
    shards = deal([640] * 100, 20, 2, Output())
    assert sorted(int(record) for shard in shards for record in shard) == list(range(64_000))
    assert [len(shard) for shard in shards] == pytest.approx([3200] * 20, rel=0.03)
    plan = ShardPlan(
        {
            "train": SplitShards(
                "train", 64_000, 20, 2, 0, {(chunk, 0): 640 * chunk for chunk in range(100)}
            )
        }
    )
    batch = pa.RecordBatch.from_pydict({"row": [b""] * 640}, SCHEMA)
    messages = list(shuffle.scatter(plan, Output(), "train", (7, 0), batch))
    (payloads,) = (message.payloads.values() for message in messages)
    assert (
        16
        <= sum(
            bool(block_of(b"".join(payload), number, 2))
            for payload in payloads
            for number in range(2)
        )
        <= 17
    )


@pytest.mark.parametrize(("rows", "num_shards"), [(1000, 600), (100, 1000), (0, 300)])
def test_very_many_small_shards_are_even(rows: int, num_shards: int) -> None:
    """A given number of shards differ by one row.

    This holds for any number of rows.
    """
    lengths = [len(shard) for shard in deal([rows], num_shards, 1, Output())]
    assert max(lengths) - min(lengths) <= 1


@given(SIZES, st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_without_shuffle_shards_follow_the_source(
    sizes: list[int], num_shards: int, partitions: int
) -> None:
    """Shard after shard, the rows are in source order."""
    shards = deal(sizes, num_shards, partitions, Output(shuffle=False))
    assert [int(record) for shard in shards for record in shard] == list(range(sum(sizes)))


def test_seed_decides_the_order() -> None:
    """The same seed gives the same order, another seed another."""
    first = deal([1000], 3, 2, Output(shuffle_seed=1))
    assert first == deal([1000], 3, 2, Output(shuffle_seed=1))
    assert first != deal([1000], 3, 2, Output(shuffle_seed=2))


def test_shuffle_is_global_and_looks_random() -> None:
    """A row's output place hardly depends on its source place."""
    shards = deal([20_000, 20_000, 10_000], 4, 2, Output())
    places = np.array([int(record) for shard in shards for record in shard])
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.02
    neighbours = np.mean(np.abs(np.diff(places)) == 1)
    assert neighbours < 0.001
    for shard in shards:  # every shard has its share of every third of the source
        thirds = np.bincount(np.array(shard).astype(int) * 3 // 50_000, minlength=3) / len(shard)
        assert thirds == pytest.approx([1 / 3] * 3, abs=0.02)


def test_permutation_is_pinned() -> None:
    """The permutation never changes.

    A seed has to give the same order forever.
    """
    assert shuffle.permutation((7, 1), 8).tolist() == PINNED


PINNED = [5, 4, 0, 2, 6, 7, 3, 1]


@pytest.mark.parametrize("compress", [False, True])
def test_blocks_round_trip_slices(compress: bool) -> None:
    """Packing a slice packs its own records only."""
    batch = pa.RecordBatch.from_pydict(
        {"row": [os.urandom(100_000), b"a", b"b", os.urandom(100_000)]}, SCHEMA
    )
    payload = b"".join(
        shuffle.pack_blocks({0: batch.slice(1, 2), 2: batch.slice(2, 1)}, 4, compress)
    )
    assert len(payload) < 2000
    blocks = [block_of(payload, partition, 4) for partition in range(4)]
    assert [bool(block) for block in blocks] == [True, False, True, False]
    assert shuffle.unpack_blocks([blocks[0], blocks[2], blocks[0]])["row"].to_pylist() == [
        b"a",
        b"b",
        b"b",
        b"a",
        b"b",
    ]
    assert shuffle.unpack_blocks([]) is None
