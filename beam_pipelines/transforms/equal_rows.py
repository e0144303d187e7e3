"""Finds rows with equal values, by 128-bit hashes that meet in partitions.

A hash is two 64-bit hashes with seeds of their own (``core/hashing.py``). Two of a billion rows
with different values have one hash with a probability of 10^-21.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.expectations import MOST_PLACES, Place, Repeats
from beam_pipelines.core import hashing
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.equal_hashes import find_repeats
from beam_pipelines.transforms.exchange import Exchange, Message, Received, by_number

_SEEDS = (0x657175616C30, 0x657175616C31)  # "equal0", "equal1"
# A hash, its row in the chunk and the number of its split, as they cross.
_SENT = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4"), ("split", "u1")])
# Bytes of a hash in a column.
_WIDTH = 16
HASH = "\0equal"
# A row's number in the selected chunk, where others have been left out since.
PLACE = "\0selected"
# The column of times of ``leaks``.
TIME = "\0time"


def hash_name(number: int) -> str:
    """Returns the column of a hash.

    No column of a source can have this name.
    """
    return f"{HASH}{number}"


def hash_values(arrays: Sequence[pa.Array], skips_null: bool) -> pa.Array:
    """Returns the hash of each row's values, binary of 16 bytes.

    Numbers are equal as in SQL: NaN equals NaN, and -0.0 equals 0.0.

    Args:
      arrays: one or more, of n values of column types.
      skips_null: whether a row with a null has no hash, which is null; else a null is a value.
    """
    pairs = np.empty((len(arrays[0]), 2), "<u8")
    for number, seed in enumerate(_SEEDS):
        pairs[:, number] = hashing.hash_rows(arrays, seed)
    validity = None
    if skips_null and any(array.null_count for array in arrays):
        is_valid = np.logical_and.reduce(
            [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
        )
        validity = pa.array(is_valid).buffers()[1]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_WIDTH), len(pairs), [validity, pa.py_buffer(pairs)]
    )


def send_hashes(
    chunk: Chunk,
    numbers: Sequence[int],
    partitions: int,
    splits: npt.NDArray[np.uint8] | None = None,
) -> Message:
    """Sends the hashes of a chunk to their partitions.

    Those of column k go to the partitions from ``k * partitions`` on.

    Args:
      chunk: with columns of hashes, and maybe ``PLACE``.
      numbers: of the columns.
      partitions: of each column.
      splits: of the rows, or ``None``.
    """
    payloads: dict[int, bytes] = {}
    has_places = PLACE in chunk.batch.schema.names
    places = chunk.batch.column(PLACE).to_numpy() if has_places else None
    for number in numbers:
        column = chunk.batch.column(hash_name(number))
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


class Found(NamedTuple):
    """Repeats of the hashes of one column in one partition."""

    number: int
    repeats: Repeats


class Met(NamedTuple):
    """The hashes of one partition that an earlier row has.

    Attributes:
      sent: all hashes of the partition, in order of their rows.
      starts: first hash of each message, and the end.
      orders: addresses of the messages' chunks, int64[messages, 2].
      firsts, repeats: hashes by their place in ``sent``: the first of each, and the repeated one,
        in order of the latter.
    """

    sent: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    orders: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    repeats: npt.NDArray[np.int64]

    def addresses(
        self, places: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns range, part and row of hashes."""
        messages = np.searchsorted(self.starts, places, side="right") - 1
        orders = self.orders[messages]
        return orders[:, 0], orders[:, 1], self.sent["row"][places].astype(np.int64)


def sent_of(
    received: Received,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the hashes of a partition, as in ``Met``."""
    contents = [np.frombuffer(payload, _SENT) for payload in received.payloads()]
    starts = np.cumsum([0, *map(len, contents)])
    return np.concatenate(contents), starts, np.array(received.orders, np.int64).reshape(-1, 2)


def place_of(
    sent: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    orders: npt.NDArray[np.int64],
    place: int,
) -> Place:
    """Returns the row of one hash of a partition."""
    message = int(np.searchsorted(starts, place, side="right")) - 1
    range_number, part = orders[message].tolist()
    return Place(range_number, part, int(sent["row"][place]))


def meet(received: Received) -> Met:
    """Finds the hashes of a partition that an earlier row has."""
    sent, starts, orders = sent_of(received)
    return Met(sent, starts, orders, *find_repeats(sent).T)


def find_rows(received: Received, partitions: int) -> Found:
    """Finds the rows of a partition whose hash an earlier row has."""
    return repeats_of(meet(received), received.partition // partitions)


def repeats_of(met: Met, number: int) -> Found:
    """Returns the number of repeats, and the first pairs."""
    firsts, repeats = (
        [
            Place(*map(int, place))
            for place in zip(*met.addresses(places[:MOST_PLACES]), strict=True)
        ]
        for places in (met.firsts, met.repeats)
    )
    pairs = tuple(zip(firsts, repeats, strict=True))
    return Found(number, Repeats(len(met.repeats), pairs))


def merge_found(found: Iterable[Found], count: int) -> tuple[Repeats, ...]:
    """Returns the repeats of each of ``count`` columns, of all partitions."""
    own: list[list[Repeats]] = [[] for _ in range(count)]
    for number, repeats in found:
        own[number].append(repeats)
    return tuple(
        Repeats(
            sum(each.rows for each in some),
            tuple(sorted((pair for each in some for pair in each.pairs), key=lambda pair: pair[1]))[
                :MOST_PLACES
            ],
        )
        for some in own
    )


def without_hashes(chunk: Chunk, first: int = 0, end: int | None = None) -> Chunk:
    """Returns a chunk without some columns of hashes.

    Without any, ``PLACE`` is left out as well.

    Args:
      chunk: any.
      first, end: numbers of the columns; by default all.
    """
    hashes = {name for name in chunk.batch.schema.names if name.startswith(HASH)}
    dropped = {
        name
        for name in hashes
        if first <= int(name.removeprefix(HASH))
        and (end is None or int(name.removeprefix(HASH)) < end)
    }
    if dropped == hashes:
        dropped.add(PLACE)
    names = [name for name in chunk.batch.schema.names if name not in dropped]
    return chunk._replace(batch=chunk.batch.select(names))


@dataclasses.dataclass
class FindRepeats(beam.PTransform):
    """Finds rows with equal hashes.

    Input: ``Chunk`` elements with columns of hashes. Output: ``Found`` elements.

    Attributes:
      numbers: of the columns.
      partitions: of each column's hashes.
      folder: for the exchange, used by this step only; ``None`` sends hashes through the engine.
    """

    numbers: tuple[int, ...]
    partitions: int
    folder: str | None

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Found]:
        return (
            chunks
            | "SendHashes" >> beam.Map(send_hashes, self.numbers, self.partitions)
            | "Meet" >> Exchange(self.folder)
            | "FindRepeats" >> beam.Map(find_rows, self.partitions)
        )
