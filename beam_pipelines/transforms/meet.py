"""Brings rows with equal hashes together, in partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from beam_pipelines.checks.check import Check
from beam_pipelines.checks.meet import Meet, Pairs
from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.core.places import MOST_PLACES, Place, Repeats
from beam_pipelines.transforms.exchange import Exchange, Message, Received, by_number
from beam_pipelines.transforms.meet_hashes import HASH, hash_name
from beam_pipelines.transforms.split import SplitPlan, assign_split

# A hash, its row in the chunk and the number of its split, as they cross.
_SENT = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4"), ("split", "u1")])


def send_hashes(
    chunk: Chunk,
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
    has_places = PLACE in chunk.batch.schema.names
    places = chunk.batch.column(PLACE).to_numpy() if has_places else None
    for number, name in enumerate(names):
        column = chunk.batch.column(hash_name(name))
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


class OfSplits(NamedTuple):
    """The piece of a check, of one chunk with splits."""

    check: str
    piece: Any


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
    pairs: Pairs

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


def decide(received: Received, meet: Meet) -> Decided:
    """Decides on the rows of a partition."""
    contents = [np.frombuffer(payload, _SENT) for payload in received.payloads()]
    starts = np.cumsum([0, *map(len, contents)])
    sent = np.concatenate(contents)
    orders = np.array(received.orders, np.int64).reshape(-1, 2)
    return Decided(sent, starts, orders, meet.decide(sent))


def meet_rows(received: Received, meets: Sequence[Meet], partitions: int) -> Met:
    """Finds the rows of a partition that their meet decides on."""
    meet = meets[received.partition // partitions]
    return Met(meet.name, decide(received, meet).by_splits())


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


def without_columns(chunk: Chunk, names: Collection[str]) -> Chunk:
    """Returns a chunk without some columns.

    If no hashes are left, ``PLACE`` is left out as well.
    """
    left = [name for name in chunk.batch.schema.names if name not in names]
    if not any(name.startswith(HASH) for name in left):
        left = [name for name in left if name != PLACE]
    return chunk._replace(batch=chunk.batch.select(left))


def hash_names(meets: Iterable[Meet]) -> tuple[str, ...]:
    """Returns the columns of the hashes of meets."""
    return tuple(hash_name(meet.name) for meet in meets)


def _send_split(
    chunk: Chunk, names: Sequence[str], partitions: int, split: SplitPlan | None
) -> Message:
    splits = None if split is None else assign_split(split, chunk)
    return send_hashes(chunk, names, partitions, splits)


def pieces_of_splits(chunk: Chunk, checks: Sequence[Check], split: SplitPlan) -> Iterator[OfSplits]:
    """Yields what a chunk adds to each check that looks at splits."""
    splits = assign_split(split, chunk)
    for check in checks:
        yield OfSplits(check.name, check.piece_of_splits(chunk, splits))


@dataclasses.dataclass
class MeetRows(beam.PTransform):
    """Brings rows with equal hashes together.

    Input: ``Chunk`` elements with columns of hashes. Output: ``Met`` elements.

    Attributes:
      meets: all of them in one exchange.
      partitions: of each meet's hashes.
      folder: for the exchange, used by this step only; ``None`` sends hashes through the engine.
      split: assigns rows, if the meets look at splits.
    """

    meets: tuple[Meet, ...]
    partitions: int
    folder: str | None
    split: SplitPlan | None = None

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Met]:
        names = [meet.name for meet in self.meets]
        return (
            chunks
            | "SendHashes" >> beam.Map(_send_split, names, self.partitions, self.split)
            | "Meet" >> Exchange(self.folder)
            | "Decide" >> beam.Map(meet_rows, self.meets, self.partitions)
        )
