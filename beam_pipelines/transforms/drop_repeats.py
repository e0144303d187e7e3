"""Leaves out rows with the values of an earlier row.

Chunks are held in files, until the places of the rows to leave out have come to their range. So no
worker holds more than one chunk of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.checks.meet import Drop, Meet
from beam_pipelines.core.chunks import LEFT_OUT, PLACE, ROW, Chunk, Rejected, add_counts
from beam_pipelines.sources.bad_rows import shown_row
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.exchange import Exchange, Message, Received, SendMessages, receive
from beam_pipelines.transforms.held_chunks import HeldChunk, hold_chunk, load_held
from beam_pipelines.transforms.meet import Decided, Met, decide, send_hashes, without_columns
from beam_pipelines.transforms.meet_hashes import HASH, hash_name
from beam_pipelines.transforms.row_positions import RowPositions

FOUND = "found"
_PLACES, _HELD = "places", "held"
_PLACE = np.dtype([("part", "<u4"), ("row", "<u4")])


class Numbered(NamedTuple):
    """A held chunk with the numbers of its rows in the range.

    Attributes:
      held: the chunk. Its file has the column ``ROW`` only if ``first`` is ``None``.
      first: the number of the first row, if the others follow one by one.
    """

    held: HeldChunk
    first: int | None


def hold_numbered(chunk: Chunk, meet: str, folder: str) -> tuple[int, Numbered]:
    """Holds a chunk without the hashes of a meet.

    Returns:
      Its range, and the chunk.
    """
    chunk = chunk._replace(batch=chunk.batch.drop_columns([hash_name(meet)]))
    numbers = chunk.batch.column(ROW).to_numpy()
    first = None
    if len(numbers) and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers))):
        first = int(numbers[0])
        chunk = chunk._replace(batch=chunk.batch.drop_columns([ROW]))
    return chunk.range_number, Numbered(hold_chunk(chunk, folder), first)


def load_numbered(numbered: Numbered, deletes: bool) -> Iterator[Chunk]:
    """Yields the chunk with its numbers, then deletes its file if asked."""
    for chunk in load_held(numbered.held, deletes):
        if numbered.first is None:
            yield chunk
            continue
        numbers = pa.array(np.arange(numbered.first, numbered.first + chunk.batch.num_rows))
        yield chunk._replace(
            batch=pa.RecordBatch.from_arrays(
                [*chunk.batch.columns, numbers], [*chunk.batch.schema.names, ROW]
            )
        )


def send_places(decided: Decided, partition: int) -> Message:
    """Sends the places of repeated rows to their ranges."""
    ranges, parts, rows = decided.addresses(decided.pairs[1])
    payloads = {}
    for number in np.unique(ranges).tolist():
        own = ranges == number
        places = np.empty(int(own.sum()), _PLACE)
        places["part"], places["row"] = parts[own], rows[own]
        payloads[number] = places.tobytes()
    return Message((partition,), payloads)


def _find(received: Received, meet: Meet) -> Iterator[Any]:
    decided = decide(received, meet)
    yield send_places(decided, received.partition)
    yield beam.pvalue.TaggedOutput(FOUND, Met(meet.name, decided.by_splits()))


class RowDropper:
    """Leaves out rows of chunks, and explains each one.

    Attributes:
      check: under whose name they are counted.
      base: read again to find the positions of rows that are left out.
      column: of the values that are compared, if there is one.
    """

    def __init__(self, check: str, base: SourcePlan, column: str) -> None:
        self.check, self.base, self.column = check, base, column
        self._positions: RowPositions | None = None

    def without(self, chunk: Chunk, rows: npt.NDArray[np.int64], reasons: Sequence[str]) -> Chunk:
        """Returns a chunk without some rows.

        Args:
          chunk: with the column ``ROW``, and ``PLACE`` if rows were left out before.
          rows: places of the rows, ascending.
          reasons: of each.
        """
        batch = chunk.batch
        if PLACE in batch.schema.names:
            rows = np.searchsorted(batch.column(PLACE).to_numpy(), rows)
        elif any(name.startswith(HASH) for name in batch.schema.names):
            places = pa.array(np.arange(batch.num_rows))
            batch = pa.RecordBatch.from_arrays(
                [*batch.columns, places], [*batch.schema.names, PLACE]
            )
        counts = add_counts(chunk.counts, {f"{LEFT_OUT}/{self.check}": len(rows)})
        if not len(rows):
            return without_columns(chunk._replace(batch=batch, counts=counts), ())
        is_kept = np.ones(batch.num_rows, bool)
        is_kept[rows] = False
        rejected = (*chunk.rejected, *self._rejected(chunk, batch, rows, reasons))
        batch = batch.filter(pa.array(is_kept))
        return without_columns(chunk._replace(batch=batch, counts=counts, rejected=rejected), ())

    def _rejected(
        self,
        chunk: Chunk,
        batch: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
        reasons: Sequence[str],
    ) -> Iterator[Rejected]:
        self._positions = self._positions or RowPositions(self.base)
        numbers = chunk.batch.column(ROW).to_numpy()[rows]
        # A join may have made several rows of one.
        wanted = np.unique(numbers).tolist()
        found = self._positions.find(chunk.range_number, wanted)
        places = dict(zip(wanted, found, strict=True))
        for row, number, reason in zip(rows.tolist(), numbers.tolist(), reasons, strict=True):
            place = places[number]
            text = (
                ""
                if self.base.private
                else place.text or (shown_row(_shown(batch.slice(row, 1))) if place.place else "")
            )
            yield Rejected(
                self.base.source.name, place.file, place.place, self.column, reason, text
            )


class _Drop(beam.DoFn):
    """Yields the chunks of a range without repeated rows, in order."""

    def __init__(self, drop: Drop, base: SourcePlan, exchange: str | None, deletes: bool) -> None:
        self._reason = drop.reason
        self._dropper = RowDropper(drop.check, base, drop.column)
        self._exchange, self._deletes = exchange, deletes

    def process(self, group: tuple[int, Mapping[str, Iterable[Any]]]) -> Iterator[Chunk]:
        range_number, both = group
        received = receive(range_number, both[_PLACES], self._exchange)
        places = np.frombuffer(b"".join(received.payloads()), _PLACE)
        for numbered in sorted(both[_HELD]):
            rows = places["row"][places["part"] == numbered.held.part]
            for chunk in load_numbered(numbered, self._deletes):
                yield self._dropper.without(
                    chunk, np.sort(rows).astype(np.int64), [self._reason] * len(rows)
                )


def _shown(row: pa.RecordBatch) -> pa.RecordBatch:
    return row.select([name for name in row.schema.names if not name.startswith("\0")])


@dataclasses.dataclass
class DropRepeats(beam.PTransform):
    """Leaves out the rows that a meet decides on.

    Input: ``Chunk`` elements with the columns ``ROW`` and of hashes. Output: a dict with
    ``chunks``: for each, a ``Chunk`` with the same address, its other rows in order, without
    the hashes, and ``left_out/<check>`` in its counts; and ``found``: ``Met``
    elements.

    Attributes:
      meet: that drops rows.
      base: read again to find the positions of rows that are left out.
      partitions: of the hashes.
      folders: for the exchanges of hashes and places, used by this step only; ``None`` sends them
        through the engine.
      scratch: for chunks, used by this step only.
      deletes: as in ``HoldChunks``.
    """

    meet: Meet
    base: SourcePlan
    partitions: int
    folders: tuple[str | None, str | None]
    scratch: str
    deletes: bool = False

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        met = (
            chunks
            | "SendHashes" >> beam.Map(send_hashes, (self.meet.name,), self.partitions)
            | "Meet" >> Exchange(self.folders[0])
            | "Find" >> beam.FlatMap(_find, self.meet).with_outputs(FOUND, main=_PLACES)
        )
        held = chunks | "Hold" >> beam.Map(hold_numbered, self.meet.name, self.scratch)
        places = met[_PLACES] | "SendPlaces" >> SendMessages(self.folders[1])
        if self.meet.drop is None:
            raise ValueError(f"meet '{self.meet.name}' drops no rows")
        drop = _Drop(self.meet.drop, self.base, self.folders[1], self.deletes)
        kept = (
            {_PLACES: places, _HELD: held}
            | "ToRanges" >> beam.CoGroupByKey()
            | "Drop" >> beam.ParDo(drop)
        )
        return {"chunks": kept, "found": met[FOUND]}
