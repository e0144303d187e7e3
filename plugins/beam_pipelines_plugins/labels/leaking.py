"""Searches sampled rows for columns that give the label away, for ``leaks``.

A column does so if it equals the label, or is a monotone function of it (of classes a strictly
monotone one), or if it alone predicts the label: by the AUC of a label of two values, by the share
of the label's Gini impurity that it takes away. A label of many numbers is not predicted.

So few rows that a relation may be chance say nothing: the labels of all sampled rows have to hold
100 bits, as do the values of a column with ties that is a monotone function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.encodings.apply import needed
from beam_pipelines_plugins.labels import relations

How = Literal["equal", "monotone", "predicts"]

# What a column does, with the measured value and the label.
_WORDS = {
    "equal": "equals the label '{1}'",
    "monotone": "is a monotone function of the label '{1}'",
    "AUC": "alone predicts the label '{1}': AUC {0:.3f}",
    "information": "alone has {0:.1%} of the information of the label '{1}'",
}

_LEAST_BITS = 100
# Categories of a column, at least; of many classes twice as many as these.
_CATEGORIES = 12
# More pairs of a value and a class, for each row, say nothing.
_MOST_PAIRS = 8
# Labels of more classes are not compared with numbers of many values.
_MOST_CLASSES = 20
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


class Giveaway(NamedTuple):
    """A column that gives the label away.

    Attributes:
      column: its name.
      how: ``equal`` to the label, a ``monotone`` function of it, or one that ``predicts`` it.
      measure: of one that predicts, ``AUC`` or ``information``; else ``""``.
      value: the AUC, or the share of the label's impurity; else 1.
    """

    column: str
    how: How
    measure: str = ""
    value: float = 1.0


def leaking_features(sample: SampledSplits, bound: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a line and data for each column that tells the label.

    Only columns that become features are compared. A label that no column has is taken after
    encoding.

    Args:
      sample: the rows.
      bound: least AUC, or share of the label's information.
    """
    raw, name, plan = sample.raw, sample.label, sample.encode
    rows = raw if name in raw.schema.names else sample.encoded
    if (
        name is None
        or name not in rows.schema.names
        or not relations.can_be_label(rows.column(name).type)
    ):
        return
    array = rows.column(name)
    _, used = needed(plan, set(plan.written) - {name})
    own = (name, sample.weight)
    names = [other for other in raw.schema.names if other in used and other not in own]
    for found in find_giveaways(
        raw, array, relations.Label(array, bool(sample.classes)), names, bound
    ):
        data: dict[str, Any] = {"column": found.column, "label": name, "how": found.how}
        if found.measure:
            data |= {"measure": found.measure, "value": round(found.value, 6)}
        words = _WORDS[found.measure or found.how].format(round(found.value, 6), name)
        line = f"column '{found.column}' {words} in {raw.num_rows:,} sampled rows"
        yield line, {**data, "rows": raw.num_rows}


def find_giveaways(
    batch: pa.RecordBatch,
    array: pa.Array,
    label: relations.Label,
    names: Iterable[str],
    bound: float,
) -> Iterator[Giveaway]:
    """Yields the columns that give the label away, in order.

    Args:
      batch: sampled rows.
      array: the label of each row.
      label: the same.
      names: of the columns that are compared.
      bound: least AUC or share.
    """
    if _bits(np.bincount(label.codes)) < _LEAST_BITS:
        return
    known = pa.array(label.is_known)
    array = array.filter(known)
    for name in names:
        column = batch.column(name).filter(known)
        if not relations.can_be_label(column.type) or column.null_count == len(column):
            continue
        if _is_equal(column, array):
            yield Giveaway(name, "equal")
        elif _is_monotone(column, array, label.has_classes):
            yield Giveaway(name, "monotone")
        elif label.has_classes:
            yield from _predicting(column, name, label.codes, bound)


def _predicting(column: pa.Array, name: str, codes: _Ints, bound: float) -> Iterator[Giveaway]:
    """Yields the column if it alone predicts the class of each row."""
    kinds = len(np.unique(codes))
    most = max(_CATEGORIES, 2 * kinds)
    places = relations.places_of(column, most - 1)
    number = int(places.max()) + 1
    is_few = number <= most
    if number * kinds > _MOST_PAIRS * len(codes) if is_few else kinds > _MOST_CLASSES:
        return
    table = relations.counts_of(places, codes)
    if kinds == 2 and (area := _auc(table, is_few)) >= bound:
        yield Giveaway(name, "predicts", "AUC", area)
    # Of two classes as well: one of them may have the values in the middle.
    elif (share := _information(table, is_few)) >= bound:
        yield Giveaway(name, "predicts", "information", share)


def _is_text(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type))


def _is_equal(column: pa.Array, label: pa.Array) -> bool:
    """Whether a column has the label in every row; integers equal decimals."""
    if column.null_count or _is_text(column) != _is_text(label):
        return False
    if _is_text(column) or column.type == label.type:
        return bool(column.equals(label))
    left, right = relations.numbers_of(column), relations.numbers_of(label)
    if pa.float32() in (column.type, label.type):
        return np.array_equal(left.astype(np.float32), right.astype(np.float32))
    return np.array_equal(left, right)


def _is_monotone(column: pa.Array, label: pa.Array, is_strict: bool) -> bool:
    """Whether a column is a monotone function of the label.

    If it need not be strictly monotone, its values have to hold 100 bits.
    """
    if column.null_count or _is_text(column) or _is_text(label):
        return False
    left, right = relations.numbers_of(column), relations.numbers_of(label)
    order = np.argsort(right, kind="stable")
    steps, jumps = np.diff(left[order]), np.diff(right[order])
    rises = jumps > 0
    if not (steps[~rises] == 0).all():
        return False
    if (steps[rises] > 0).all() or (steps[rises] < 0).all():
        return True
    if is_strict or not ((steps >= 0).all() or (steps <= 0).all()):
        return False
    return _bits(np.unique(left, return_counts=True)[1]) >= _LEAST_BITS


def _auc(table: _Floats, is_few: bool) -> float:
    """Returns the AUC of values for two classes, 0.5 to 1.

    Few values are in the order of their rates. Of others, nulls are the least or the greatest,
    whichever is better.

    Args:
      table: rows of each value and class, in the order of the values.
      is_few: whether the values are few.
    """
    orders = [table, np.roll(table, 1, axis=0)]
    if is_few:
        orders = [table[np.argsort(table[:, 1] / table.sum(axis=1))]]
    areas = [area_of(order[:, 0], order[:, 1]) for order in orders]
    return max(max(area, 1 - area) for area in areas)


def area_of(zeros: _Floats, ones: _Floats) -> float:
    """Returns the AUC of ordered values from each class's rows.

    Equal values count half (Mann and Whitney, 1947).
    """
    total = zeros.sum() * ones.sum()
    below = np.cumsum(zeros) - zeros
    return float((ones * (below + zeros / 2)).sum() / total) if total else 0.5


def _information(table: _Floats, is_few: bool) -> float:
    """Returns the share of Gini impurity that a column takes away.

    It is that of rows in the order of the column whose next row has another class. So neighbouring
    values of one class count as one, and values that are different in all rows tell nothing.

    Args:
      table: rows of each value and class, in the order of the values.
      is_few: whether the values are few, so that their order does not matter.
    """
    rows = table.sum(axis=1)
    shares = table / rows[:, None]
    changes = float((rows * (1 - (shares * shares).sum(axis=1))).sum())
    if not is_few:
        between = float((1 - (shares[1:] * shares[:-1]).sum(axis=1)).sum())
        changes += between - (table.shape[1] - 1)  # at least, one behind each class
    classes = table.sum(axis=0) / rows.sum()
    return 1 - changes / float(rows.sum() * (1 - (classes * classes).sum()))


def _bits(counts: _Ints) -> float:
    """Returns the rows of some counts times their entropy."""
    some = counts[counts > 0]
    return float((some * np.log2(some.sum() / some)).sum())
