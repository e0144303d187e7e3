"""Finds columns that give the label away, on sampled rows.

A column does so if it equals the label, or is a monotone function of it (of classes a strictly
monotone one), or if it alone predicts the label: by the AUC of a label of two values, by the share
of the label's entropy that it knows (``relations.py``). A label of many numbers is not
predicted.

So few rows that a relation may be chance say nothing: the labels of all sampled rows have to hold
100 bits, as do the values of a column with ties that is a monotone function, and what buckets know
by chance (Miller, 1955) may be half of the entropy at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines_plugins.labels.relations import (
    Label,
    Relation,
    can_be_label,
    counts_of,
    numbers_of,
    text_buckets,
)

How = Literal["equal", "monotone", "predicts"]

_CLASSES = ("rate", "class")
_LEAST_BITS = 100
_MOST_CHANCE = 0.5
# Categories of a column, at least; of many classes twice as many as these.
_CATEGORIES = 12
# Labels of more classes are not compared with ranges of numbers.
_MOST_CUT_CLASSES = 20
# Ten ranges of a number know at least half of what its best ranges know.
_LEAST_SHARE = 0.5
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


class Giveaway(NamedTuple):
    """A column that gives the label away.

    Attributes:
      column: its name.
      how: ``equal`` to the label, a ``monotone`` function of it, or one that ``predicts`` it.
      measure: of one that predicts, ``AUC`` or ``information``; else ``""``.
      value: the AUC, or the share of the label's entropy; else 1.
    """

    column: str
    how: How
    measure: str = ""
    value: float = 1.0


def find_giveaways(
    batch: pa.RecordBatch,
    array: pa.Array,
    label: Label,
    names: Iterable[str],
    relations: Mapping[str, Relation],
    bound: float,
) -> Iterator[Giveaway]:
    """Yields the columns that give the label away, in order.

    Args:
      batch: sampled rows.
      array: the label of each row.
      label: the same.
      names: of the columns that are compared.
      relations: column -> what its buckets say about the label, of the same rows.
      bound: least AUC or share.
    """
    classes = np.bincount(label.codes)
    if len(label.codes) * _entropy(classes) < _LEAST_BITS:
        return
    known = pa.array(label.is_known)
    array = array.filter(known)
    for name in names:
        column = batch.column(name).filter(known)
        if not can_be_label(column.type) or column.null_count == len(column):
            continue
        if _is_equal(column, array):
            yield Giveaway(name, "equal")
        elif _is_monotone(column, array, label.kind in _CLASSES):
            yield Giveaway(name, "monotone")
        elif label.kind in _CLASSES:
            yield from _predicting(column, name, label, classes, relations.get(name), bound)


def _predicting(
    column: pa.Array,
    name: str,
    label: Label,
    classes: _Ints,
    relation: Relation | None,
    bound: float,
) -> Iterator[Giveaway]:
    """Yields the column if it alone predicts the class of each row."""
    if label.kind == "rate":
        found = max(_auc(column, label.codes), _auc_of_buckets(relation))
        if found >= bound:
            yield Giveaway(name, "predicts", "AUC", found)
            return
    # Of two classes as well: one of them may have the values in the middle.
    found = _information(column, label.codes, classes, relation.share if relation else 0.0)
    if found >= bound:
        yield Giveaway(name, "predicts", "information", found)


def _is_text(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type))


def _is_equal(column: pa.Array, label: pa.Array) -> bool:
    """Whether a column has the label in every row; integers equal decimals."""
    if column.null_count or _is_text(column) != _is_text(label):
        return False
    if _is_text(column) or column.type == label.type:
        return bool(column.equals(label))
    left, right = numbers_of(column), numbers_of(label)
    if pa.float32() in (column.type, label.type):
        return np.array_equal(left.astype(np.float32), right.astype(np.float32))
    return np.array_equal(left, right)


def _is_monotone(column: pa.Array, label: pa.Array, is_strict: bool) -> bool:
    """Whether a column is a monotone function of the label.

    If it need not be strictly monotone, its values have to hold 100 bits.
    """
    if column.null_count or _is_text(column) or _is_text(label):
        return False
    left, right = numbers_of(column), numbers_of(label)
    order = np.argsort(right, kind="stable")
    steps, jumps = np.diff(left[order]), np.diff(right[order])
    rises = jumps > 0
    if not (steps[~rises] == 0).all():
        return False
    if (steps[rises] > 0).all() or (steps[rises] < 0).all():
        return True
    if is_strict or not ((steps >= 0).all() or (steps <= 0).all()):
        return False
    values = np.unique(left, return_counts=True)[1]
    return len(left) * _entropy(values) >= _LEAST_BITS


def _auc(column: pa.Array, codes: _Ints) -> float:
    """Returns the AUC of numbers for two classes, 0.5 to 1.

    Its nulls and NaN are the least or the greatest, whichever is better.
    """
    if _is_text(column):
        return 0.5
    numbers = numbers_of(column)
    is_missing = np.isnan(numbers)
    if column.null_count:
        is_missing |= column.is_null().to_numpy(zero_copy_only=False)
    found = []
    for missing in (-math.inf, math.inf):
        _, places = np.unique(np.where(is_missing, missing, numbers), return_inverse=True)
        table = counts_of(places.astype(np.int64), codes, np.ones(len(codes)))
        area = _area(table[:, 0], table[:, 1])
        found += [area, 1 - area]
    return max(found)


def _auc_of_buckets(relation: Relation | None) -> float:
    """Returns the AUC of buckets, in the order of their rates."""
    if relation is None:
        return 0.5
    buckets = sorted(relation.buckets, key=lambda bucket: bucket.rate)
    ones = np.array([bucket.share * bucket.rate for bucket in buckets])
    zeros = np.array([bucket.share * (1 - bucket.rate) for bucket in buckets])
    return _area(zeros, ones)


def _area(zeros: _Floats, ones: _Floats) -> float:
    """Returns the AUC of ordered values from each class's rows.

    Equal values count half (Mann and Whitney, 1947).
    """
    total = zeros.sum() * ones.sum()
    below = np.cumsum(zeros) - zeros
    return float((ones * (below + zeros / 2)).sum() / total) if total else 0.5


def _information(column: pa.Array, codes: _Ints, classes: _Ints, share: float) -> float:
    """Returns the share of the classes' entropy that a column knows.

    Args:
      column: any with one value a row.
      codes: the class of each row.
      classes: rows of each class.
      share: what the column's ten ranges know.
    """
    entropy, kinds = _entropy(classes), int((classes > 0).sum())
    most = max(_CATEGORIES, 2 * kinds)
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    present, own = column.drop_null(), codes[is_valid]
    if _is_text(column):
        buckets, names = text_buckets(present, most)
        number = len(names)
    else:
        values, buckets = np.unique(numbers_of(present), return_inverse=True)
        number = len(values)
        if number > most:
            if share < _LEAST_SHARE or kinds > _MOST_CUT_CLASSES:
                return 0.0
            buckets = _best_ranges(buckets.astype(np.int64), own, most)
            number = most
    chance = number * (kinds - 1) / (2 * len(codes) * math.log(2))
    if chance > _MOST_CHANCE * entropy:
        return 0.0
    every = np.full(len(codes), number, np.int64)
    every[is_valid] = buckets
    table = counts_of(every, codes, np.ones(len(codes)))
    left = sum(row.sum() / len(codes) * _entropy(row) for row in table)
    return float(1 - left / entropy)


def _best_ranges(places: _Ints, codes: _Ints, most: int) -> _Ints:
    """Returns each row's range, of ranges that tell the classes best.

    A range is cut in two where that gains most information, if it gains more than the description
    of a cut takes (Fayyad and Irani, 1993, simplified): so few rows make no ranges.

    Args:
      places: of the rows in the order of their values; equal values have one.
      codes: the class of each row.
      most: ranges.
    """
    table = counts_of(places, codes, np.ones(len(codes)))
    least = math.log2(len(codes)) + table.shape[1]
    cuts: list[int] = []
    open_ranges = [_cut(table, 0, len(table))]
    while len(cuts) + 1 < most and open_ranges:
        open_ranges.sort()
        gain, cut, start, end = open_ranges.pop()
        if gain <= least:
            break
        cuts.append(cut)
        open_ranges += [_cut(table, start, cut), _cut(table, cut, end)]
    return np.searchsorted(np.sort(np.array(cuts, np.int64)), places, side="right")


def _cut(table: _Floats, start: int, end: int) -> tuple[float, int, int, int]:
    """Returns the gain of a range's best cut, the cut, the range."""
    if end - start < 2:
        return 0.0, start, start, end
    below = np.cumsum(table[start:end], axis=0)
    above = below[-1] - below[:-1]
    gains = _bits(below[-1:])[0] - _bits(below[:-1]) - _bits(above)
    best = int(np.argmax(gains))
    return round(float(gains[best]), 6), start + best + 1, start, end


def _bits(table: _Floats) -> _Floats:
    """Returns the rows of each line of a table times their entropy."""
    rows = table.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(table > 0, table * np.log2(table), 0).sum(axis=1)
        whole = np.where(rows > 0, rows * np.log2(rows), 0)
    return np.asarray(whole - logs, np.float64)


def _entropy(counts: npt.NDArray[np.int64] | _Floats) -> float:
    total = counts.sum()
    return float(_bits(np.asarray(counts, np.float64)[None])[0] / total) if total else 0.0
