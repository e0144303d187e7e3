"""Reads ahead: threads load parts, and parse groups of batches."""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from beam_pipelines.reader import order as row_order
from beam_pipelines.reader import parts as shard_parts
from beam_pipelines.reader import sequence
from beam_pipelines.reader.columns import FeatureValues, with_keyed
from beam_pipelines.reader.features import ReadFeature
from beam_pipelines.reader.images import usable_cores
from beam_pipelines.reader.parse import gather_rows, parse_rows

# Requests at a time. Arrow's client of S3 keeps 25 connections.
MOST_REQUESTS = 24
# Bytes of shards that are fetched before their plan, and plans that are made before it is read.
MOST_BYTES = 64 << 20
MOST_PLANS = 8

_Place = tuple[tuple[int, int], int]
MAX_THREADS = 16
THREADS = "beam-pipelines-reader"
# Groups that are planned together, as plans of few batches cost as much as those of many; and the
# most batches of a plan.
PLANNED_GROUPS, MOST_BATCHES = 4, 1024
_PLACE_BITS = 40

_Finished = TypeVar("_Finished")


class OwnPlan(NamedTuple):
    """A rank's share of a plan.

    Attributes:
      plan: the batches.
      own: what the rank takes.
      sizes: int64[n], its rows of each batch.
    """

    plan: sequence.ReadPlan
    own: row_order.Entries
    sizes: row_order.Int64s

    def pieces(self, most: int) -> Iterator[OwnPlan]:
        """Yields the same with at most so many batches each."""
        for first in range(0, len(self.sizes), most):
            behind = slice(first, first + most)
            start, stop = np.searchsorted(self.own.batches, (first, first + most))
            yield OwnPlan(
                self.plan._replace(sizes=self.plan.sizes[behind], behind=self.plan.behind[behind]),
                row_order.Entries(*(array[start:stop] for array in self.own)),
                self.sizes[behind],
            )


def places_of(own: row_order.Entries, source: int) -> list[int]:
    """Returns the places of a rank's parts of a source, in order."""
    return sorted(set(own.places[own.sources == source].tolist()))


def first_kept(source: sequence.StreamEpoch, places: Sequence[int]) -> int:
    """Returns the first place that a later plan may need."""
    windows = source.epoch.windows
    return int(windows[np.searchsorted(windows, places[-1], side="right") - 1])


def _requests(
    source: sequence.StreamEpoch, places: Sequence[int]
) -> Iterator[tuple[shard_parts.Indexed, range, Sequence[int]]]:
    """Yields neighbouring parts of an extent to ask for, and their places."""
    parts = source.epoch.parts[places]
    order = np.argsort(parts)
    parts, places = parts[order], np.array(places, np.int64)[order].tolist()
    firsts = np.flatnonzero(np.diff(parts, prepend=-2) != 1).tolist()
    for first, stop in itertools.pairwise([*firsts, len(places)]):
        start = first
        while start < stop:
            found, part = source.split.find(int(parts[start]))
            end = min(part + stop - start, found.parts.extent_of(part).stop)
            own = places[start : start + end - part]
            if found.remote is not None:
                yield found, range(part, end), own
            start += len(own)


class Fetcher:
    """Parts that are being fetched."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(MOST_REQUESTS, "beam-pipelines-fetch")
        # Stream, epoch and place -> the part's bytes; ``None`` once they are taken.
        self._found: dict[_Place, shard_parts.Fetched | None] = {}

    def begin(self, share: OwnPlan) -> int:
        """Begins to fetch a plan's parts; returns how many bytes."""
        count = 0
        for number, source in enumerate(share.plan.sources):
            places = places_of(share.own, number)
            missing = [place for place in places if (source.key, place) not in self._found]
            for found, parts, own in _requests(source, missing):
                count += len(found.parts.bytes_of(parts))
                request = self._executor.submit(shard_parts.read_bytes, found, parts)
                offsets = found.parts.columns.offset[parts.start : parts.stop]
                for place, start in zip(own, (offsets - offsets[0]).tolist(), strict=True):
                    self._found[source.key, place] = shard_parts.Fetched(request, start)
        return count

    def take(self, source: sequence.StreamEpoch, place: int) -> shard_parts.Fetched | None:
        """Returns the bytes of a part, which are not held any more."""
        key = source.key, place
        if key not in self._found:
            return None
        fetched, self._found[key] = self._found[key], None
        return fetched

    def forget(self, source: sequence.StreamEpoch, first: int) -> None:
        """Forgets parts that were taken, before a place."""
        self._found = {
            (key, place): fetched
            for (key, place), fetched in self._found.items()
            if fetched is not None or key != source.key or place >= first
        }

    def close(self) -> None:
        """Ends the threads, once their requests are answered."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def shares(
    plans: Iterator[sequence.ReadPlan],
    rank: int,
    world_size: int,
    most: int,
    fetcher: Fetcher | None,
) -> Iterator[OwnPlan]:
    """Yields a rank's shares of plans, whose parts are being fetched.

    Args:
      plans: of the global batches.
      rank, world_size: the share of each batch.
      most: batches of a share.
      fetcher: of parts; ``None``: none are fetched.
    """
    waiting: collections.deque[tuple[OwnPlan, int]] = collections.deque()
    fetched = 0
    whole = (
        OwnPlan(plan, *row_order.divide(plan.taken, plan.sizes, rank, world_size)) for plan in plans
    )
    for share in itertools.chain.from_iterable(one.pieces(most) for one in whole):
        if fetcher is None:
            yield share
            continue
        size = fetcher.begin(share)
        waiting.append((share, size))
        fetched += size
        while fetched > MOST_BYTES or len(waiting) > MOST_PLANS:
            first, size = waiting.popleft()
            fetched -= size
            yield first
    for first, _ in waiting:
        yield first


class Group(NamedTuple):
    """Parsed rows of a rank, and its part of each batch.

    Attributes:
      behind: the place behind each batch.
      edges: the edges of the batches in the rows.
      columns: feature, or name of a ``Keyed`` -> values of all rows.
    """

    behind: tuple[sequence.StreamPlace, ...]
    edges: list[int]
    columns: dict[str, FeatureValues]


class _Needed(NamedTuple):
    """Blocks with the rows of a plan.

    Attributes:
      blocks: loaded or being loaded.
      parts: int64[n], for each entry the number of its part among those of all blocks.
    """

    blocks: list[Future[shard_parts.Block]]
    parts: row_order.Int64s


class _Held:
    """The parts that are loaded or being loaded."""

    def __init__(self, executor: ThreadPoolExecutor, fetcher: Fetcher | None) -> None:
        self._executor, self._fetcher = executor, fetcher
        # Stream, epoch and place -> the block of the part, and the part's number in it.
        self._found: dict[tuple[tuple[int, int], int], tuple[Future[shard_parts.Block], int]] = {}
        self._sizes: dict[Future[shard_parts.Block], int] = {}

    def find(self, plan: sequence.ReadPlan, own: row_order.Entries) -> _Needed:
        """Returns the parts of a plan, and forgets earlier ones."""
        kept: dict[tuple[tuple[int, int], int], tuple[Future[shard_parts.Block], int]] = {}
        keys, entries = np.unique(own.sources << _PLACE_BITS | own.places, return_inverse=True)
        numbers = np.zeros(len(keys), np.int64)
        bases: dict[Future[shard_parts.Block], int] = {}
        count = 0
        for number, source in enumerate(plan.sources):
            (mine,) = np.nonzero(keys >> _PLACE_BITS == number)
            if not len(mine):
                continue
            places = (keys[mine] & ((1 << _PLACE_BITS) - 1)).tolist()
            self._load(source, places)
            for key, place in zip(mine.tolist(), places, strict=True):
                block, in_block = self._found[source.key, place]
                if block not in bases:
                    bases[block] = count
                    count += self._sizes[block]
                numbers[key] = bases[block] + in_block
            # The next plan begins in the window where this one ends.
            first = first_kept(source, places)
            kept |= {
                (key, place): found
                for (key, place), found in self._found.items()
                if key == source.key and place >= first
            }
            if self._fetcher is not None:
                self._fetcher.forget(source, first)
        self._found = kept
        self._sizes = {block: self._sizes[block] for block, _ in kept.values()}
        return _Needed(list(bases), numbers[entries])

    def _load(self, source: sequence.StreamEpoch, places: Sequence[int]) -> None:
        """Begins to load those parts of a source that are not held."""
        key, split, epoch = source
        missing = [place for place in places if (key, place) not in self._found]
        for start in range(0, len(missing), row_order.MOST_PARTS):
            some = missing[start : start + row_order.MOST_PARTS]
            fetched = [self._fetcher.take(source, place) for place in some] if self._fetcher else []
            block = self._executor.submit(shard_parts.load, split, epoch, np.array(some), fetched)
            self._sizes[block] = len(some)
            self._found |= {(key, place): (block, at) for at, place in enumerate(some)}


class Reading(NamedTuple):
    """The part of a pass that a rank reads.

    Attributes:
      order: plans the global batches.
      place, end: the first batch, and the number of the epoch to stop at.
      most: batches that are parsed together.
      chosen: the batches to read.
      features, as_: what to make of the rows.
      rank, world_size: the part of each batch to read.
    """

    order: sequence.GlobalBatches
    place: sequence.StreamPlace
    end: int
    most: int
    chosen: sequence.Chosen
    features: Sequence[ReadFeature]
    as_: str
    rank: int
    world_size: int


def groups_ahead(threads: int) -> int:
    """Returns how many groups are prepared ahead of the one in use.

    Half of the threads may parse, while others load the parts of a new window, which are needed at
    once.
    """
    return threads // 2 + 2


def read_groups(
    reading: Reading, finish: Callable[[Group], _Finished]
) -> Generator[_Finished, None, None]:
    """Yields a rank's rows of neighbouring batches, in order.

    Args:
      reading: what to read.
      finish: makes something of each group, in the thread that parsed it.

    Raises:
      DataError: a shard is missing, damaged, or contradicts the manifest or the schema.
    """
    order, rank, world_size = reading.order, reading.rank, reading.world_size
    most = min(MOST_BATCHES, PLANNED_GROUPS * reading.most)
    plans = order.plans(reading.place, reading.end, most, reading.chosen)
    indexed = [found for stream in order.streams for found in stream.split.indexed]
    parse = partial(_parse, reading, finish)
    threads = min(MAX_THREADS, usable_cores())
    ahead = groups_ahead(threads)
    executor = ThreadPoolExecutor(threads, THREADS)
    waiting: collections.deque[Future[_Finished]] = collections.deque()
    fetcher = Fetcher() if any(found.remote for found in indexed) else None
    held = _Held(executor, fetcher)
    process = os.getpid()
    try:
        for plan, own, sizes in shares(plans, rank, world_size, reading.most, fetcher):
            # Its blocks were submitted before it, so they are running or done.
            waiting.append(executor.submit(parse, plan, own, sizes, held.find(plan, own)))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if os.getpid() == process:  # a fork has none of the threads
            if fetcher is not None:
                fetcher.close()
            # Garbage may be collected in one of the threads, or while a thread starts or ends and
            # holds a lock of the interpreter's. Waiting for a thread there would never end.
            executor.shutdown(wait=False, cancel_futures=True)


def _parse(
    reading: Reading,
    finish: Callable[[Group], _Finished],
    plan: sequence.ReadPlan,
    own: row_order.Entries,
    sizes: row_order.Int64s,
    needed: _Needed,
) -> _Finished:
    seed = reading.order.seed
    blocks = [block.result() for block in needed.blocks]
    rows = gather_rows(blocks, needed.parts, own.starts, own.ends)
    numbers = np.array([source.key[1] for source in plan.sources], np.int64)
    epochs = np.repeat(numbers[own.sources], own.ends - own.starts)
    rows = rows._replace(seed=seed, epochs=epochs)
    if reading.order.is_shuffled:
        order = row_order.spread(seed, sizes)
        rows = rows._replace(records=rows.records[order], epochs=epochs[order])
    columns = parse_rows(rows, reading.features, reading.as_)
    edges = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    return finish(Group(plan.behind, edges, with_keyed(columns, reading.features, edges)))
