"""Fetches the parts of remote shards before they are needed.

A request takes tens of milliseconds, in which a core parses thousands of rows. So the parts of the
next plans are asked for at once, as long as their bytes are bounded.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from beam_pipelines.reader.order import Entries, Int64s, divide
from beam_pipelines.reader.parts import Fetched, Indexed, read_bytes
from beam_pipelines.reader.sequence import Plan, Source

# Requests at a time. Arrow's client of S3 keeps 25 connections.
MOST_REQUESTS = 24
# Bytes of shards that are fetched before their plan, and plans that are made before it is read.
MOST_BYTES = 64 << 20
MOST_PLANS = 8

_Place = tuple[tuple[int, int], int]


class OwnPlan(NamedTuple):
    """A rank's share of a plan.

    Attributes:
      plan: the batches.
      own: what the rank takes.
      sizes: int64[n], its rows of each batch.
    """

    plan: Plan
    own: Entries
    sizes: Int64s

    def pieces(self, most: int) -> Iterator[OwnPlan]:
        """Yields the same with at most so many batches each."""
        for first in range(0, len(self.sizes), most):
            behind = slice(first, first + most)
            start, stop = np.searchsorted(self.own.batches, (first, first + most))
            yield OwnPlan(
                self.plan._replace(sizes=self.plan.sizes[behind], behind=self.plan.behind[behind]),
                Entries(*(array[start:stop] for array in self.own)),
                self.sizes[behind],
            )


def places_of(own: Entries, source: int) -> list[int]:
    """Returns the places of a rank's parts of a source, in order."""
    return sorted(set(own.places[own.sources == source].tolist()))


def first_kept(source: Source, places: Sequence[int]) -> int:
    """Returns the first place that a later plan may need."""
    windows = source.epoch.windows
    return int(windows[np.searchsorted(windows, places[-1], side="right") - 1])


def _requests(
    source: Source, places: Sequence[int]
) -> Iterator[tuple[Indexed, range, Sequence[int]]]:
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
        self._found: dict[_Place, Fetched | None] = {}

    def begin(self, share: OwnPlan) -> int:
        """Begins to fetch a plan's parts; returns how many bytes."""
        count = 0
        for number, source in enumerate(share.plan.sources):
            places = places_of(share.own, number)
            missing = [place for place in places if (source.key, place) not in self._found]
            for found, parts, own in _requests(source, missing):
                count += len(found.parts.bytes_of(parts))
                request = self._executor.submit(read_bytes, found, parts)
                offsets = found.parts.columns.offset[parts.start : parts.stop]
                for place, start in zip(own, (offsets - offsets[0]).tolist(), strict=True):
                    self._found[source.key, place] = Fetched(request, start)
        return count

    def take(self, source: Source, place: int) -> Fetched | None:
        """Returns the bytes of a part, which are not held any more."""
        key = source.key, place
        if key not in self._found:
            return None
        fetched, self._found[key] = self._found[key], None
        return fetched

    def forget(self, source: Source, first: int) -> None:
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
    plans: Iterator[Plan], rank: int, world_size: int, most: int, fetcher: Fetcher | None
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
    whole = (OwnPlan(plan, *divide(plan.taken, plan.sizes, rank, world_size)) for plan in plans)
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
