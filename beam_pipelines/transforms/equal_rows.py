"""Finds rows with equal hashes, and leaves some out.

Hashes go to partitions, which decide on pairs. Of rows to leave out, the places go to their ranges,
where the chunks are. So no worker holds more than one chunk of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.checks import meet as row_meets
from beam_pipelines.core import chunks as chunk_types
from beam_pipelines.core.arrow.ipc import unpack
from beam_pipelines.core.places import MOST_PLACES, Place, Repeats
from beam_pipelines.sources.bad_input.bad_rows import shown_row
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.meet import MeetByKey, by_number, send_chunk
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.split.split import SplitPlan, assign_split

_FOUND = "found"
# First numbers in the order of messages to a range.
_PLACES, _CHUNKS = range(2)
_PLACE = np.dtype([("part", "<u4"), ("row", "<u4")])
# A hash, its row in the chunk and the number of its split, as they cross.
_SENT = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4"), ("split", "u1")])


def send_hashes(
    chunk: chunk_types.Chunk,
    names: Sequence[str],
    partitions: int,
    splits: npt.NDArray[np.uint8] | None = None,
) -> Message:
    """Sends the hashes of a chunk to their partitions.

    Those of meet k go to the partitions from ``k * partitions`` on.

    Args:
      chunk: with columns of hashes, and maybe ``PLACE``.
      names: of the meets.
      partitions: of each meet.
      splits: of the rows, or ``None``.
    """
    payloads: dict[int, bytes] = {}
    has_places = chunk_types.PLACE in chunk.batch.schema.names
    places = chunk.batch.column(chunk_types.PLACE).to_numpy() if has_places else None
    for number, name in enumerate(names):
        column = chunk.batch.column(row_meets.hash_name(name))
        buffer: Any = column.buffers()[1]
        pairs = np.frombuffer(buffer, "<u8").reshape(-1, 2)[column.offset :][: len(column)]
        rows = np.arange(len(column))
        if column.null_count:
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            pairs = pairs[rows]
        sent = np.empty(len(rows), _SENT)
        sent["high"], sent["low"] = pairs[:, 0], pairs[:, 1]
        sent["row"] = rows if places is None else places[rows]
        sent["split"] = 0 if splits is None else splits[rows]
        parts = (sent["high"] % np.uint64(partitions)).astype(np.int64)
        for part, own in by_number(sent, parts, partitions):
            payloads[number * partitions + part] = own.tobytes()
    return Message((chunk.range_number, chunk.part), payloads)


class Met(NamedTuple):
    """The rows of one meet in one partition.

    Attributes:
      meet: its name.
      rows: (number of the split of the earlier row, and of the row) -> rows.
    """

    meet: str
    rows: Mapping[tuple[int, int], Repeats]


class Decided(NamedTuple):
    """The hashes of one partition, and what was decided.

    Attributes:
      sent: all hashes of the partition, in order of their rows.
      starts: first hash of each message, and the end.
      orders: addresses of the messages' chunks, int64[messages, 2].
      pairs: of hashes by their place in ``sent``, as ``Decide`` returns them.
    """

    sent: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    orders: npt.NDArray[np.int64]
    pairs: row_meets.Pairs

    def addresses(
        self, places: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns range, part and row of hashes."""
        messages = np.searchsorted(self.starts, places, side="right") - 1
        orders = self.orders[messages]
        return orders[:, 0], orders[:, 1], self.sent["row"][places].astype(np.int64)

    def by_splits(self) -> dict[tuple[int, int], Repeats]:
        """Returns the rows and the first pairs, by their splits."""
        splits = self.sent["split"][self.pairs].astype(np.int64)
        codes = splits[0] << 8 | splits[1]
        found = {}
        for code in np.unique(codes).tolist():
            own = self.pairs[:, codes == code]
            firsts, rows = (
                [Place(*map(int, place)) for place in zip(*self.addresses(each), strict=True)]
                for each in own[:, :MOST_PLACES]
            )
            found[code >> 8, code & 255] = Repeats(
                own.shape[1], tuple(zip(firsts, rows, strict=True))
            )
        return found


def decide(received: Received, meet: row_meets.Meet) -> Decided:
    """Decides on the rows of a partition."""
    contents = [np.frombuffer(payload, _SENT) for payload in received.payloads()]
    starts = np.cumsum([0, *map(len, contents)])
    sent = np.concatenate(contents)
    orders = np.array(received.orders, np.int64).reshape(-1, 2)
    return Decided(sent, starts, orders, meet.decide(sent))


def meet_rows(
    received: Received, meets: Sequence[row_meets.Meet], partitions: int
) -> Iterator[Met]:
    """Yields the rows of a partition that their meet decides on."""
    meet = meets[received.partition // partitions]
    yield Met(meet.name, decide(received, meet).by_splits())


def merge_met(found: Iterable[Met]) -> dict[str, dict[tuple[int, int], Repeats]]:
    """Returns the rows of each meet, of all partitions."""
    merged: dict[str, dict[tuple[int, int], Repeats]] = {}
    for name, rows in found:
        own = merged.setdefault(name, {})
        for splits, more in rows.items():
            some = own.get(splits, Repeats())
            pairs = sorted((*some.pairs, *more.pairs), key=lambda pair: pair[1])
            own[splits] = Repeats(some.rows + more.rows, tuple(pairs[:MOST_PLACES]))
    return merged


def without_columns(chunk: chunk_types.Chunk, names: Collection[str]) -> chunk_types.Chunk:
    """Returns a chunk without some columns.

    If no hashes are left, ``PLACE`` is left out as well.
    """
    left = [name for name in chunk.batch.schema.names if name not in names]
    if not any(name.startswith(row_meets.HASH) for name in left):
        left = [name for name in left if name != chunk_types.PLACE]
    return chunk._replace(batch=chunk.batch.select(left))


def hash_names(meets: Iterable[row_meets.Meet]) -> tuple[str, ...]:
    """Returns the columns of the hashes of meets."""
    return tuple(row_meets.hash_name(meet.name) for meet in meets)


def _send_split(
    chunk: chunk_types.Chunk, names: Sequence[str], partitions: int, split: SplitPlan | None
) -> Message:
    splits = None if split is None else assign_split(split, chunk)
    return send_hashes(chunk, names, partitions, splits)


def find_rows(meets: Sequence[row_meets.Meet], meeting: row_meets.Meeting) -> MeetByKey:
    """Returns what gives the ``Met`` elements of chunks with columns of hashes.

    Args:
      meets: all of them in one exchange.
      meeting: with splits, if the meets look at them.
    """
    names, (_, partitions, exchange_of, split) = [meet.name for meet in meets], meeting
    send = partial(_send_split, names=names, partitions=partitions, split=split)
    decide_rows = partial(meet_rows, meets=meets, partitions=partitions)
    return MeetByKey(send, decide_rows, exchange_of("met" if split is None else "split"))


def send_places(decided: Decided, partition: int) -> Message:
    """Sends the places of repeated rows to their ranges."""
    ranges, parts, rows = decided.addresses(decided.pairs[1])
    payloads = {}
    for number in np.unique(ranges).tolist():
        own = ranges == number
        places = np.empty(int(own.sum()), _PLACE)
        places["part"], places["row"] = parts[own], rows[own]
        payloads[number] = places.tobytes()
    return Message((_PLACES, partition), payloads)


def _find(received: Received, meet: row_meets.Meet) -> Iterator[Any]:
    decided = decide(received, meet)
    yield send_places(decided, received.partition)
    yield beam.pvalue.TaggedOutput(_FOUND, Met(meet.name, decided.by_splits()))


class _Drop:
    """Yields the chunks of a range without repeated rows, in order.

    Attributes:
      drop: the check under whose name they are counted, and the reason.
      base: read again to find the positions of rows that are left out.
    """

    def __init__(self, drop: row_meets.RowDrop, base: SourcePlan) -> None:
        self._drop, self._base = drop, base
        self._positions: RowPositions | None = None

    def __call__(self, received: Received) -> Iterator[chunk_types.Chunk]:
        places = np.frombuffer(b"".join(received.payloads(_PLACES)), _PLACE)
        for payload in received.payloads(_CHUNKS):
            for batch, about in unpack(payload):
                rows = np.sort(places["row"][places["part"] == about["part"]]).astype(np.int64)
                yield self._without(chunk_types.Chunk.of(received.partition, batch, about), rows)

    def _without(self, chunk: chunk_types.Chunk, rows: npt.NDArray[np.int64]) -> chunk_types.Chunk:
        """Returns a chunk without some rows.

        Args:
          chunk: with the column ``ROW``, and ``PLACE`` if rows were left out before.
          rows: places of the rows, ascending.
        """
        batch = chunk.batch
        if chunk_types.PLACE in batch.schema.names:
            rows = np.searchsorted(batch.column(chunk_types.PLACE).to_numpy(), rows)
        elif any(name.startswith(row_meets.HASH) for name in batch.schema.names):
            batch = batch.append_column(chunk_types.PLACE, pa.array(np.arange(batch.num_rows)))
        counts = chunk_types.add_counts(
            chunk.counts, {f"{chunk_types.LEFT_OUT}/{self._drop.check}": len(rows)}
        )
        if not len(rows):
            return without_columns(chunk._replace(batch=batch, counts=counts), ())
        is_kept = np.ones(batch.num_rows, bool)
        is_kept[rows] = False
        rejected = (*chunk.rejected, *self._rejected(chunk, batch, rows))
        batch = batch.filter(pa.array(is_kept))
        return without_columns(chunk._replace(batch=batch, counts=counts, rejected=rejected), ())

    def _rejected(
        self, chunk: chunk_types.Chunk, batch: pa.RecordBatch, rows: npt.NDArray[np.int64]
    ) -> Iterator[chunk_types.Rejected]:
        self._positions = self._positions or RowPositions(self._base)
        numbers = chunk.batch.column(chunk_types.ROW).to_numpy()[rows]
        # A join may have made several rows of one.
        wanted = np.unique(numbers).tolist()
        found = self._positions.find(chunk.range_number, wanted)
        places = dict(zip(wanted, found, strict=True))
        shown = [name for name in batch.schema.names if not name.startswith("\0")]
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            file, position, text = places[number]
            if self._base.private:
                text = ""
            elif position and not text:
                text = shown_row(batch.slice(row, 1).select(shown))
            name, (_, reason, column) = self._base.source.name, self._drop
            yield chunk_types.Rejected(name, file, position, column, reason, text)


def _send_chunk(chunk: chunk_types.Chunk, column: str) -> Message:
    return send_chunk(chunk._replace(batch=chunk.batch.drop_columns([column])), _CHUNKS)


@dataclasses.dataclass
class DropRepeats(beam.PTransform):
    """Leaves out the rows that a meet decides on.

    Input: ``Chunk`` elements with the columns ``ROW`` and of hashes. Output: a dict with
    ``chunks``: for each, a ``Chunk`` with the same address, its other rows in order, without
    the hashes, and ``left_out/<check>`` in its counts; and ``found``: ``Met``
    elements.

    Attributes:
      meet: that drops rows.
      meeting: whose base is read again to find the positions of rows that are left out.
    """

    meet: row_meets.Meet
    meeting: row_meets.Meeting

    def expand(
        self, chunks: beam.PCollection[chunk_types.Chunk]
    ) -> dict[str, beam.PCollection[Any]]:
        meet, (base, partitions, exchange_of, _) = self.meet, self.meeting
        if meet.drop is None:
            raise ValueError(f"meet '{meet.name}' drops no rows")
        hashes, places = exchange_of(meet.name), exchange_of(f"{meet.name} kept")
        send = partial(send_hashes, names=(meet.name,), partitions=partitions)
        found = chunks | "Find" >> MeetByKey(send, partial(_find, meet=meet), hashes, (_FOUND,))
        send = partial(_send_chunk, column=row_meets.hash_name(meet.name))
        drop = MeetByKey((None, send), _Drop(meet.drop, base), places)
        return {"chunks": (found.main, chunks) | "Drop" >> drop, "found": found[_FOUND]}
