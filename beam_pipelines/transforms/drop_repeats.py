"""Leaves out rows with the values of an earlier row.

The rows of a chunk go once through an exchange to their range, where they meet the places of the
rows to leave out. So no worker holds more than one chunk of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.chunks import ROW, Chunk, Rejected, add_counts
from beam_pipelines.recipe.duplicates import Duplicates
from beam_pipelines.sources.bad_rows import shown_row
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.equal_rows import (
    HASH,
    PLACE,
    Met,
    meet,
    repeats_of,
    send_hashes,
    without_hashes,
)
from beam_pipelines.transforms.exchange import Exchange, Message, Received, load_payload
from beam_pipelines.transforms.join.hash_join import Packed, about_chunk, chunk_about, pack, unpack
from beam_pipelines.transforms.row_positions import RowPositions

FOUND = "found"
# First numbers in the order of messages: places come before rows.
_PLACES, _ROWS = 0, 1
_PLACE = np.dtype([("part", "<u4"), ("row", "<u4")])


def send_chunk(chunk: Chunk, number: int, compression: str | None) -> Message:
    """Sends a chunk to its range, without hashes up to a number."""
    chunk = without_hashes(chunk, end=number + 1)
    payload = pack([Packed(chunk.batch, about_chunk(chunk))], compression)
    return Message((_ROWS, chunk.range_number, chunk.part), {chunk.range_number: payload})


def send_places(met: Met, partition: int) -> Message:
    """Sends the places of repeated rows to their ranges."""
    ranges, parts, rows = met.addresses(met.repeats)
    payloads = {}
    for number in np.unique(ranges).tolist():
        own = ranges == number
        places = np.empty(int(own.sum()), _PLACE)
        places["part"], places["row"] = parts[own], rows[own]
        payloads[number] = places.tobytes()
    return Message((_PLACES, partition, 0), payloads)


def _find(received: Received, partitions: int) -> Iterator[Any]:
    met = meet(received)
    yield send_places(met, received.partition)
    yield beam.pvalue.TaggedOutput(FOUND, repeats_of(met, received.partition // partitions))


class RowDropper:
    """Leaves out rows of chunks as duplicates, and explains each one.

    Attributes:
      base: read again to find the positions of rows that are left out.
      column: of the values that are compared, if there is one.
    """

    def __init__(self, base: SourcePlan, column: str) -> None:
        self.base, self.column = base, column
        self._positions: RowPositions | None = None

    def without(self, chunk: Chunk, rows: npt.NDArray[np.int64], reasons: Sequence[str]) -> Chunk:
        """Returns a chunk without some rows, and without ``ROW``.

        Args:
          chunk: with the column ``ROW``.
          rows: numbers of the rows, ascending.
          reasons: of each.
        """
        batch = chunk.batch.drop_columns([ROW])
        if any(name.startswith(HASH) for name in batch.schema.names):
            places = pa.array(np.arange(batch.num_rows))
            batch = pa.RecordBatch.from_arrays(
                [*batch.columns, places], [*batch.schema.names, PLACE]
            )
        if not len(rows):
            return chunk._replace(batch=batch)
        is_kept = np.ones(batch.num_rows, bool)
        is_kept[rows] = False
        return chunk._replace(
            batch=batch.filter(pa.array(is_kept)),
            counts=add_counts(chunk.counts, {"duplicates": len(rows)}),
            rejected=(*chunk.rejected, *self._rejected(chunk, batch, rows, reasons)),
        )

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
                if self.base.source.private
                else place.text or (shown_row(_shown(batch.slice(row, 1))) if place.place else "")
            )
            yield Rejected(
                self.base.source.name, place.file, place.place, self.column, reason, text
            )


class _Drop(beam.DoFn):
    """Yields the chunks of a range without repeated rows, in order."""

    def __init__(self, duplicates: Duplicates, base: SourcePlan) -> None:
        by = duplicates.by
        has = f"the same {', '.join(by)}" if by else "the same values"
        self._reason = f"a duplicate: an earlier row has {has}"
        self._dropper = RowDropper(base, by[0] if len(by) == 1 else "")

    def process(self, received: Received) -> Iterator[Chunk]:
        places = np.empty(0, _PLACE)
        for content, order in zip(received.contents, received.orders, strict=True):
            payload = load_payload(content)
            if order[0] == _PLACES:
                places = np.concatenate([places, np.frombuffer(payload, _PLACE)])
                continue
            for batch, about in unpack(payload):
                chunk = chunk_about(received.partition, batch, about)
                rows = np.sort(places["row"][places["part"] == chunk.part]).astype(np.int64)
                yield self._dropper.without(chunk, rows, [self._reason] * len(rows))


def _shown(row: pa.RecordBatch) -> pa.RecordBatch:
    return row.select([name for name in row.schema.names if not name.startswith("\0")])


@dataclasses.dataclass
class DropRepeats(beam.PTransform):
    """Leaves out rows with the hash of an earlier row.

    Input: ``Chunk`` elements with the columns ``ROW`` and of hashes. Output: a dict with
    ``chunks``: for each, a ``Chunk`` with the same address, its other rows in order, without
    ``ROW`` and the hashes up to its own, and ``duplicates`` in its counts; and ``found``: ``Found``
    elements.

    Attributes:
      duplicates: of the recipe.
      number: of the column of hashes.
      base: read again to find the positions of rows that are left out.
      partitions: of the hashes.
      folders: for the exchanges of hashes and rows, used by this step only; ``None`` sends them
        through the engine.
    """

    duplicates: Duplicates
    number: int
    base: SourcePlan
    partitions: int
    folders: tuple[str | None, str | None]

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        met = (
            chunks
            | "SendHashes" >> beam.Map(send_hashes, (self.number,), self.partitions)
            | "Meet" >> Exchange(self.folders[0])
            | "Find" >> beam.FlatMap(_find, self.partitions).with_outputs(FOUND, main="places")
        )
        # A file stays in the page cache, where lz4 would cost more than it saves.
        compression = "lz4" if self.folders[1] is None else None
        rows = chunks | "SendChunks" >> beam.Map(send_chunk, self.number, compression)
        kept = (
            (met.places, rows)
            | "ToRanges" >> Exchange(self.folders[1])
            | "Drop" >> beam.ParDo(_Drop(self.duplicates, self.base))
        )
        return {"chunks": kept, "found": met[FOUND]}
