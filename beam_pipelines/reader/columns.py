"""Turns parsed features into the values of batches.

A dense feature is an array in the parser's memory. Any other is a ``Ragged``, or padded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.reader import arrays
from beam_pipelines.reader.features import ReadFeature

Offsets = npt.NDArray[np.int64]


class Ragged(NamedTuple):
    """Values of a feature that may be missing, or has several lengths.

    The values of row i are ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
      values: of all rows: numbers, or objects (bytes); of a feature list whose steps have any
        number of values, a ``Ragged`` of the steps.
      offsets: int64[rows + 1], from 0.
      is_present: bool[rows], false where the feature is missing; it may be there without values.
    """

    values: Any
    offsets: Any
    is_present: Any


class FeatureValues(Protocol):
    """A feature's values in some rows."""

    def cut(self, start: int, end: int) -> Any:
        """Returns the values of neighbouring rows."""


def make_column(lists: pa.LargeListArray, feature: ReadFeature, as_: str) -> FeatureValues:
    """Returns the values of a feature, ready to be cut into batches.

    Args:
      lists: the parsed values: null where the feature is missing; or of the feature's size.
      feature: as the schema has it; no feature list.
      as_: ``arrow``; any other: numpy arrays.

    Raises:
      WrongRowError: a row has another number of values than the feature's shape, or a value does
        not fit in the type.
    """
    is_fixed = pa.types.is_fixed_size_list(lists.type)
    size = math.prod(feature.shape or ())
    if feature.shape is None:
        offsets = arrays.offsets_of(lists)
        if as_ == "arrow":
            return ArrowColumn(arrow_lists(lists, feature, offsets))
        values = arrays.narrowed(
            feature.name, arrays.array_of(lists.values), feature.dtype, offsets
        )
        return ragged_column(values, offsets, arrays.validity_of(lists), feature.padding)
    if feature.fill is not None:
        array = _filled(lists.values, feature, size, arrays.offsets_of(lists))
    elif not is_fixed and not _has_size(lists, size):
        raise _wrong_row(feature, lists, size)
    elif as_ == "arrow" and feature.type == pa.large_binary():
        return ArrowColumn(_arrow_rows(lists.values, feature.shape))
    else:
        step = max(size, 1)
        edges = range(0, (len(lists) + 1) * step, step)  # numpy makes an array of it if it has to
        array = arrays.narrowed(feature.name, arrays.array_of(lists.values), feature.dtype, edges)
    if as_ == "arrow":
        type_ = pa.large_binary() if array.dtype == object else pa.from_numpy_dtype(array.dtype)
        return ArrowColumn(_arrow_rows(pa.array(array.reshape(-1), type_), feature.shape))
    return DenseColumn(array.reshape(len(lists), *feature.shape))


def _has_size(lists: pa.LargeListArray, size: int) -> bool:
    """Whether all lists are there, with so many values."""
    return not lists.null_count and np.array_equal(
        arrays.offsets_of(lists), np.arange(len(lists) + 1) * size
    )


def ragged_column(
    values: npt.NDArray[Any],
    offsets: Offsets,
    is_present: npt.NDArray[np.bool_],
    padding: Any = None,
) -> FeatureValues:
    """Returns a column of a ``Ragged``, or of arrays that are padded."""
    if padding is None:
        return RaggedColumn(DenseColumn(values), offsets, is_present)
    return PaddedColumn(values, offsets, padding)


def _filled(
    values: pa.Array, feature: ReadFeature, size: int, offsets: Offsets
) -> npt.NDArray[Any]:
    """Returns [rows, size] values, with the fill value in rows without any."""
    lengths = np.diff(offsets)
    is_full = lengths == size
    if not (is_full | (lengths == 0)).all():
        row = int(np.argmin(is_full | (lengths == 0)))
        raise arrays.WrongRowError(
            row,
            f"feature '{feature.name}': found {lengths[row]:,} values, expected {size:,} or none, "
            "as it has a fill value. Leave it out of 'fill'",
        )
    found = arrays.narrowed(feature.name, arrays.array_of(values), feature.dtype, offsets)
    array = np.empty((len(lengths), size), found.dtype)
    array[is_full] = found.reshape(-1, size)
    array[~is_full] = feature.fill
    return array


def _wrong_row(feature: ReadFeature, lists: pa.LargeListArray, size: int) -> arrays.WrongRowError:
    row = int(np.argmin((np.diff(arrays.offsets_of(lists)) == size) & arrays.validity_of(lists)))
    found = lists[row].as_py()
    what = "nothing" if found is None else f"{len(found):,} values"
    if feature.image is not None:
        expected = "one image in every row. Leave other rows out by the recipe's 'filter'"
    else:
        expected = f"{size:,} values as the schema says. Convert again with --overwrite"
    return arrays.WrongRowError(row, f"feature '{feature.name}': found {what}, expected {expected}")


def arrow_lists(lists: pa.Array, feature: ReadFeature, offsets: Offsets) -> pa.Array:
    """Returns lists whose numbers have the feature's type.

    Args:
      lists: of values, or of steps.
      feature: of numbers or bytes.
      offsets: int64[rows + 1], the rows' places in the values.
    """
    values, type_ = lists, feature.type
    if feature.dtype == object:
        return lists
    wanted = pa.from_numpy_dtype(feature.dtype)
    if wanted == type_:
        return lists
    while pa.types.is_large_list(values.type):
        values, wanted = values.values, pa.large_list(wanted)
    arrays.narrowed(
        feature.name, arrays.array_of(values), feature.dtype, offsets
    )  # checks the values
    return lists.cast(wanted, safe=False)


def _arrow_rows(values: pa.Array, shape: Sequence[int]) -> pa.Array:
    for size in reversed(shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


class DenseColumn:
    """Rows of one shape."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array

    def cut(self, start: int, end: int) -> npt.NDArray[Any]:
        """Returns neighbouring rows, without a copy."""
        return self._array[start:end]


class RaggedColumn:
    """Rows, or steps, of several lengths.

    A row's values are neighbours in a column, which may itself be ragged.
    """

    def __init__(
        self, values: FeatureValues, offsets: Offsets, is_present: npt.NDArray[np.bool_]
    ) -> None:
        self._values, self._offsets, self._is_present = values, offsets, is_present

    def cut(self, start: int, end: int) -> Ragged:
        """Returns neighbouring rows; their values are not copied."""
        offsets = self._offsets[start : end + 1]
        values = self._values.cut(int(offsets[0]), int(offsets[-1]))
        return Ragged(values, offsets - offsets[0], self._is_present[start:end])


class PaddedColumn:
    """Rows that are padded to the longest of a batch."""

    def __init__(self, values: npt.NDArray[Any], offsets: Offsets, padding: Any) -> None:
        self._values, self._offsets, self._padding = values, offsets, padding

    def cut(self, start: int, end: int) -> npt.NDArray[Any]:
        """Returns [rows, most values of a row]."""
        return padded(self._values, self._offsets[start : end + 1], self._padding)


def padded(values: npt.NDArray[Any], offsets: Offsets, padding: Any) -> npt.NDArray[Any]:
    """Returns rows as one array, padded to the longest.

    Args:
      values: [values, ...].
      offsets: int64[rows + 1], the rows' places in the values.
      padding: behind the values of shorter rows.

    Returns:
      [rows, most values of a row, ...].
    """
    lengths = np.diff(offsets)
    width = int(lengths.max(initial=0))
    array = np.full((len(lengths), width, *values.shape[1:]), padding, values.dtype)
    array[np.arange(width) < lengths[:, None]] = values[offsets[0] : offsets[-1]]
    return array


class ArrowColumn:
    """Rows of an Arrow array."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def cut(self, start: int, end: int) -> pa.Array:
        """Returns neighbouring rows, without a copy."""
        return self._values[start:end]
