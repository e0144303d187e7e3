"""Finds the rows at given ranks of each class.

Rows are ordered by a hash, and rows with one hash by their position. Their keys meet in partitions
of consecutive hashes, which are sorted and stored. The key at a rank is then read from the
partition that has it. So no worker holds more than the keys of one partition.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.file_locks import Lock
from beam_pipelines.storage import files
from beam_pipelines.transforms.classes import MOST_CLASSES
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.meet import by_number

# A row's key as it crosses, and as it is stored in the order of classes and keys.
_SENT = np.dtype([("class", "<u8"), ("hash", "<u8"), ("row", "<u4")])
KEY = np.dtype([("hash", "<u8"), ("range", "<u4"), ("part", "<u4"), ("row", "<u4")])
# A rank after all rows has a key that no row has.
_LAST = np.array([(2**64 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1)], KEY)
_HALF = np.uint64(32)


class SortedKeys(NamedTuple):
    """The keys of a partition, stored by class and order.

    Attributes:
      partition: its number; partitions are ordered by hash.
      file: an array of ``KEY``.
      rows: (class, its rows), in the order of the file.
    """

    partition: int
    file: str
    rows: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Where the rows of each class are cut, by their order.

    Attributes:
      classes: uint64[classes], ascending.
      names: of the classes.
      rows: int64[classes, pieces], the rows between the cuts.
      keys: ``KEY`` of the first row after each cut, [classes, pieces - 1].
    """

    classes: npt.NDArray[np.uint64]
    names: tuple[str, ...]
    rows: npt.NDArray[np.int64]
    keys: npt.NDArray[Any]

    def save(self, path: str) -> None:
        """Writes the cuts to a file."""
        arrays = {"classes": self.classes, "rows": self.rows, "keys": self.keys}
        files.write_bytes(path, pack_arrays(arrays, self.names))

    @classmethod
    def load(cls, path: str) -> Cuts:
        """Reads the file of ``save``."""
        arrays, names = unpack_arrays(files.read_bytes(path))
        return cls(names=names, **arrays)

    def pieces_of(
        self,
        address: tuple[int, int],
        classes: npt.NDArray[np.uint64],
        hashes: npt.NDArray[Any],
    ) -> npt.NDArray[np.uint8]:
        """Returns the piece of each row of a chunk, from 0.

        Args:
          address: the chunk's range and part.
          classes, hashes: uint64[rows]; every class is a known one.
        """
        own = np.searchsorted(self.classes, classes)
        pieces = np.zeros(len(hashes), np.uint8)
        for cut in self.keys.T:
            cut_hashes = cut["hash"][own]
            is_after = hashes > cut_hashes
            tied = np.flatnonzero(hashes == cut_hashes)
            is_after[tied] = _reaches(address, tied, cut[own[tied]])
            pieces += is_after
        return pieces


def _reaches(
    address: tuple[int, int], rows: npt.NDArray[np.int64], keys: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Whether rows of a chunk are not before the positions of keys."""
    number, part = address
    in_range = np.where(keys["part"] == part, rows >= keys["row"], part > keys["part"])
    reaches: npt.NDArray[np.bool_] = np.where(
        keys["range"] == number, in_range, number > keys["range"]
    )
    return reaches


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]], names: Sequence[str]) -> bytes:
    """Returns arrays and names as bytes."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(list(names)).encode(), np.uint8)
    named: dict[str, Any] = {**arrays, "names": text}
    np.savez(buffer, **named)
    return buffer.getvalue()


# numpy parses a header as Python code. Python 3.11 counts the depth of all threads together, and
# may raise SystemError if two parse at once (https://github.com/python/cpython/issues/106905).
_parsing = Lock()


def unpack_arrays(content: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns arrays and names of ``pack_arrays``."""
    with _parsing, np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return arrays, tuple(json.loads(arrays.pop("names").tobytes()))


def send_keys(
    address: tuple[int, int],
    classes: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
    partitions: int,
) -> Message:
    """Sends the keys of a chunk's rows to their partitions.

    Args:
      address: the chunk's range and part.
      classes, hashes: uint64[rows].
      partitions: of the hashes.
    """
    sent = np.empty(len(hashes), _SENT)
    sent["class"], sent["hash"] = classes, hashes
    sent["row"] = np.arange(len(hashes))
    if partitions == 1:
        return Message(address, {0: sent.tobytes()} if len(sent) else {})
    parts = (((hashes >> _HALF) * np.uint64(partitions)) >> _HALF).astype(np.int64)
    cut = by_number(sent, parts, partitions)
    return Message(address, {part: own.tobytes() for part, own in cut})


def sort_keys(received: Received, folder: str, key: str) -> Iterator[SortedKeys]:
    """Sorts the keys of a partition, stores them, and yields where.

    Args:
      received: of one partition.
      folder: for its file.
      key: of the recipe, for messages.

    Raises:
      DataError: there are too many classes.
    """
    contents = [np.frombuffer(payload, _SENT) for payload in received.payloads()]
    sent = np.concatenate(contents)
    keys = np.empty(len(sent), KEY)
    sizes = [len(content) for content in contents]
    keys["hash"], keys["row"] = sent["hash"], sent["row"]
    for field, place in (("range", 0), ("part", 1)):
        keys[field] = np.repeat([order[place] for order in received.orders], sizes)
    # Stable: messages are in order of their addresses, and rows in order.
    order = np.lexsort((sent["hash"], sent["class"]))
    classes, rows = np.unique(sent["class"], return_counts=True)
    if len(classes) > MOST_CLASSES:
        raise DataError(f"{key}: found more than {MOST_CLASSES:,} classes, expected fewer.")
    path = files.join(folder, str(received.partition))
    files.write_bytes(path, np.take(keys, order).tobytes())
    counted = zip(classes.tolist(), rows.tolist(), strict=True)
    yield SortedKeys(received.partition, path, tuple(counted))


def count_classes(partitions: Iterable[SortedKeys]) -> dict[int, int]:
    """Returns class -> its rows, ordered by class."""
    rows: dict[int, int] = {}
    for partition in partitions:
        for number, count in partition.rows:
            rows[number] = rows.get(number, 0) + count
    return dict(sorted(rows.items()))


def find_cuts(
    partitions: Sequence[SortedKeys],
    names: Mapping[int, str],
    rows: npt.NDArray[np.int64],
) -> Cuts:
    """Finds the keys at the cuts of each class.

    Args:
      partitions: all, in any order.
      names: class -> its name.
      rows: int64[classes, pieces] of the classes of ``count_classes``.
    """
    ordered = sorted(partitions)
    classes = list(count_classes(ordered))
    place = {number: index for index, number in enumerate(classes)}
    ranks = np.cumsum(rows, axis=1)[:, :-1]
    keys = np.full(ranks.shape, _LAST[0], KEY)
    before = np.zeros(len(classes), np.int64)
    for partition in ordered:
        wanted: dict[int, list[tuple[int, int]]] = {}
        start = 0
        for number, count in partition.rows:
            own = place[number]
            local = ranks[own] - before[own]
            for cut in np.flatnonzero((local >= 0) & (local < count)).tolist():
                wanted.setdefault(start + int(local[cut]), []).append((own, cut))
            before[own] += count
            start += count
        for offset, cuts in _keys_at(partition.file, sorted(wanted)):
            for own, cut in wanted[offset]:
                keys[own, cut] = cuts
    shown = tuple(names[number] for number in classes)
    return Cuts(np.array(classes, np.uint64), shown, rows, keys)


def _keys_at(path: str, places: Sequence[int]) -> Iterable[tuple[int, Any]]:
    if not places:
        return
    with files.open_read(path) as file:
        for place in places:
            file.seek(place * KEY.itemsize)
            yield place, np.frombuffer(file.read(KEY.itemsize), KEY)[0]
