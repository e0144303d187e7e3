"""Divides groups of rows, so that each class has its shares.

A group is rows with the same values in ``by``, and stays in one split. Groups with the same number
of rows of each class are one *kind*. Kinds are dealt one after the other, the largest first; each
group goes to the split where it lowers the sum of

    (rows of a class in a split - its share of the class)² / (rows of the class)² / share

over all classes and splits the most. The groups of one kind are dealt at once, with the same
result as one by one: of a convex sum, the smallest steps come first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.storage import files
from beam_pipelines.transforms.cuts import pack_arrays, unpack_arrays
from beam_pipelines.transforms.exchange import Message, Received, by_number

# Rows of one class in one group.
_COUNT = np.dtype([("group", "<u8"), ("class", "<u8"), ("rows", "<u4")])
_SEED = 0x67726F757073  # "groups"


class CountedGroups(NamedTuple):
    """The groups of a partition, in a file."""

    partition: int
    file: str


class Kinds(NamedTuple):
    """Groups, and the rows that those of one kind have.

    Attributes:
      groups: uint64[groups], hashes.
      kinds: uint64[groups], the hash of each group's kind.
      counted: uint64[kinds], the kinds; ``ends``: int64[kinds], where the classes of each end.
      classes, rows: uint64[n] and int64[n], the rows of each class in a group of a kind.
    """

    groups: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint64]
    counted: npt.NDArray[np.uint64]
    ends: npt.NDArray[np.int64]
    classes: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]


def send_groups(
    address: tuple[int, int],
    groups: npt.NDArray[np.uint64],
    classes: npt.NDArray[np.uint64],
    partitions: int,
) -> Message:
    """Sends the counts of groups and classes to the groups' partitions."""
    counts = _sum_counts(groups, classes, np.ones(len(groups), np.uint32))
    parts = (counts["group"] % np.uint64(partitions)).astype(np.int64)
    cut = by_number(counts, parts, partitions)
    return Message(address, {part: own.tobytes() for part, own in cut})


def _sum_counts(
    groups: npt.NDArray[np.uint64], classes: npt.NDArray[np.uint64], rows: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Returns ``_COUNT`` of each group and class, ordered by them."""
    order = np.lexsort((classes, groups))
    groups, classes = groups[order], classes[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (groups[1:] != groups[:-1]) | (classes[1:] != classes[:-1])
    starts = np.flatnonzero(is_first)
    counts = np.empty(len(starts), _COUNT)
    counts["group"], counts["class"] = groups[starts], classes[starts]
    if len(starts):
        counts["rows"] = np.add.reduceat(rows[order].astype(np.int64), starts)
    return counts


def count_groups(received: Received, folder: str) -> CountedGroups:
    """Counts the groups of a partition and stores them."""
    sent = np.concatenate([np.frombuffer(payload, _COUNT) for payload in received.payloads()])
    counts = _sum_counts(sent["group"], sent["class"], sent["rows"])
    path = files.join(folder, str(received.partition))
    files.write_bytes(path, pack_arrays(find_kinds(counts)._asdict(), ()))
    return CountedGroups(received.partition, path)


def find_kinds(counts: npt.NDArray[Any]) -> Kinds:
    """Returns the kinds of groups.

    Args:
      counts: rows of each group and class, ordered by them.
    """
    starts = np.flatnonzero(np.append(True, counts["group"][1:] != counts["group"][:-1]))
    terms = mix(counts["class"] ^ mix(counts["rows"].astype(np.uint64) * np.uint64(GOLDEN)))
    kinds = np.add.reduceat(terms, starts)
    counted, firsts = np.unique(kinds, return_index=True)
    sizes = np.diff(np.append(starts, len(counts)))[firsts]
    ends = np.cumsum(sizes)
    places = np.arange(int(sizes.sum())) + np.repeat(starts[firsts] - (ends - sizes), sizes)
    own = counts[places]
    return Kinds(
        counts["group"][starts], kinds, counted, ends, own["class"], own["rows"].astype(np.int64)
    )


def merge_kinds(partitions: Sequence[CountedGroups]) -> Kinds:
    """Returns the kinds of all groups, in order of their hashes."""
    loaded = [Kinds(**unpack_arrays(files.read_bytes(each.file))[0]) for each in sorted(partitions)]
    counted = np.concatenate([each.counted for each in loaded])
    sizes = np.concatenate([np.diff(each.ends, prepend=0) for each in loaded])
    starts = np.cumsum(sizes) - sizes
    kinds, firsts = np.unique(counted, return_index=True)
    ends = np.cumsum(sizes[firsts])
    places = np.arange(int(ends[-1])) + np.repeat(
        starts[firsts] - (ends - sizes[firsts]), sizes[firsts]
    )
    return Kinds(
        np.concatenate([each.groups for each in loaded]),
        np.concatenate([each.kinds for each in loaded]),
        kinds,
        ends,
        np.concatenate([each.classes for each in loaded])[places],
        np.concatenate([each.rows for each in loaded])[places],
    )


@dataclasses.dataclass(frozen=True)
class DealtGroups:
    """The split of each group.

    Attributes:
      groups: uint64[groups], ascending.
      splits: uint8[groups].
      classes: uint64[classes], ascending.
      holders: int64[classes], the groups that have rows of each class.
      rows: int64[classes, splits].
    """

    groups: npt.NDArray[np.uint64]
    splits: npt.NDArray[np.uint8]
    classes: npt.NDArray[np.uint64]
    holders: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def save(self, path: str, names: Sequence[str]) -> None:
        """Writes the groups to a file, with the names of the classes."""
        files.write_bytes(path, pack_arrays(vars(self), names))

    @classmethod
    def load(cls, path: str) -> DealtGroups:
        """Reads the file of ``save``."""
        return cls(**unpack_arrays(files.read_bytes(path))[0])

    def splits_of(self, groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
        """Returns the splits of groups that are known."""
        return self.splits[np.searchsorted(self.groups, groups)]


def deal_groups(kinds: Kinds, shares: Sequence[float], seed: int = 0) -> DealtGroups:
    """Divides groups among splits.

    Sums of floats have a fixed order, so that every processor gives the same result.

    Args:
      kinds: of all groups.
      shares: of the splits.
      seed: of the order of the groups of one kind.
    """
    classes, codes = np.unique(kinds.classes, return_inverse=True)
    numbers = np.searchsorted(kinds.counted, kinds.kinds)
    many = np.bincount(numbers, minlength=len(kinds.counted))
    sizes = np.diff(kinds.ends, prepend=0)
    totals = _sums(codes, kinds.rows * np.repeat(many, sizes), len(classes))
    dealt = _deal_kinds(kinds, codes, many, totals, np.array(shares))
    keys = mix(kinds.groups ^ np.uint64(mix_int(seed + _SEED)))
    order = np.lexsort((keys, numbers))
    splits = np.empty(len(order), np.uint8)
    splits[order] = np.repeat(np.tile(np.arange(len(shares)), len(many)), dealt.ravel())
    rows = np.stack(
        [
            _sums(codes, kinds.rows * np.repeat(dealt[:, split], sizes), len(classes))
            for split in range(len(shares))
        ],
        axis=1,
    )
    holders = _sums(codes, np.repeat(many, sizes), len(classes))
    by_hash = np.argsort(kinds.groups)
    return DealtGroups(kinds.groups[by_hash], splits[by_hash], classes, holders, rows)


def _sums(
    codes: npt.NDArray[np.int64], values: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64]:
    """Returns the sum of the values of each code; exact."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes, values)
    return sums


def _deal_kinds(
    kinds: Kinds,
    codes: npt.NDArray[np.int64],
    many: npt.NDArray[np.int64],
    totals: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Returns int64[kinds, splits], the groups of each kind that each split gets."""
    weights = kinds.rows / totals[codes]
    starts = kinds.ends - np.diff(kinds.ends, prepend=0)
    squares = np.add.accumulate(np.append(0.0, weights * weights))
    lengths = squares[kinds.ends] - squares[starts]
    order = np.lexsort((kinds.counted, -lengths))
    # What a split has of each class more than its share of it, as a part of the class.
    excess = np.repeat(-shares[:, None], len(totals), axis=1)
    dealt = np.zeros((len(many), len(shares)), np.int64)
    for kind in order.tolist():
        own = slice(starts[kind], kinds.ends[kind])
        places, parts = codes[own], weights[own]
        along = excess[:, places] * parts
        # The cost of the k-th group in a split is base + slope * (2 * k - 1).
        base = 2 * np.add.accumulate(along, axis=1)[:, -1] / shares
        slope = np.add.accumulate(parts * parts)[-1] / shares
        dealt[kind] = _deal_alike(int(many[kind]), base, slope)
        excess[:, places] += dealt[kind][:, None] * parts
    return dealt


def _deal_alike(
    count: int, base: npt.NDArray[np.float64], slope: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Deals groups of one kind to the splits of least cost.

    Args:
      count: of the groups.
      base, slope: of each split, whose k-th group costs ``base + slope * (2 * k - 1)``.
    """
    dealt = np.zeros(len(base), np.int64)
    if count > 2 * len(base):
        # Real numbers of groups with one cost, rounded down, so that the last ones are left.
        takes = np.ones(len(base), bool)
        while True:
            inverse = 1 / (2 * slope[takes])
            offsets = np.add.accumulate(base[takes] * inverse - 0.5)[-1]
            level = (count + offsets) / np.add.accumulate(inverse)[-1]
            real = np.where(takes, (level - base) / (2 * slope) + 0.5, 0.0)
            if np.all(real >= 0):
                break
            takes &= real > 0
        dealt = np.maximum(np.floor(real).astype(np.int64) - 1, 0)
    for _ in range(count - int(dealt.sum())):
        split = int(np.argmin(base + slope * (2 * dealt + 1)))
        dealt[split] += 1
    return dealt
