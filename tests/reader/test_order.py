"""The order has each row once, whatever the ranks and resumes."""

from __future__ import annotations

import itertools
import math
import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from beam_pipelines.reader import order
from tests.support.kernels import without_kernels

PARTS = st.lists(st.integers(1, 40), min_size=1, max_size=40).map(np.array)


def epoch_of(
    rows, part_bytes: int, seed: int, number: int, is_shuffled=True, runs=None
) -> order.Epoch:
    """Returns an epoch of equal parts, with extents of two runs.

    Without ``runs`` each part is an extent.
    """
    runs = np.arange(len(rows) + 1) if runs is None else np.array([*runs, len(rows)])
    extents = runs if len(runs) == len(rows) + 1 else np.array([*runs[:-1:2], len(rows)])
    size = part_bytes * len(rows)
    return order.make_epoch(np.array(rows), extents, runs, size, seed, number, is_shuffled)


def orders_of(epoch: order.Epoch) -> list[np.ndarray]:
    """Returns each place's rows, as part * 1000 + number."""
    found = []
    for start in range(0, len(epoch.parts), order.MOST_PARTS):
        places = np.arange(start, min(len(epoch.parts), start + order.MOST_PARTS))
        rows = epoch.rows[places]
        before = np.repeat(np.cumsum(rows) - rows, rows)
        numbers = epoch.permutation(places) - before
        part = np.repeat(epoch.parts[places], rows)
        found += np.split(part * 1000 + numbers, np.cumsum(rows)[:-1])
    return found


def read(epoch: order.Epoch, orders, start: int, size: int, world_size: int = 1, ranks=None):
    """Returns each global batch from a position on, rank by rank."""
    rows = int(epoch.edges[-1])
    starts = np.arange(start, rows, size)
    ends = np.minimum(starts + size, rows)
    if not len(starts):
        return []
    taken = order.take(epoch, 0, np.arange(len(starts)), starts, ends)
    batches = [[] for _ in starts]
    for rank in range(world_size) if ranks is None else ranks:
        own, sizes = order.divide([taken], ends - starts, rank, world_size)
        found = [
            orders[place][first:last]
            for place, first, last in zip(own.places, own.starts, own.ends, strict=True)
        ]
        flat = np.concatenate(found) if found else np.zeros(0, np.int64)
        assert own.batches.tolist() == sorted(own.batches.tolist())
        for batch, part in zip(batches, np.split(flat, np.cumsum(sizes)[:-1]), strict=True):
            batch.append(part)
    return batches


def joined(batches):
    return [np.concatenate(batch).tolist() for batch in batches]


@given(PARTS, st.integers(0, 2**64 - 1))
def test_deal(sizes, key):
    """Each position goes to one part, and all parts keep pace."""
    rows = int(sizes.sum())
    positions = np.arange(rows + 1)
    dealt = order.deal(np.tile(sizes, (rows + 1, 1)), positions, np.full(rows + 1, key, np.uint64))
    assert dealt.sum(axis=1).tolist() == positions.tolist()
    assert dealt[-1].tolist() == sizes.tolist()
    steps = np.diff(dealt, axis=0)
    assert ((steps == 0) | (steps == 1)).all()
    share = positions[:, None] * sizes / rows
    assert np.abs(dealt - share).max() <= math.log2(len(sizes)) + 1


def test_deal_of_many_rows():
    """Products of large numbers do not overflow."""
    sizes = np.array([[1 << 29, 1 << 30, (1 << 29) - 1]])
    half = order.deal(sizes, np.array([1 << 30]), np.array([7], np.uint64))
    assert np.abs(half - sizes / 2).max() <= 3
    shares = order.weighted_shares([3, 1], 1, np.array([0, 10**12, 10**12 + 1]))
    assert shares.sum(axis=1).tolist() == [0, 10**12, 10**12 + 1]
    assert np.abs(shares[1] - [750 * 10**9, 250 * 10**9]).max() <= 2


@given(st.data())
def test_every_row_once(data):
    """An epoch has every row once.

    Batch sizes do not change which rows come first.
    """
    rows = data.draw(PARTS)
    is_shuffled = data.draw(st.booleans())
    runs = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=10)) - {len(rows)})
    part_bytes = data.draw(st.sampled_from([1, 4 << 20, 64 << 20]))
    epoch = epoch_of(rows, part_bytes, 3, 1, is_shuffled, [0, *runs])
    orders = orders_of(epoch)
    expected = [part * 1000 + row for part, count in enumerate(rows) for row in range(count)]
    first, second = (joined(read(epoch, orders, 0, data.draw(st.integers(1, 50)))) for _ in "ab")
    for batches in (first, second):
        assert sorted(itertools.chain(*batches)) == expected
        if not is_shuffled:
            assert list(itertools.chain(*batches)) == expected
    edges = {0}
    for batch in first:
        edges.add(max(edges) + len(batch))
    passed = 0
    for batch in second:
        passed += len(batch)
        if passed in edges:
            assert set(itertools.chain(*first[: sorted(edges).index(passed)])) == set(
                itertools.chain(*second[: second.index(batch) + 1])
            )


def test_resumed_with_other_ranks():
    """Two hundred epochs are killed, and other ranks resume them.

    The rest has each row once. If the global batch is the same, so are global batches, row by row.
    """
    draw = random.Random(20)
    epochs = []
    for number in range(20):
        rows = np.array([draw.randint(1, 40) for _ in range(draw.randint(1, 40))])
        part_bytes = draw.choice([1 << 20, 4 << 20, 64 << 20])
        runs = sorted({0, *draw.choices(range(len(rows)), k=draw.choice([3, 200]))})
        is_shuffled = draw.random() < 0.8
        epoch = epoch_of(rows, part_bytes, number, draw.randint(0, 9), is_shuffled, runs)
        epochs.append((epoch, orders_of(epoch)))
    for _ in range(200):
        epoch, orders = draw.choice(epochs)
        rows = int(epoch.edges[-1])
        before, after = draw.randint(1, 64), draw.randint(1, 64)
        is_equal = draw.random() < 0.5
        size = math.lcm(before, after) if is_equal else before * draw.randint(1, 4)
        kill = draw.randint(0, rows // size)
        first = joined(read(epoch, orders, 0, size, before))[:kill]
        other = size if is_equal else after * draw.randint(1, 4)
        rest = joined(read(epoch, orders, min(rows, kill * size), other, after))
        assert sorted(itertools.chain(*first, *rest)) == sorted(itertools.chain(*orders))
        if is_equal:
            assert first + rest == joined(read(epoch, orders, 0, size))


@pytest.mark.parametrize("world_size", [2, 8, 64, 512])
@pytest.mark.parametrize("batch_size", [16, 256])
def test_ranks_read_few_parts(world_size, batch_size):
    """A rank of n reads about one part in n."""
    epoch = epoch_of([400] * 1280, 256 << 10, 1, 0)
    assert np.diff(epoch.windows).tolist() == [128] * 10
    size = batch_size * world_size
    starts = np.arange(0, epoch.edges[-1] - size + 1, size)
    taken = order.take(epoch, 0, np.arange(len(starts)), starts, starts + size)
    read_parts = []
    for rank in range(0, world_size, max(1, world_size // 8)):
        own, sizes = order.divide([taken], np.full(len(starts), size), rank, world_size)
        assert (sizes == batch_size).all()
        read_parts.append(len(np.unique(own.places)) / (128 * 10))
    # Two ranks may share the part between them.
    window_parts = max(1, size / (128 * 400)) * 128
    assert max(read_parts) <= 1 / world_size + 4 / window_parts


def test_batches_are_mixed():
    """A batch has rows of all parts of a window."""
    epoch = epoch_of([400] * 256, 256 << 10, 1, 0)
    orders = orders_of(epoch)
    for batch in joined(read(epoch, orders, 0, 1280))[:40]:
        counts = np.bincount(np.array(batch) // 1000, minlength=256)
        assert counts.sum() == 1280
        assert (counts > 0).sum() == 128
        assert counts.max() <= 10 + 7
    order_of_part = orders[0] % 1000
    assert abs(np.corrcoef(order_of_part[1:], order_of_part[:-1])[0, 1]) < 0.2


def test_runs_stay_neighbours():
    """Windows have whole extents, with their runs in random order."""
    draw = random.Random(7)
    orders = set()
    for seed in range(99):
        count = draw.randint(3, 60)
        runs = sorted({0, *draw.choices(range(count), k=draw.randint(1, count // 2))})
        epoch = epoch_of([5] * count, 3 << 20, seed, 0, runs=runs)
        assert sorted(epoch.parts.tolist()) == list(range(count))
        are_firsts = np.isin(epoch.parts, runs)
        assert are_firsts.sum() == len(runs)
        behind = ~are_firsts[1:]
        assert (np.diff(epoch.parts)[behind] == 1).all()
        of_extent = np.searchsorted(runs[::2], np.arange(count), side="right")
        windows = np.repeat(np.arange(len(epoch.windows) - 1), np.diff(epoch.windows))
        pairs = set(zip(of_extent[epoch.parts].tolist(), windows.tolist(), strict=True))
        assert len(pairs) == len(runs[::2])
        orders.add(tuple(epoch_of([5] * 9, 1, seed, 0, runs=[0, 2, 4, 6]).parts.tolist()))
    assert len(orders) == 24


def test_seeds_and_epochs_differ():
    """Another seed or epoch is another order; equal ones are equal."""
    found = []
    for seed, number in [(1, 0), (1, 0), (2, 0), (1, 1)]:
        epoch = epoch_of([50] * 8, 1, seed, number)
        found.append(joined(read(epoch, orders_of(epoch), 0, 50)))
    assert found[0] == found[1]
    assert found[0] != found[2] != found[3] != found[0]


def test_order_is_pinned():
    """States go on with the same rows, with any numpy."""
    epoch = epoch_of([3, 4, 2], 16 << 20, 7, 2)
    assert joined(read(epoch, orders_of(epoch), 0, 4)) == PINNED
    assert order.spread(7, np.array([4, 4, 2])).tolist() == SPREAD
    assert order.weighted_shares([2, 1], 7, np.arange(7)).T.tolist() == SHARES
    assert (order.ORDER_VERSION, order.WINDOW_BYTES) == (3, 32 << 20)


PINNED = [[1, 0, 2, 1000], [2001, 2000, 1001, 1002], [1003]]
SPREAD = [1, 3, 2, 0, 5, 7, 6, 4, 9, 8]
SHARES = [[0, 1, 2, 2, 3, 4, 4], [0, 0, 0, 1, 1, 1, 2]]


@given(st.integers(0, 2**64 - 1), st.integers(0, 300))
def test_permutation(key, count):
    """A permutation has each number once."""
    assert sorted(order.permutation(key, count).tolist()) == list(range(count))


@given(st.lists(st.integers(1, 600), min_size=1, max_size=8), st.integers(0, 2**32))
def test_order_of_the_kernel(rows, seed):
    """The kernel orders rows as numpy does."""
    epoch = epoch_of(rows, 1 << 20, seed, 3)
    places = np.arange(len(rows))
    found = epoch.permutation(places).tolist()
    with without_kernels():
        assert found == epoch.permutation(places).tolist()
    edges = np.cumsum([0, *epoch.rows]).tolist()
    for start, end in itertools.pairwise(edges):
        assert sorted(found[start:end]) == list(range(start, end))


def test_many_parts():
    """The order of a billion rows keeps its numbers."""
    rows = np.full(2_400_000, 420)
    epoch = epoch_of(rows, 256 << 10, 1, 5, runs=range(0, len(rows), 16))
    starts = 700_000_000 + 8192 * np.arange(16)
    taken = order.take(epoch, 0, np.arange(16), starts, starts + 8192)
    assert (taken.ends - taken.starts).sum() == 16 * 8192
    own, sizes = order.divide([taken], np.full(16, 8192), 5, 8)
    assert sizes.tolist() == [1024] * 16
    assert len(np.unique(own.places)) < 80
