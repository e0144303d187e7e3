"""Numbers as raw little-endian bytes, which ``tf.io.decode_raw`` reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import is_valid, offsets_of


def raw_numbers(array: pa.Array) -> pa.BinaryArray:
    """Returns the numbers of each value as bytes, in their own type.

    Args:
      array: n numbers or bools, or lists of them, of any depth. Null stays null; a bool is a byte.

    Raises:
      pa.ArrowInvalid: a null inside a list, or values that are no numbers.
    """
    present, values = is_valid(array), array.drop_null()
    ends = np.arange(len(values) + 1, dtype=np.int64)
    while pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
        if pa.types.is_fixed_size_list(values.type):
            values = values.cast(pa.list_(values.type.value_type))
        offsets = offsets_of(values)
        ends, values = offsets[ends] - offsets[0], values.flatten()
        if values.null_count:
            raise pa.ArrowInvalid("found a null inside a list, expected numbers")
    rows = cut(numbers_of(values), ends, width_of(values.type))
    if array.null_count:
        places = np.where(present, np.cumsum(present) - 1, -1)
        rows = rows.take(pa.array(places, mask=~present))
    return rows


def width_of(type_: pa.DataType) -> int:
    """Returns the number of bytes of a number.

    Raises:
      pa.ArrowInvalid: it is no type of numbers.
    """
    types = pa.types
    if types.is_boolean(type_):
        return 1
    if not (types.is_integer(type_) or types.is_floating(type_)):
        raise pa.ArrowInvalid(
            f"found values of type {type_}, expected integers, floats or bools; "
            "cast them, for example to DOUBLE"
        )
    return int(type_.bit_width // 8)


def numbers_of(values: pa.Array) -> pa.Buffer:
    """Returns the bytes of numbers without nulls; a bool is a byte."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = width_of(values.type)
    if not len(values):
        return pa.py_buffer(b"")
    return values.buffers()[1].slice(values.offset * width, len(values) * width)


def cut(data: pa.Buffer, ends: npt.NDArray[np.int64], width: int) -> pa.BinaryArray:
    """Cuts a buffer into n values.

    Value i has the units of ``width`` bytes from ``ends[i]`` to ``ends[i + 1]``.
    """
    offsets = pa.py_buffer((ends * width).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, data])
