"""Finds rows of one split whose values are also in another split.

A row leaks if a split above its own in the recipe has its hash (``transforms/equal_rows.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from beam_pipelines.analysis.expectations import MOST_PLACES, Place
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.equal_hashes import find_repeats
from beam_pipelines.transforms.equal_rows import place_of, send_hashes, sent_of
from beam_pipelines.transforms.exchange import Exchange, Message, Received
from beam_pipelines.transforms.split import SplitPlan, assign_split
from beam_pipelines.transforms.split_times import SplitTimes, find_times


class LeakedPair(NamedTuple):
    """A row, and the first one of an earlier split."""

    first: Place
    row: Place


class SplitLeaks(NamedTuple):
    """Rows of a split that are also in a split above it.

    Attributes:
      rows: their number.
      pairs: the first of them.
    """

    rows: int
    pairs: tuple[LeakedPair, ...]


class FoundLeaks(NamedTuple):
    """Leaks of the hashes of one column in one partition.

    Attributes:
      number: of the column.
      leaks: (earlier split, split) -> rows, by the numbers of the splits.
    """

    number: int
    leaks: dict[tuple[int, int], SplitLeaks]


def send_split_hashes(
    chunk: Chunk, split: SplitPlan, numbers: tuple[int, ...], partitions: int
) -> Message:
    """Sends the hashes of a chunk with the splits of its rows."""
    return send_hashes(chunk, numbers, partitions, assign_split(split, chunk))


def find_leaks(received: Received, partitions: int) -> FoundLeaks:
    """Finds the rows of a partition whose hash an earlier split has."""
    sent, starts, orders = sent_of(received)
    several = np.unique(find_repeats(sent))
    own = sent[several]
    # Of equal hashes the earliest split comes first, and in it the first row.
    order = several[np.lexsort((own["split"], own["low"], own["high"]))]
    ordered = sent[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (ordered["high"][1:] != ordered["high"][:-1]) | (
        ordered["low"][1:] != ordered["low"][:-1]
    )
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    leaked = np.flatnonzero(ordered["split"] > ordered["split"][firsts])
    pairs = np.stack([order[firsts[leaked]], order[leaked]])
    return FoundLeaks(received.partition // partitions, _by_splits(pairs, sent, starts, orders))


def _by_splits(
    pairs: npt.NDArray[np.int64],
    sent: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    orders: npt.NDArray[np.int64],
) -> dict[tuple[int, int], SplitLeaks]:
    splits = sent["split"][pairs]
    found = {}
    for earlier, own in np.unique(splits, axis=1).T.tolist():
        some = pairs[:, (splits[0] == earlier) & (splits[1] == own)]
        shown = some[:, np.argsort(some[1])[:MOST_PLACES]]
        found[earlier, own] = SplitLeaks(
            some.shape[1],
            tuple(
                LeakedPair(*(place_of(sent, starts, orders, place) for place in pair))
                for pair in shown.T.tolist()
            ),
        )
    return found


def merge_leaks(
    found: Iterable[FoundLeaks], first: int, count: int
) -> list[dict[tuple[int, int], SplitLeaks]]:
    """Returns the leaks of ``count`` columns from number ``first`` on."""
    merged: list[dict[tuple[int, int], SplitLeaks]] = [{} for _ in range(count)]
    for number, leaks in found:
        own = merged[number - first]
        for key, more in leaks.items():
            rows, pairs = own.get(key, SplitLeaks(0, ()))
            ordered = sorted((*pairs, *more.pairs), key=lambda pair: pair.row)
            own[key] = SplitLeaks(rows + more.rows, tuple(ordered[:MOST_PLACES]))
    return [dict(sorted(own.items())) for own in merged]


@dataclasses.dataclass
class FindLeaks(beam.PTransform):
    """Finds rows of one split that are also in another.

    Input: ``Chunk`` elements with columns of hashes, before they are split. Output: ``FoundLeaks``
    elements, and ``SplitTimes`` of each chunk if it has times.

    Attributes:
      split: assigns rows.
      numbers: of the columns.
      partitions: of each column's hashes.
      folder: for the exchange, used by this step only; ``None`` sends hashes through the engine.
      has_times: whether chunks have the column ``TIME``.
    """

    split: SplitPlan
    numbers: tuple[int, ...]
    partitions: int
    folder: str | None
    has_times: bool = False

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[FoundLeaks | SplitTimes]:
        found = (
            chunks
            | "SendHashes" >> beam.Map(send_split_hashes, self.split, self.numbers, self.partitions)
            | "Meet" >> Exchange(self.folder)
            | "FindLeaks" >> beam.Map(find_leaks, self.partitions)
        )
        if not self.has_times:
            return found
        times = chunks | "FindTimes" >> beam.Map(find_times, self.split)
        return (found, times) | "AllLeaks" >> beam.Flatten()
