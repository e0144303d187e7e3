"""Reads ahead: threads load windows of lanes, and parse groups of batches."""

from __future__ import annotations

import collections
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from beam_pipelines.reader.columns import Column, Feature
from beam_pipelines.reader.lanes import ShardFile, Window, windows
from beam_pipelines.reader.order import Epoch, Int64s, Lane, Stretches, stretches
from beam_pipelines.reader.parse import gather_rows, parse_rows

# Rows of a rank that are parsed at once; batches are cut from them.
GROUP_ROWS = 16384
# Groups that are prepared ahead of the one in use.
GROUPS_AHEAD = 2
MAX_THREADS = 8


class Split(NamedTuple):
    """A split to read.

    Attributes:
      name: of the split.
      files: the shards, in the manifest's order.
      framed_bytes: of all records.
      compression: ``gzip``, ``zlib`` or ``none``.
    """

    name: str
    files: tuple[ShardFile, ...]
    framed_bytes: int
    compression: str

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files)


class Plan(NamedTuple):
    """Global batches of an epoch to read next.

    Attributes:
      epoch: its order.
      positions: int64[n + 1], the edges of the global batches.
    """

    epoch: Epoch
    positions: Int64s


class Group(NamedTuple):
    """Parsed rows of a rank, and its part of each batch.

    Attributes:
      plan: the batches.
      edges: int64[n + 1], the edges of the batches in the rows.
      columns: feature -> values of all rows.
    """

    plan: Plan
    edges: Int64s
    columns: dict[str, Column]


class _Feed:
    """The windows of a lane that are loaded or being loaded."""

    def __init__(self, split: Split, epoch: Epoch, lane: Lane, start: int) -> None:
        self._lane, self._next = lane, lane.window_of(start)
        self._windows = windows(split.files, split.compression, epoch, lane, self._next)
        self._held: collections.deque[tuple[int, Future[Window]]] = collections.deque()

    def windows_of(
        self, start: int, end: int, executor: ThreadPoolExecutor
    ) -> list[tuple[int, Future[Window]]]:
        """Returns the windows with some places, and forgets those before."""
        last = self._lane.window_of(end - 1)
        while self._next <= last:
            before = self._held[-1][1] if self._held else None
            self._held.append((self._next, executor.submit(self._load, before)))
            self._next += 1
        while self._held[0][0] < self._lane.window_of(start):
            self._held.popleft()
        return list(self._held)

    def _load(self, before: Future[Window] | None) -> Window:
        if before is not None:
            before.result()  # it was submitted before, so it is running or done
        return next(self._windows)


def read_groups(
    split: Split,
    features: Sequence[Feature],
    as_: str,
    rank: int,
    world_size: int,
    plans: Iterator[Plan],
) -> Generator[Group, None, None]:
    """Yields a rank's rows of each plan, in order.

    Raises:
      DataError: a shard is missing, damaged, or contradicts the manifest or the schema.
    """
    parse = partial(_parse, features, as_, split.files)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    executor = ThreadPoolExecutor(min(MAX_THREADS, cores or 1), "beam-pipelines-reader")
    waiting: collections.deque[Future[Group]] = collections.deque()
    feeds: dict[int, _Feed] = {}
    epoch = None
    try:
        for plan in plans:
            if plan.epoch is not epoch:
                epoch, feeds = plan.epoch, {}
            found = stretches(plan.epoch, plan.positions, rank, world_size)
            held = {}
            for lane in np.unique(found.lanes).tolist():
                own = found.lanes == lane
                start, end = int(found.starts[own].min()), int(found.ends[own].max())
                if lane not in feeds:
                    feeds[lane] = _Feed(split, plan.epoch, plan.epoch.lanes[lane], start)
                held[lane] = feeds[lane].windows_of(start, end, executor)
            waiting.append(executor.submit(parse, plan, found, held))
            if len(waiting) > GROUPS_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _parse(
    features: Sequence[Feature],
    as_: str,
    files: Sequence[ShardFile],
    plan: Plan,
    found: Stretches,
    held: dict[int, list[tuple[int, Future[Window]]]],
) -> Group:
    loaded = {
        lane: [(number, window.result()) for number, window in numbered]
        for lane, numbered in held.items()
    }
    rows = gather_rows(plan.epoch, found, loaded)
    columns = parse_rows(rows, features, as_, plan.epoch, files)
    return Group(plan, np.concatenate([[0], np.cumsum(found.sizes)]), columns)
