"""The order has each row once, whatever the ranks and resumes."""

from __future__ import annotations

import functools
import itertools
import math
import operator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from beam_pipelines.reader import order
from beam_pipelines.reader.order import Epoch, Stretches, floor_sums, make_epoch, stretches

SHARDS = st.lists(st.integers(0, 40), min_size=1, max_size=40).filter(any)


def rows_of(epoch: Epoch, found: Stretches) -> list[list[tuple[int, int]]]:
    """Returns a rank's batches of rows: shard, and number in it."""
    orders = []
    for lane in epoch.lanes:
        rows = [(shard, row) for shard in lane.shards for row in range(COUNTS[shard])]
        places: list[tuple[int, int]] = []
        while len(places) < lane.rows:
            window = lane.window_of(len(places))
            start, end = lane.bounds(window)
            assert start == len(places) < end
            places += [rows[start + row] for row in epoch.permutation(lane, window)]
        orders.append(places)
    taken = [
        row
        for lane, start, end in zip(found.lanes, found.starts, found.ends, strict=True)
        for row in orders[lane][start:end]
    ]
    edges = np.concatenate([[0], np.cumsum(found.sizes)]).tolist()
    assert edges[-1] == len(taken)
    return [taken[start:end] for start, end in itertools.pairwise(edges)]


COUNTS: list[int] = []


def read(epoch: Epoch, start: int, batch_size: int, world_size: int) -> list[list[tuple[int, int]]]:
    """Returns the global batches from a position on.

    Parts of all ranks follow one another.
    """
    size = batch_size * world_size
    positions = np.append(np.arange(start, epoch.rows, size), epoch.rows)
    parts = [
        rows_of(epoch, stretches(epoch, positions, rank, world_size)) for rank in range(world_size)
    ]
    return [functools.reduce(operator.iadd, batch, []) for batch in zip(*parts, strict=True)]


@given(
    st.integers(1, 200),
    st.integers(0, 199),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 400)), min_size=1, max_size=5),
)
def test_floor_sums(modulus, factor, pairs):
    """Sums of quotients are those of a plain loop."""
    factor %= modulus
    counts, offsets = np.array(pairs, np.int64).T
    expected = [sum((factor * i + b) // modulus for i in range(n)) for n, b in pairs]
    assert floor_sums(counts, modulus, factor, offsets).tolist() == expected


def test_floor_sums_of_many_rows():
    """Sums of more than 64 bits in between are exact."""
    rows = 10**12
    epoch = make_epoch([rows // 4] * 4, 100, 1, 0, True)
    taken = epoch.taken(np.array([0, rows // 3, rows], np.int64))
    assert taken.sum(axis=1).tolist() == [0, rows // 3, rows]
    assert (abs(taken[1] - rows / 12) < 10).all()
    assert taken[2].tolist() == [rows // 4] * 4


@given(SHARDS, st.integers(0, 5), st.booleans())
def test_lanes_take_turns(counts, seed, is_shuffled):
    """Lanes' rows before a position are those of a plain loop."""
    epoch = make_epoch(counts, 100, seed, 0, is_shuffled)
    lanes = [
        int(np.searchsorted(epoch.edges, p * epoch.step % epoch.rows, side="right")) - 1
        for p in range(epoch.rows)
    ]
    taken = epoch.taken(np.arange(epoch.rows + 1))
    for position in range(epoch.rows + 1):
        expected = np.bincount(lanes[:position], minlength=len(epoch.lanes))
        assert taken[position].tolist() == expected.tolist()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_resumed_with_other_ranks(data):
    """An epoch that other ranks resume has the same global batches.

    Each row comes once.
    """
    COUNTS[:] = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any))
    rows = sum(COUNTS)
    world_size, other = data.draw(st.tuples(st.integers(1, 64), st.integers(1, 64)))
    size = math.lcm(world_size, other) * data.draw(st.integers(1, 3))
    epoch = make_epoch(
        COUNTS,
        data.draw(st.sampled_from([100, 10**5, 10**6])),
        data.draw(st.integers(0, 3)),
        data.draw(st.integers(0, 3)),
        data.draw(st.booleans()),
    )
    whole = read(epoch, 0, size, 1)
    assert sorted(functools.reduce(operator.iadd, whole, [])) == [
        (shard, row) for shard, count in enumerate(COUNTS) for row in range(count)
    ]
    kill = data.draw(st.integers(0, len(whole) - 1))
    before = read(epoch, 0, size // world_size, world_size)[:kill]
    after = read(epoch, min(rows, kill * size), size // other, other)
    assert before + after == whole


@given(SHARDS)
def test_in_order(counts):
    """Without a shuffle, rows have the order of the shards."""
    COUNTS[:] = counts
    found = read(make_epoch(counts, 10**5, 1, 0, False), 0, 7, 1)
    assert functools.reduce(operator.iadd, found, []) == [
        (s, row) for s, count in enumerate(counts) for row in range(count)
    ]


def test_seeds_and_epochs_differ():
    """Another seed or epoch is another order; equal ones are equal."""
    COUNTS[:] = [50] * 4
    orders = [
        read(make_epoch(COUNTS, 10**5, seed, number, True), 0, 50, 1)
        for seed, number in [(1, 0), (1, 0), (2, 0), (1, 1)]
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] != orders[3] != orders[0]


def test_order_is_pinned():
    """States of earlier versions go on with the same rows."""
    COUNTS[:] = [3, 4, 2]
    found = read(make_epoch(COUNTS, 10**6, 7, 2, True), 0, 4, 1)
    assert found == PINNED
    assert (order.ORDER_VERSION, order.MAX_LANES, order.WINDOW_BYTES) == (1, 32, 32 << 20)


PINNED = [[(0, 2), (1, 1), (1, 0), (2, 0)], [(0, 0), (1, 2), (1, 3), (2, 1)], [(0, 1)]]


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_ranks_read_few_lanes(world_size):
    """A rank of n reads about one lane in n."""
    epoch = make_epoch([1000] * 32, 100, 1, 0, True)
    positions = np.arange(0, 32_001, 32 * 8)
    for rank in range(world_size):
        lanes = np.unique(stretches(epoch, positions, rank, world_size).lanes)
        assert len(lanes) <= 32 // world_size + 2
