"""Measures what columns say about the label, in bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Buckets of a column: values, or ranges of about equally many rows.
_VALUES, _RANGES = 12, 10
# Labels of more different values are numbers, not classes.
_MOST_CLASSES = 20
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


class Label:
    """The label of sampled rows.

    Attributes:
      is_known: whether each row has a label.
      has_classes: whether its values are classes, no numbers.
      codes: the class of each row that has one, or the range of its number.
    """

    def __init__(self, array: pa.Array, has_names: bool = False) -> None:
        """Finds the classes of a label.

        Args:
          array: its values; rows of null count nowhere.
          has_names: whether its numbers are ids of classes with names.
        """
        self.is_known = array.is_valid().to_numpy(zero_copy_only=False)
        encoded = array.drop_null().dictionary_encode()
        is_number = not (pa.types.is_string(array.type) or pa.types.is_boolean(array.type))
        self.has_classes = has_names or not is_number or len(encoded.dictionary) <= _MOST_CLASSES
        self.codes: _Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if not self.has_classes:
            self.codes = _ranges(numbers_of(array.drop_null()))

    def bits(self, column: pa.Array) -> float | None:
        """Returns the mutual information of a column's buckets and the label.

        The part that few rows have by chance is taken off. ``None`` of lists, of bytes, and of a
        column without values.
        """
        column = column.filter(pa.array(self.is_known))
        if not can_be_label(column.type) or column.null_count == len(column):
            return None
        if pa.types.is_string(column.type):
            buckets = places_of(column, _VALUES)
        else:
            numbers = numbers_of(column)
            is_missing = np.isnan(numbers)
            if is_missing.all():
                return None
            buckets = np.full(len(numbers), _VALUES)
            _, places = np.unique(numbers[~is_missing], return_inverse=True)
            buckets[~is_missing] = places if places.max() < _VALUES else _ranges(places)
        return _information(counts_of(buckets, self.codes))


def can_be_label(kind: pa.DataType) -> bool:
    """Whether columns of a type have one value a row, no bytes."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def places_of(column: pa.Array, most: int) -> _Ints:
    """Returns each row's place among a column's values; nulls come last.

    Args:
      column: numbers in their order, or texts, the most frequent one first.
      most: places of texts; the others share the last one.
    """
    if not pa.types.is_string(column.type):
        return np.unique(numbers_of(column), return_inverse=True)[1].astype(np.int64)
    encoded = column.dictionary_encode()
    counts = np.bincount(encoded.indices.drop_null().to_numpy())
    kept = len(counts)
    if kept > most:  # a text of one row says nothing about others
        kept = min(most - 1, int((counts > 1).sum()))
    places = np.full(len(counts) + 1, kept)
    places[np.argsort(-counts, kind="stable")[:kept]] = np.arange(kept)
    places[-1] += kept < len(counts)
    return np.asarray(places[encoded.indices.fill_null(len(counts)).to_numpy()], np.int64)


def _ranges(numbers: _Floats | _Ints) -> _Ints:
    """Returns the range of each number; ranges have about equally many rows."""
    shares = np.arange(1, _RANGES) / _RANGES
    return np.searchsorted(np.unique(np.quantile(numbers, shares, method="lower")), numbers)


def numbers_of(array: pa.Array) -> _Floats:
    """Returns numbers, booleans, dates and times as float64; nulls are NaN."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int64())
    numbers = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, np.float64)


def counts_of(rows: _Ints, columns: _Ints) -> _Floats:
    """Returns the rows of each pair of a bucket and a class.

    Buckets without rows are left out.
    """
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    counts = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    table = counts.reshape(shape).astype(np.float64)
    return table[table.any(axis=1)]


def _information(table: _Floats) -> float:
    """Returns mutual information in bits.

    Of independent samples it is about (r - 1)(c - 1) / (2 n ln 2) bits in a table of r times c
    cells (Miller, 1955), which is taken off.
    """
    shares = table / table.sum()
    left, right = shares.sum(axis=1), shares.sum(axis=0)
    some = shares > 0
    bits = float((shares[some] * np.log2(shares[some] / np.outer(left, right)[some])).sum())
    cells = (len(left) - 1) * ((right > 0).sum() - 1)
    return max(0.0, bits - float(cells / (2 * table.sum() * np.log(2))))
