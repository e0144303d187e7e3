"""Computes a split's order of rows from seed, epoch and position.

An epoch reads the split's extents (``tfrecord/part_index.py``) in random order, in *windows* of
extents with 32 MiB of records. The runs of a window's extents have a random order, too, so that a
rank reads some of several extents. Where rows were not shuffled when they were written, an epoch
orders parts instead, as more parts mix better. Each position of a window takes the next row of one
of its parts. The rows of a part come in random order. A binary tree deals the positions: a node
gives its left half the share that this half has of the rows, so every part advances in proportion
to its rows, and its share of the first positions has a closed form. Nothing depends on batches or
on the number of ranks.

Ranks divide a *global batch* by the places of its parts in their windows: each reads few parts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int

# Another order of the same dataset is another version.
ORDER_VERSION = 3
# Bytes of framed records in a window.
WINDOW_BYTES = 32 << 20
# Parts whose rows are ordered in one call.
MOST_PARTS = 8
_FRACTION_BITS = 32
_EPOCH, _PARTS, _ROWS, _TREE, _BATCH, _SHARES, _RUNS = range(7)
# Bits of a random number behind that of a window.
_RANDOM_BITS = 40

Int64s = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The order of one epoch.

    Attributes:
      key: of its random numbers; ``None``: rows have the order of the parts.
      parts: int64[n], the split's parts in the order of reading. A part's index is its *place*.
      rows: int64[n], of each of them, 1 or more.
      windows: int64[windows + 1], the first place of each window, and n.
      edges: int64[windows + 1], the first position of each window, and the number of rows.
    """

    key: int | None
    parts: Int64s
    rows: Int64s
    windows: Int64s
    edges: Int64s

    def sizes(self, windows: Int64s) -> Int64s:
        """Returns the rows of windows' parts, int64[n, parts of the longest window]."""
        places = self.windows[windows][:, None] + np.arange(np.diff(self.windows).max())
        is_own = places < self.windows[windows + 1][:, None]
        return np.where(is_own, self.rows[np.minimum(places, len(self.rows) - 1)], 0)

    def shares(self, windows: Int64s, positions: Int64s) -> Int64s:
        """Returns the rows of each part before a position in its window.

        Args:
          windows: int64[n].
          positions: int64[n], counted from the start of the window.

        Returns:
          int64[n, parts of the longest window]; the sum of a row is its position.
        """
        sizes = self.sizes(windows)
        if self.key is None:
            before = np.cumsum(sizes, axis=1) - sizes
            return np.clip(positions[:, None] - before, 0, sizes)
        hashes = mix(windows.astype(np.uint64) + np.uint64(GOLDEN))
        return deal(sizes, positions, mix(hashes ^ np.uint64(_key(self.key, _TREE))))

    def permutation(self, places: Int64s) -> Int64s:
        """Returns the order of the rows of a few parts.

        Args:
          places: at most ``MOST_PARTS``.

        Returns:
          For each part its rows' numbers in order, one part after the other. They are counted from
          the first row of the first part.
        """
        rows = self.rows[places]
        if self.key is None:
            return np.arange(int(rows.sum()))
        key, parts = _key(self.key, _ROWS), self.parts[places]
        return _native.order_rows(key, parts.tolist(), rows.tolist())


class Entries(NamedTuple):
    """What batches take of parts, as neighbouring rows of a part's order.

    Attributes:
      batches: int64[n], the number of the batch.
      fractions: int64[n], the part's place in its window; ranks divide a batch in this order.
      sources: int64[n], the number of the epoch.
      places: int64[n], the part.
      starts, ends: int64[n], in the part's order.
    """

    batches: Int64s
    fractions: Int64s
    sources: Int64s
    places: Int64s
    starts: Int64s
    ends: Int64s


def make_epoch(
    rows_of_parts: Int64s,
    extents: Int64s,
    runs: Int64s,
    framed_bytes: int,
    seed: int,
    number: int,
    is_shuffled: bool,
) -> Epoch:
    """Returns the order of an epoch.

    Args:
      rows_of_parts: int64[n], 1 or more rows each, in the order of the shards.
      extents: int64[extents + 1], the first part of each extent, and n.
      runs: the same of the extents' runs.
      framed_bytes: size of all parts' framed records.
      seed: 0 or more.
      number: of the epoch, from 0.
      is_shuffled: otherwise rows have the order of the parts.
    """
    count = len(extents) - 1
    key = _key(seed, _EPOCH, number) if is_shuffled else None
    order = np.arange(count) if key is None else permutation(_key(key, _PARTS), count)
    num_windows = -(-count // max(1, WINDOW_BYTES // max(1, framed_bytes // count)))
    windows = np.arange(num_windows + 1) * count // num_windows  # none is much smaller
    parts = order
    if count < len(rows_of_parts):
        own, starts = _expand(np.searchsorted(runs, extents), order)
        windows = starts[windows]
        if key is not None:
            own = own[_order_in_windows(_key(key, _RUNS), windows)]
        parts, starts = _expand(runs, own)
        windows = starts[windows]
    rows = rows_of_parts[parts]
    edges = np.concatenate([[0], np.cumsum(np.add.reduceat(rows, windows[:-1]))])
    return Epoch(key, parts, rows, windows, edges.astype(np.int64))


def _expand(edges: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Returns the members of groups in the order of the groups.

    Args:
      edges: int64[groups + 1], the first member of each group, and the number of members.
      order: int64[groups], numbers of groups.

    Returns:
      The members, and the place of the first one of each group, with the number of all.
    """
    lengths = np.diff(edges)[order]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    members = np.repeat(edges[order] - starts[:-1], lengths) + np.arange(starts[-1])
    return members, starts


def _order_in_windows(key: int, windows: Int64s) -> Int64s:
    """Returns places, those of each window in random order."""
    places = np.arange(int(windows[-1]), dtype=np.uint64)
    random = mix(places * np.uint64(GOLDEN) + np.uint64(key)) >> np.uint64(64 - _RANDOM_BITS)
    numbers = np.repeat(np.arange(len(windows) - 1), np.diff(windows)).astype(np.uint64)
    return np.argsort(numbers << np.uint64(_RANDOM_BITS) | random, kind="stable")


def deal(sizes: Int64s, positions: Int64s, keys: npt.NDArray[np.uint64]) -> Int64s:
    """Deals the positions before a position to parts by their sizes.

    Args:
      sizes: int64[n, m], below 2**31 together in each row.
      positions: int64[n], from 0 to the sum of the sizes.
      keys: uint64[n], of random numbers.

    Returns:
      int64[n, m], the number of positions of each part. With the position, none gets smaller, and
      one gets larger.
    """
    width = sizes.shape[1]
    full = 1 << max(0, width - 1).bit_length()
    levels = [np.pad(sizes, ((0, 0), (0, full - width)))]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1][:, ::2] + levels[-1][:, 1::2])
    dealt = positions[:, None]
    for halves, totals in zip(levels[-2::-1], levels[:0:-1], strict=True):
        nodes = totals.shape[1] + np.arange(totals.shape[1], dtype=np.uint64)
        random = mix(keys[:, None] + nodes * np.uint64(GOLDEN)) >> np.uint64(1)
        divisors = np.maximum(totals, 1)
        left = (dealt * halves[:, ::2] + random.view(np.int64) % divisors) // divisors
        dealt = np.stack([left, dealt - left], axis=2).reshape(halves.shape)
    return dealt[:, :width]


def weighted_shares(weights: Sequence[int], seed: int, positions: Int64s) -> Int64s:
    """Deals positions to datasets, in proportion to their weights.

    Args:
      weights: 1 or more each.
      seed: of the order.
      positions: int64[n].

    Returns:
      int64[n, datasets], the number of positions of each before a position.
    """
    total = sum(weights)
    rounds, rest = np.divmod(positions, total)
    key = np.array([_key(seed, _SHARES)], np.uint64)
    sizes = np.array(weights, np.int64)[None]
    return rounds[:, None] * sizes + deal(
        np.repeat(sizes, len(rest), axis=0), rest, np.repeat(key, len(rest))
    )


def take(epoch: Epoch, source: int, batches: Int64s, starts: Int64s, ends: Int64s) -> Entries:
    """Returns what batches take of an epoch.

    Args:
      epoch: the order.
      source: number of the epoch.
      batches: int64[n], numbers of batches.
      starts, ends: int64[n], the positions that each of them takes, one or more.
    """
    first = np.searchsorted(epoch.edges, starts, side="right") - 1
    counts = np.searchsorted(epoch.edges, ends, side="left") - first
    pieces = np.repeat(np.arange(len(starts)), counts)
    windows = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(len(pieces))
    behind = epoch.sizes(windows)
    before = np.zeros_like(behind)
    for shares, cuts in ((before, starts), (behind, ends)):
        positions = cuts[pieces] - epoch.edges[windows]
        is_cut = (positions > 0) & (positions < np.diff(epoch.edges)[windows])
        shares[is_cut] = epoch.shares(windows[is_cut], positions[is_cut])
    segments, parts = np.nonzero(behind > before)
    windows, pieces = windows[segments], pieces[segments]
    starts_in, ends_in = before[segments, parts], behind[segments, parts]
    if epoch.key is None:
        lengths = ends_in - starts_in
        passed = np.cumsum(lengths) - lengths
        passed -= (np.cumsum(ends - starts) - (ends - starts))[pieces]
        fractions = (passed << _FRACTION_BITS) // (ends - starts)[pieces]
    else:
        width = np.diff(epoch.windows)[windows]
        fractions = ((2 * parts + 1) << _FRACTION_BITS) // (2 * width)
    return Entries(
        batches[pieces],
        fractions,
        np.full(len(segments), source),
        epoch.windows[windows] + parts,
        starts_in,
        ends_in,
    )


def divide(
    taken: Iterable[Entries], sizes: Int64s, rank: int, world_size: int
) -> tuple[Entries, Int64s]:
    """Returns a rank's part of global batches.

    Args:
      taken: what the batches take of each epoch.
      sizes: int64[n], rows of each batch.
      rank, world_size: a batch of m rows is cut at ``m * rank // world_size``.

    Returns:
      What the rank takes, batch by batch, and its rows of each batch, int64[n].
    """
    joined = [np.concatenate(arrays) for arrays in zip(*taken, strict=True)]
    ordered = np.lexsort((joined[1], joined[0]))
    found = Entries(*(array[ordered] for array in joined))
    counts = found.ends - found.starts
    before = np.cumsum(counts) - counts - (np.cumsum(sizes) - sizes)[found.batches]
    first, last = sizes * rank // world_size, sizes * (rank + 1) // world_size
    starts = found.starts + np.clip(first[found.batches] - before, 0, counts)
    ends = found.starts + np.clip(last[found.batches] - before, 0, counts)
    own = Entries(*(array[ends > starts] for array in found._replace(starts=starts, ends=ends)))
    return own, last - first


def spread(seed: int, sizes: Int64s) -> Int64s:
    """Returns an order of rows that is random within each batch.

    Batches of one size have one order.

    Args:
      seed: of the order.
      sizes: int64[n], rows of each batch.

    Returns:
      int64[sum of sizes].
    """
    starts = np.cumsum(sizes) - sizes
    order = np.empty(int(sizes.sum()), np.int64)
    for size in set(sizes.tolist()):  # np.unique imports np.ma, for 20 ms
        own = starts[sizes == size][:, None] + np.arange(size)
        order[own] = own[:, _order_in_batch(seed, size)]
    return order


@functools.lru_cache(maxsize=8)  # full batches and last ones differ in size
def _order_in_batch(seed: int, size: int) -> Int64s:
    return permutation(_key(seed, _BATCH), size)


def permutation(key: int, count: int) -> Int64s:
    """Returns the numbers below ``count`` in the order of a key."""
    bits = np.uint64((1 << max(1, count).bit_length()) - 1)
    numbers = np.arange(count, dtype=np.uint64)
    random = mix(numbers * np.uint64(GOLDEN) + np.uint64(key))
    random &= ~bits
    random |= numbers
    random.sort()
    random &= bits
    return random.view(np.int64)


def _key(*numbers: int) -> int:
    """Returns the key of random numbers that depend on some numbers alone."""
    key = 0
    for number in numbers:
        key = mix_int(key + GOLDEN ^ mix_int(number + GOLDEN))
    return key
