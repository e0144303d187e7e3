"""Numpy arrays over the memory of Arrow arrays, and narrower numbers.

Arrow's own ``to_numpy`` imports pandas, which takes longer than the first batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Types of feature values and pixels -> those of arrays. ``to_pandas_dtype`` needs pandas before
# pyarrow 20.
DTYPES: dict[pa.DataType, np.dtype[Any]] = {
    pa.uint8(): np.dtype(np.uint8),
    pa.int64(): np.dtype(np.int64),
    pa.float32(): np.dtype(np.float32),
    pa.large_binary(): np.dtype(object),
}


class WrongRowError(ValueError):
    """A row with other values than the schema or an argument promises.

    Attributes:
      row: its number.
      message: feature, found and expected.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row, self.message = row, message


class _Memory:
    """The memory of an Arrow array, for an array that is writable.

    Nothing else uses the Arrow array.
    """

    def __init__(self, buffer: pa.Buffer, dtype: np.dtype[Any], start: int, length: int) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address + start * dtype.itemsize, False),
            "shape": (length,),
            "typestr": dtype.str,
            "version": 3,
        }


def array_of(values: pa.Array) -> npt.NDArray[Any]:
    """Returns numbers without nulls, writable and without a copy.

    Args:
      values: uint8, int64 or float32.
    """
    dtype = DTYPES[values.type]
    if not len(values):
        return np.empty(0, dtype)
    return np.asarray(_Memory(values.buffers()[1], dtype, values.offset, len(values)))


def with_values(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Returns lists of other values, without a copy.

    Args:
      lists: large ones, or of fixed size.
      values: of the lists, as many as theirs; or as the values of their lists of one value.
    """
    type_, own = pa.large_list(values.type), lists.buffers()[: lists.type.num_buffers]
    if pa.types.is_fixed_size_list(lists.type):
        type_ = pa.list_(values.type, lists.type.list_size)
    return pa.Array.from_buffers(type_, len(lists), own, lists.null_count, lists.offset, [values])


def narrowed(
    name: str,
    values: npt.NDArray[Any],
    dtype: np.dtype[Any],
    offsets: npt.NDArray[np.int64] | range,
) -> npt.NDArray[Any]:
    """Returns numbers of a narrower type; floats are rounded to the nearest.

    Args:
      name: of the feature, for messages.
      values: of all rows.
      dtype: wanted.
      offsets: int64[rows + 1], the rows' places in the values.

    Raises:
      WrongRowError: an integer does not fit, or a finite float would become infinite.
    """
    if values.dtype == dtype or not len(values):
        return values.astype(dtype, copy=False)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if values.min() >= limits.min and values.max() <= limits.max:
            return values.astype(dtype)
        is_wrong = (values < limits.min) | (values > limits.max)
        expected = f"{limits.min:,} to {limits.max:,}"
    else:
        with np.errstate(over="ignore"):
            found = values.astype(dtype)
        is_wrong = np.isinf(found) & np.isfinite(values)
        if not is_wrong.any():
            return found
        expected = f"at most {float(np.finfo(dtype).max):,.0f} in size"
    place = int(np.argmax(is_wrong))
    raise WrongRowError(
        int(np.searchsorted(offsets, place, side="right")) - 1,
        f"feature '{name}': found {values[place]:,}, expected {expected}, which {dtype} holds. "
        "Give 'types' a wider type for it (in JAX int64 needs jax_enable_x64), or leave it out by "
        "'columns'",
    )
