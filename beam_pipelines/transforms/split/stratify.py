"""Assigns rows to splits by the counts of classes, to the row.

The classes are the combinations of values of the columns in ``stratify``. Of a class, rows are
ordered by the hash that decides the split without ``stratify``, rows with one hash by their
position, and cut where the shares end. So a row changes its split only if it is near a cut, and
rows with equal values are apart only there.

The rows' keys meet in partitions of consecutive hashes, which are sorted and stored. The key at a
cut is then read from the partition that has it. So no worker holds more than the keys of one
partition.
"""

from __future__ import annotations

import dataclasses
import fractions
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis import class_shares
from beam_pipelines.core.chunks import ASSIGNED, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.meet import MeetByKey, by_number
from beam_pipelines.transforms.spill import LoadChunks, SpillChunks
from beam_pipelines.transforms.split.sample import (
    MOST_CLASSES,
    code_classes,
    merge_names,
    name_classes,
)
from beam_pipelines.transforms.split.split import SplitPlan

_STRATIFY = "split.stratify"
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
        arrays = [self.classes.tolist(), self.rows.tolist(), self.keys.tolist()]
        files.write_bytes(path, json.dumps([self.names, *arrays]).encode())

    @classmethod
    def load(cls, path: str) -> Cuts:
        """Reads the file of ``save``."""
        names, classes, rows, keys = json.loads(files.read_bytes(path))
        cuts = np.array([[tuple(key) for key in own] for own in keys], KEY)
        return cls(np.array(classes, np.uint64), tuple(names), np.array(rows, np.int64), cuts)

    def pieces_of(
        self, address: tuple[int, int], classes: npt.NDArray[np.uint64], hashes: npt.NDArray[Any]
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
    parts = (((hashes >> _HALF) * np.uint64(partitions)) >> _HALF).astype(np.int64)
    cut = by_number(sent, parts, partitions)
    return Message(address, {part: own.tobytes() for part, own in cut})


def sort_keys(received: Received, folder: str) -> Iterator[SortedKeys]:
    """Sorts the keys of a partition, stores them, and yields where.

    Args:
      received: of one partition.
      folder: for its file.

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
        raise DataError(f"{_STRATIFY}: found more than {MOST_CLASSES:,} classes, expected fewer.")
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
    partitions: Sequence[SortedKeys], names: Mapping[int, str], rows: npt.NDArray[np.int64]
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


class _Assign(beam.DoFn):
    """Gives chunks the splits of their rows."""

    def __init__(self, plan: SplitPlan, path: str) -> None:
        self._plan, self._path = plan, path
        self._loaded: Cuts | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        if self._loaded is None:
            self._loaded = Cuts.load(self._path)
        classes = code_classes(chunk.batch, self._plan.stratify, _STRATIFY).of_rows
        hashes = self._plan.hashes_of(chunk.batch)
        assigned = pa.array(self._loaded.pieces_of(chunk[:2], classes, hashes))
        yield chunk._replace(batch=chunk.batch.append_column(ASSIGNED, assigned))


def load_shares(plan: SplitPlan, path: str) -> dict[str, Any]:
    """Reads the rows of each class as the entry of the manifest.

    The file is that of ``AssignSplits``.
    """
    cuts = Cuts.load(path)
    rows = dict(zip(cuts.names, cuts.rows.tolist(), strict=True))
    shares = dict(zip(plan.names, plan.shares, strict=True))
    return class_shares.entry_of(plan.stratify, shares, rows)


@dataclasses.dataclass
class AssignSplits(beam.PTransform):
    """Assigns rows to splits, so that each class has its shares.

    Input: ``Chunk`` elements. Output: a dict with ``chunks``: the same with the column
    ``ASSIGNED``; and ``shares``: the path of one file with ``names`` and ``rows`` of the classes.

    Attributes:
      plan: with columns to ``stratify`` by.
      partitions: of the keys.
      path: of the file.
      scratch: folders of this step only, for keys and chunks.
      folder: for the exchange, used by this step only; ``None`` sends keys through the engine.
    """

    plan: SplitPlan
    partitions: int
    path: str
    scratch: tuple[str, str]
    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        plan = self.plan
        names = (
            chunks
            | "NameClasses" >> beam.Map(_names_in, plan)
            | "MergeNames" >> beam.CombineGlobally(lambda named: merge_names(named, _STRATIFY))
        )
        once = chunks.pipeline | "Once" >> beam.Create([None], reshuffle=False)
        sorted_keys = chunks | "SortKeys" >> MeetByKey(
            partial(_send_keys, plan=plan, partitions=self.partitions),
            partial(sort_keys, folder=self.scratch[0]),
            self.folder,
        )
        saved = once | "Divide" >> beam.Map(
            _save_cuts,
            beam.pvalue.AsList(sorted_keys),
            beam.pvalue.AsSingleton(names),
            plan,
            self.path,
        )
        assigned = (
            chunks
            | "SpillChunks" >> SpillChunks(self.scratch[1])
            | "LoadChunks" >> LoadChunks((saved,))
            | "Assign" >> beam.ParDo(_Assign(plan, self.path))
        )
        return {"chunks": assigned, "shares": saved}


def _send_keys(chunk: Chunk, plan: SplitPlan, partitions: int) -> Message:
    coded = code_classes(chunk.batch, plan.stratify, _STRATIFY)
    return send_keys(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch), partitions)


def _names_in(chunk: Chunk, plan: SplitPlan) -> dict[int, str]:
    coded = code_classes(chunk.batch, plan.stratify, _STRATIFY)
    return name_classes(chunk.batch, plan.stratify, coded)


def _save_cuts(
    _once: None,
    partitions: Sequence[SortedKeys],
    names: Mapping[int, str],
    plan: SplitPlan,
    path: str,
) -> str:
    """Cuts the rows of each class by the shares.

    Raises:
      DataError: a class has fewer rows than there are splits.
    """
    counted = count_classes(partitions)
    _check_sizes(counted, names, plan)
    rows = divide_classes(list(counted.values()), plan.shares)
    find_cuts(partitions, names, rows).save(path)
    return path


def _check_sizes(counted: Mapping[int, int], names: Mapping[int, str], plan: SplitPlan) -> None:
    """Raises ``DataError`` if a class is too small to be divided.

    Args:
      counted: class -> its rows.
      names: class -> its name.
      plan: of the split.
    """
    small = [number for number, count in counted.items() if count < len(plan.names)]
    if not small:
        return
    shown = "; ".join(f"{names[number]}: {counted[number]:,}" for number in small[:5])
    more = f"; and {len(small) - 5:,} more classes" if len(small) > 5 else ""
    by = ", ".join(plan.stratify)
    raise DataError(
        f"{_STRATIFY}, classes of {by}: found rows of {shown}{more}; expected at least "
        f"{len(plan.names)} of each class, one for each split; nothing was written. Leave the rows "
        "out with 'filter', or unite rare classes with 'derive'."
    )


def whole_weights(shares: Sequence[float]) -> list[int]:
    """Returns whole numbers in the proportion of the decimals of shares."""
    decimals = [fractions.Fraction(repr(share)) for share in shares]
    common = math.lcm(*(decimal.denominator for decimal in decimals))
    return [int(decimal * common) for decimal in decimals]


def divide_classes(rows: Sequence[int], shares: Sequence[float]) -> npt.NDArray[np.int64]:
    """Divides the rows of each class among splits.

    A split gets the rows of its share, rounded up or down. A rest goes first to splits that have no
    row of the class yet, then to those that lack the most rows in all classes so far, so that the
    sums are near the shares, too.

    Args:
      rows: of each class; the order of the classes matters.
      shares: of the splits, above 0.

    Returns:
      int64[classes, splits]; the sums of its rows are ``rows``.
    """
    weights = whole_weights(shares)
    whole = sum(weights)
    divided = np.zeros((len(rows), len(weights)), np.int64)
    lacking = [0] * len(weights)  # in units of 1 / whole rows
    for number, count in enumerate(rows):
        own = [count * weight // whole for weight in weights]
        rests = [count * weight % whole for weight in weights]
        lacking = [lack + rest for lack, rest in zip(lacking, rests, strict=True)]
        left = count - sum(own)
        order = sorted(
            (split for split, rest in enumerate(rests) if rest),
            key=lambda split: (own[split] > 0, -lacking[split], split),
        )
        for split in order[:left]:
            own[split] += 1
            lacking[split] -= whole
        divided[number] = own
    return divided
