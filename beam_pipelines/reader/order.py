"""Computes a split's order of rows from seed, epoch and position.

The shards of an epoch are dealt to *lanes*, which are read at once. Position p of the epoch takes
the next row of a lane: that with ``p * step % rows`` in its interval. The multiples of a step near
the golden section are spread evenly, so lanes advance in proportion to their rows, and a lane's
share of the first p positions has a closed form. A lane is shuffled in windows. Nothing depends on
batches or on the number of ranks.

A global batch is laid out lane after lane before ranks divide it: a rank reads few lanes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Another order of the same dataset is another version.
ORDER_VERSION = 1
MAX_LANES = 32
# Bytes of framed records in the windows of all lanes.
WINDOW_BYTES = 32 << 20
_GOLDEN = (math.sqrt(5) - 1) / 2

Int64s = npt.NDArray[np.int64]


class Stretches(NamedTuple):
    """A rank's part of global batches, as neighbouring places of lanes.

    Attributes:
      lanes, starts, ends: int64[n], the number of a lane, and places in its order.
      sizes: int64[batches], rows of the rank's part of each batch.
    """

    lanes: Int64s
    starts: Int64s
    ends: Int64s
    sizes: Int64s


@dataclasses.dataclass(frozen=True)
class Lane:
    """Shards that are read one after the other.

    Attributes:
      number: of the lane.
      shards: their numbers, in the order of reading.
      rows: of all its shards.
      window: rows of a window; 0: the lane is not shuffled.
      first: rows of the first window, so that lanes do not begin windows at once.
    """

    number: int
    shards: tuple[int, ...]
    rows: int
    window: int
    first: int

    def window_of(self, place: int) -> int:
        """Returns the number of the window that has a place."""
        return 0 if place < self.first else 1 + (place - self.first) // self.window

    def bounds(self, window: int) -> tuple[int, int]:
        """Returns the first row of a window, and the row behind it."""
        start = 0 if window == 0 else self.first + (window - 1) * self.window
        return start, min(self.rows, self.first + window * self.window)


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The order of one epoch.

    Attributes:
      seed, number: of the shuffle and the epoch.
      is_shuffled: whether windows are permuted.
      lanes: all of them.
      edges: int64[lanes + 1], the intervals of the lanes in [0, rows].
      step: coprime to the number of rows.
    """

    seed: int
    number: int
    is_shuffled: bool
    lanes: tuple[Lane, ...]
    edges: Int64s
    step: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.edges[-1])

    def taken(self, positions: Int64s) -> Int64s:
        """Returns how many rows of each lane are before a position.

        Args:
          positions: int64[n], from 0 to the number of rows.

        Returns:
          int64[n, lanes]; the sum of a row is its position.
        """
        cuts = self.edges[:-1]
        shape = 2, len(positions), len(cuts)
        before = np.broadcast_to(positions[:, None], shape)
        # p * step % rows < cut, counted for all p before the position.
        offsets = np.stack([np.zeros_like(cuts), self.rows - cuts])
        whole, shifted = floor_sums(
            before, self.rows, self.step, np.broadcast_to(offsets[:, None], shape)
        )
        below = (whole - shifted + positions[:, None]).astype(np.int64)
        counts: Int64s = np.diff(below, axis=1, append=positions[:, None])
        return counts

    def permutation(self, lane: Lane, window: int) -> Int64s:
        """Returns a window's rows in their order, counted from the first."""
        start, end = lane.bounds(window)
        if not self.is_shuffled:
            return np.arange(end - start)
        return _generator(self.seed, self.number, 1, lane.number, window).permutation(end - start)


def make_epoch(
    rows_of_shards: Sequence[int], row_bytes: int, seed: int, number: int, is_shuffled: bool
) -> Epoch:
    """Returns the order of an epoch.

    Args:
      rows_of_shards: rows of each shard, in the manifest's order.
      row_bytes: mean size of a framed record.
      seed: 0 or more.
      number: of the epoch, from 0.
      is_shuffled: otherwise rows have the order of the shards.
    """
    filled = np.flatnonzero(rows_of_shards)
    count = min(MAX_LANES, len(filled)) if is_shuffled else 1
    order = _generator(seed, number, 0).permutation(filled) if is_shuffled else filled
    window = max(1, WINDOW_BYTES // max(1, row_bytes) // (count if is_shuffled else MAX_LANES))
    lanes = []
    for lane in range(count):
        shards = tuple(order[lane::count].tolist())
        rows = sum(rows_of_shards[shard] for shard in shards)
        first = min(rows, max(1, window * (lane + 1) // count))
        lanes.append(Lane(lane, shards, rows, window, first))
    edges = np.concatenate([[0], np.cumsum([lane.rows for lane in lanes])]).astype(np.int64)
    return Epoch(seed, number, is_shuffled, tuple(lanes), edges, _step(int(edges[-1])))


def stretches(epoch: Epoch, positions: Int64s, rank: int, world_size: int) -> Stretches:
    """Returns what a rank takes of each global batch.

    Args:
      epoch: the order.
      positions: int64[n + 1], the edges of n global batches.
      rank, world_size: a global batch of m rows is cut at ``m * rank // world_size``.
    """
    taken = epoch.taken(positions)
    counts = np.diff(taken, axis=0)
    before = np.cumsum(counts, axis=1) - counts  # rows of the batch in the lanes before
    sizes = np.diff(positions)[:, None]
    first, last = sizes * rank // world_size, sizes * (rank + 1) // world_size
    starts = taken[:-1] + np.clip(first - before, 0, counts)
    ends = taken[:-1] + np.clip(last - before, 0, counts)
    batches, lanes = np.nonzero(ends > starts)
    found = starts[batches, lanes], ends[batches, lanes]
    return Stretches(lanes, *found, (last - first)[:, 0])


def floor_sums(counts: Int64s, modulus: int, factor: int, offsets: Int64s) -> npt.NDArray[Any]:
    """Returns sums of quotients, one for each count and its offset.

    A sum is that of ``(factor * i + offset) // modulus`` for all i below the count.

    The algorithm is Euclid's. Sums that may not fit in 64 bits are Python's integers.

    Args:
      counts, offsets: of one shape, not negative.
      modulus: positive.
      factor: not negative, below the modulus.
    """
    fits = modulus < 1 << 31 and int(counts.max(initial=0)) <= modulus
    type_ = np.int64 if fits else np.object_
    n: Any = counts.astype(type_)
    b: Any = offsets.astype(type_)
    a, m, total = factor, modulus, np.zeros_like(n)
    while True:
        total = total + n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        last = a * n + b
        if not (last >= m).any():
            return np.asarray(total)
        # A pair that is done has a last value below m, so it adds nothing from here on.
        n, b = last // m, last % m
        m, a = a, m


def _step(rows: int) -> int:
    """Returns a number coprime to the rows, near their golden section."""
    step = max(1, round(rows * _GOLDEN))
    while math.gcd(step, rows) != 1:
        step += 1
    return step


def _generator(*key: int) -> np.random.Generator:
    """Returns random numbers that depend on a key of numbers alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
