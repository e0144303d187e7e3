"""Offsets, lengths and validity of Arrow's binary and list arrays.

The results are numpy arrays. All functions take slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def byte_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the length in bytes of each binary or string value.

    Nulls have length 0.
    """
    offsets = offsets_of(array)
    lengths: npt.NDArray[np.int64] = offsets[1:] - offsets[:-1]
    if array.null_count:
        lengths[~is_valid(array)] = 0
    return lengths


def offsets_of(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the n + 1 offsets of an array into its values.

    The array is binary, string or list.
    """
    if not len(array):
        return np.zeros(1, np.int64)  # an empty array may have no buffer
    wide = any(
        matches(array.type)
        for matches in (pa.types.is_large_binary, pa.types.is_large_string, pa.types.is_large_list)
    )
    dtype: Any = np.int64 if wide else np.int32
    offsets = np.frombuffer(
        array.buffers()[1], dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize
    )
    wide_offsets: npt.NDArray[np.int64] = offsets.astype(np.int64, copy=False)
    return wide_offsets


def by_length(lengths: npt.NDArray[np.int64], make: Callable[[int], bytes]) -> pa.BinaryArray:
    """Returns ``make(length)`` for each length; calls it once for each distinct one."""
    if len(lengths) and lengths.max() < 1 << 16:  # a table is faster than sorting
        distinct: npt.NDArray[Any] = np.flatnonzero(np.bincount(lengths))
        table = np.zeros(int(lengths.max()) + 1, np.int32)
        table[distinct] = np.arange(len(distinct), dtype=np.int32)
        indices: npt.NDArray[Any] = table[lengths]
    else:
        distinct, indices = np.unique(lengths, return_inverse=True)
    return pa.array([make(int(length)) for length in distinct], pa.binary()).take(pa.array(indices))


def varint(value: int) -> bytes:
    """Returns a non-negative integer as protobuf's base-128 varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def is_valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns True where a value is not null."""
    bits = array.buffers()[0]
    if bits is None or not array.null_count:
        return np.full(len(array), not array.null_count)
    # Arrow's own ``to_numpy`` imports pandas, which takes longer than a reader's first batch.
    end = array.offset + len(array)
    found = np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")
    return found[array.offset :].view(np.bool_)


def data_of(array: pa.LargeBinaryArray) -> pa.Buffer:
    """Returns the concatenated bytes of a binary array without nulls."""
    if not len(array):
        return pa.py_buffer(b"")
    offsets = offsets_of(array)
    return array.buffers()[2].slice(offsets[0], offsets[-1] - offsets[0])


def fixed_width(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """Returns numbers, or times, of a width as they are in memory.

    Arrow's own conversions import pandas, which takes longer than a reader's first batch.

    Args:
      array: n values; what is in the place of nulls is anything.
      dtype: numpy's name of it, such as ``i8``.
    """
    if not len(array):
        return np.empty(0, dtype)
    start = array.offset * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array), start)
