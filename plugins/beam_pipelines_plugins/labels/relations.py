"""Measures label rates and mutual information by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.description import Show, show_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.core.formatting import shorten

# Buckets of a column: values, or ranges of about equally many rows.
_VALUES, _RANGES = 12, 10
# Labels of more different values are numbers, not classes.
_MOST_CLASSES = 20
_CHARACTERS = 60
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


class ValueBucket(NamedTuple):
    """The rows with some values of a column.

    Attributes:
      name: its value, or range of values.
      share: of the rows.
      rate: of two classes the share of the second one, of more the share of the most frequent one,
        of numbers the mean.
      best: the most frequent of several classes, else ``""``.
    """

    name: str
    share: float
    rate: float
    best: str = ""


class Relation(NamedTuple):
    """What a column says about the label.

    Attributes:
      bits: mutual information of buckets and classes, without the part that few rows have by
        chance.
      share: of the label's entropy, from 0 to 1.
      buckets: of the column, in order; null is the last one.
    """

    bits: float
    share: float
    buckets: tuple[ValueBucket, ...]


class Label:
    """The label of sampled rows.

    Attributes:
      name: its name.
      kind: ``rate`` of two classes, ``class`` of more, or ``mean`` of numbers.
      title: what a bucket's rate is.
      is_known: whether each row has a label.
      codes: the class of each row that has one, or the range of its number.
    """

    def __init__(self, name: str, array: pa.Array, names: Sequence[str] = ()) -> None:
        """Finds the classes of a label.

        Args:
          name: of the label.
          array: its values; rows of null count nowhere.
          names: of the classes by id.
        """
        self.name = name
        show = show_of(name, [ColumnStatistics.of(array)])
        self.is_known = array.is_valid().to_numpy(zero_copy_only=False)
        encoded = array.drop_null().dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        classes = encoded.dictionary.take(pa.array(order))
        places = np.argsort(order)[encoded.indices.to_numpy(zero_copy_only=False)]
        is_number = not (pa.types.is_string(array.type) or pa.types.is_boolean(array.type))
        self.kind = "rate" if len(classes) == 2 else "class"
        self.numbers: _Floats = places.astype(np.float64)
        self.classes: list[str] = []
        self.codes: _Ints = places
        if is_number and len(classes) > _MOST_CLASSES and not names:
            self.kind = "mean"
            self.numbers = numbers_of(array.drop_null())
            self.codes, _ = _ranges(self.numbers)
            self.title = f"Mean of {name}"
            return
        self.classes = [_shown(value, array.type, show, names) for value in classes]
        self.title = f"{name} = {self.classes[1]}" if self.kind == "rate" else "Most frequent class"

    @property
    def is_useful(self) -> bool:
        """Whether the label has at least two values."""
        return len(np.unique(self.codes)) > 1

    def relation(self, column: pa.Array, show: Show, weights: _Floats | None) -> Relation | None:
        """Returns what a column says about the label.

        ``None`` of lists, of bytes, and of a column without values.

        Args:
          column: as many rows as the label.
          show: shows its numbers.
          weights: of the rows, or ``None``.
        """
        column = column.filter(pa.array(self.is_known))
        weights = np.ones(len(self.is_known)) if weights is None else weights
        weights = weights[self.is_known]
        found = _buckets(column, show)
        if found is None or not weights.sum():
            return None
        codes, names = found
        table = counts_of(codes, self.codes, weights)
        bits, share = _information(table, weights.sum() ** 2 / (weights * weights).sum())
        return Relation(bits, share, tuple(self._rates(codes, names, table, weights)))

    def _rates(
        self, codes: _Ints, names: Sequence[str], table: _Floats, weights: _Floats
    ) -> Iterator[ValueBucket]:
        rows = table.sum(axis=1)
        sums = np.bincount(codes, weights * self.numbers, len(names))
        for place, name in enumerate(names):
            share = float(rows[place] / rows.sum())
            if not rows[place]:
                continue
            if self.kind == "class":
                best = int(table[place].argmax())
                rate = float(table[place, best] / rows[place])
                yield ValueBucket(name, share, rate, self.classes[best])
            else:
                yield ValueBucket(name, share, float(sums[place] / rows[place]))


def can_be_label(kind: pa.DataType) -> bool:
    """Whether columns of a type have one value a row, no bytes."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def relations(
    batch: pa.RecordBatch, label: Label, names: Iterable[str], weights: _Floats | None
) -> Iterator[tuple[str, Relation]]:
    """Yields (column, relation) of columns with values of a bucket each.

    Args:
      batch: sampled rows.
      label: of the rows.
      names: of columns; not the label.
      weights: of the rows, or ``None``.
    """
    for name in names:
        column = batch.column(name)
        found = label.relation(column, show_of(name, [ColumnStatistics.of(column)]), weights)
        if found is not None:
            yield name, found


def _buckets(column: pa.Array, show: Show) -> tuple[_Ints, list[str]] | None:
    """Returns each row's bucket, and the names; nulls come last."""
    kind = column.type
    if not can_be_label(kind) or column.null_count == len(column):
        return None
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    present = column.drop_null()
    if pa.types.is_string(kind):
        codes, names = text_buckets(present)
    else:
        numbers = numbers_of(present)
        is_nan = np.isnan(numbers)
        if is_nan.all():
            return None
        is_valid[np.flatnonzero(is_valid)[is_nan]] = False
        codes, names = _number_buckets(numbers[~is_nan], kind, show)
    if is_valid.all():
        return codes, names
    every = np.full(len(column), len(names), np.int64)
    every[is_valid] = codes
    return every, [*names, "missing"]


def text_buckets(texts: pa.Array, most: int = _VALUES) -> tuple[_Ints, list[str]]:
    """Returns buckets of the most frequent texts, and one of the others.

    Args:
      texts: without nulls.
      most: buckets.
    """
    encoded = texts.dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy())
    # Among equally frequent texts the first ones, whatever rows come first.
    by_text = np.argsort(pc.sort_indices(encoded.dictionary).to_numpy())
    order = np.lexsort((by_text, -counts))
    kept = len(order)
    if kept > most:  # a text of one row says nothing about others
        kept = min(most - 1, int((counts > 1).sum()))
    places = np.full(len(order), kept, np.int64)
    places[order[:kept]] = np.arange(kept)
    shown = encoded.dictionary.take(pa.array(order[:kept])).to_pylist()
    names = [shorten(text, _CHARACTERS) for text in shown]
    if kept < len(order):
        names.append(f"{len(order) - kept:,} {'others' if kept else 'different texts'}")
    return places[encoded.indices.to_numpy()], names


def _number_buckets(numbers: _Floats, kind: pa.DataType, show: Show) -> tuple[_Ints, list[str]]:
    """Returns buckets of few numbers, or ranges of about equal shares."""
    values, codes = np.unique(numbers, return_inverse=True)
    if len(values) <= _VALUES:
        return codes.astype(np.int64), [_number(value, kind, show) for value in values]
    codes, ends = _ranges(numbers)
    return codes, [
        _number(low, kind, show)
        if low == high
        else f"{_number(low, kind, show)} – {_number(high, kind, show)}"
        for low, high in ends
    ]


def _ranges(numbers: _Floats) -> tuple[_Ints, list[tuple[float, float]]]:
    """Returns each number's range, and the ends of the ranges."""
    shares = np.arange(1, _RANGES) / _RANGES
    cuts = np.unique(np.quantile(numbers, shares, method="lower"))
    _, codes = np.unique(np.searchsorted(cuts, numbers), return_inverse=True)
    number = int(codes.max()) + 1
    low, high = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(low, codes, numbers)
    np.maximum.at(high, codes, numbers)
    return codes.astype(np.int64), list(zip(low.tolist(), high.tolist(), strict=True))


def _number(value: float, kind: pa.DataType, show: Show) -> str:
    return show(value if pa.types.is_floating(kind) else int(value), kind)


def numbers_of(array: pa.Array) -> _Floats:
    """Returns numbers, booleans, dates and times as float64."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int64())
    numbers = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, np.float64)


def counts_of(rows: _Ints, columns: _Ints, weights: _Floats) -> _Floats:
    """Returns the weight of each pair of a bucket and a class."""
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    counts = np.bincount(rows * shape[1] + columns, weights, shape[0] * shape[1])
    return np.asarray(counts.reshape(shape), np.float64)


def _information(table: _Floats, rows: float) -> tuple[float, float]:
    """Returns mutual information in bits, and its share of the classes' entropy.

    Of independent samples it is about (r - 1)(c - 1) / (2 n ln 2) bits in a table of r times c
    cells (Miller, 1955), which is taken off.
    """
    shares = table / table.sum()
    left, right = shares.sum(axis=1), shares.sum(axis=0)
    some = shares > 0
    expected = np.outer(left, right)[some]
    bits = float((shares[some] * np.log2(shares[some] / expected)).sum())
    cells = ((left > 0).sum() - 1) * ((right > 0).sum() - 1)
    bits = max(0.0, bits - cells / (2 * rows * np.log(2)))
    entropy = -float((right[right > 0] * np.log2(right[right > 0])).sum())
    return bits, min(1.0, bits / entropy) if entropy else 0.0


def _shown(value: pa.Scalar, kind: pa.DataType, show: Show, names: Sequence[str]) -> str:
    if pa.types.is_string(kind):
        return shorten(str(value.as_py()), _CHARACTERS)
    (number,) = numbers_of(pa.array([value.as_py()], kind)).tolist()
    if 0 <= number < len(names):
        return names[int(number)]
    return _number(number, kind, show)
