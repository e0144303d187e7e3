"""Arrays as serialized tensors or raw bytes, written without TensorFlow.

``tf.io.parse_tensor`` reads them; the bytes are those of ``tf.io.serialize_tensor``. Each tensor
has its own shape, and the type that it has in the file, unlike a feature of an example. Format:
tensorflow/core/framework/{tensor,tensor_shape,types}.proto.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import binary_arrays
from beam_pipelines.core.arrow.columns import RAW, TENSOR, TYPE_FOR_NAME, array_type
from beam_pipelines.core.arrow.raw_numbers import cut, numbers_of, width_of
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.nesting import shapes

_NUMBER_FOR_TYPE = {
    pa.float32(): 1,
    pa.float64(): 2,
    pa.int32(): 3,
    pa.uint8(): 4,
    pa.int16(): 5,
    pa.int8(): 6,
    pa.string(): 7,
    pa.large_string(): 7,
    pa.binary(): 7,
    pa.large_binary(): 7,
    pa.int64(): 9,
    pa.bool_(): 10,
    pa.uint16(): 17,
    pa.float16(): 19,
    pa.uint32(): 22,
    pa.uint64(): 23,
}
_BYTES = 7
# Field numbers of TensorProto with their wire types: dtype, tensor_shape, tensor_content,
# string_val; and of its dimensions.
_DTYPE, _SHAPE, _CONTENT, _STRING = b"\x08", b"\x12", b"\x22", b"\x42"
_DIMENSION, _SIZE = b"\x12", b"\x08"


def can_become(type_: pa.DataType, name: str) -> bool:
    """Whether values of a type can become a declared one.

    Args:
      type_: of the file, alone or in lists.
      name: as ``columns.array_type`` reads it.
    """
    kind, item = array_type(name) or (TENSOR, "")
    leaf = shapes.leaf(type_)
    is_text = _NUMBER_FOR_TYPE.get(leaf) == _BYTES
    return leaf in _NUMBER_FOR_TYPE and not (is_text and (item or kind == RAW))


def serialize(array: pa.Array, name: str) -> pa.BinaryArray:
    """Serializes each value as a tensor of its shape, or raw bytes.

    The shape of a scalar is (), of a list [n], of a list of lists [m, n]. Raw bytes are
    little-endian and have no shape.

    Args:
      array: numbers, bools, text or bytes, or lists of any depth. Null stays null.
      name: the declared type, as ``columns.array_type`` reads it. Numbers are cast to its numbers
        exactly, or rounded from one type of floats to a narrower one.

    Raises:
      pa.ArrowInvalid: a null inside a list, lists of several lengths in one dimension of an array,
        a number that has no equal.
    """
    kind, item = array_type(name) or (TENSOR, "")
    fixed = shapes.shape_of_type(array.type)
    array = shapes.stored_array(array)
    present = binary_arrays.is_valid(array)
    dimensions, values = _dimensions(array.drop_null())
    if fixed is not None:
        # Arrow's tensors are stored as lists of one level; and where a dimension is empty, only the
        # type has the others.
        dimensions = np.tile(np.array(fixed, np.int64), (len(dimensions), 1))
    if values.null_count:
        raise pa.ArrowInvalid("a null inside a list")
    counts = dimensions.prod(axis=1)
    values = exact_cast(values, TYPE_FOR_NAME[item]) if item else values
    number = _NUMBER_FOR_TYPE[values.type]
    payloads = (
        _texts(values, counts)
        if number == _BYTES
        else cut(numbers_of(values), _ends(counts), width_of(values.type))
    )
    tensors = payloads if kind == RAW else _with_heads(payloads, dimensions, number)
    if array.null_count:
        places = np.where(present, np.cumsum(present) - 1, -1)
        tensors = tensors.take(pa.array(places, mask=~present))
    return tensors


def _with_heads(
    payloads: pa.BinaryArray, dimensions: npt.NDArray[np.int64], number: int
) -> pa.BinaryArray:
    sizes = binary_arrays.byte_lengths(payloads)
    distinct, inverse = np.unique(dimensions, axis=0, return_inverse=True)
    heads = pa.array([_head(number, shape) for shape in distinct.tolist()], pa.binary()).take(
        pa.array(inverse.reshape(-1))
    )
    parts = [heads]
    if number != _BYTES:
        parts.append(
            binary_arrays.by_length(
                sizes, lambda size: _CONTENT + binary_arrays.varint(size) if size else b""
            )
        )
    return pc.binary_join_element_wise(*parts, payloads, b"")


def _dimensions(rows: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Returns the shape of each row, and all values in order.

    The shapes are an n × depth array. A dimension below an empty one is 0.
    """
    count, owners = len(rows), np.arange(len(rows), dtype=np.int64)
    dimensions = np.zeros((count, shapes.depth(rows.type)), np.int64)
    for dimension in range(dimensions.shape[1]):
        if rows.null_count:
            raise pa.ArrowInvalid("a null inside a list")
        lengths = np.diff(binary_arrays.offsets_of(rows))
        np.maximum.at(dimensions[:, dimension], owners, lengths)
        if (lengths != dimensions[owners, dimension]).any():
            raise pa.ArrowInvalid("lists of several lengths in one dimension of an array")
        owners, rows = np.repeat(owners, lengths), rows.flatten()
    return dimensions, rows


def _head(number: int, shape: list[int]) -> bytes:
    sizes = [_SIZE + binary_arrays.varint(size) if size else b"" for size in shape]
    dimensions = b"".join(_DIMENSION + binary_arrays.varint(len(size)) + size for size in sizes)
    return (
        _DTYPE
        + binary_arrays.varint(number)
        + _SHAPE
        + binary_arrays.varint(len(dimensions))
        + dimensions
    )


def _texts(values: pa.Array, counts: npt.NDArray[np.int64]) -> pa.BinaryArray:
    heads = binary_arrays.by_length(
        binary_arrays.byte_lengths(values), lambda length: _STRING + binary_arrays.varint(length)
    )
    joined = pc.binary_join_element_wise(heads, values.cast(pa.binary()), b"")
    offsets = binary_arrays.offsets_of(joined)
    return cut(joined.buffers()[2] or pa.py_buffer(b""), offsets[_ends(counts)], 1)


def _ends(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
