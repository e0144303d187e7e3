"""Serializes RecordBatches as tf.Examples or tf.SequenceExamples, with Arrow and numpy.

It gives the bytes of the C++ kernels where they are not built. The bytes before a value depend on
its length alone, so they are made once for each length of a column.

Features are in the order of their names' bytes, as in
``tf.train.Example.SerializeToString(deterministic=True)``; but where one name begins with another,
protobuf's Python runtime writes the longer one first. tfx-bsl's encoder orders features by a hash
that changes from process to process (docs/decisions.md).

Format: https://protobuf.dev/programming-guides/encoding/ and
tensorflow/core/example/{example,feature}.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import by_length, byte_lengths, is_valid, offsets_of, varint

# Arrow's binary arrays hold 2 GiB. Tags and lengths add up to 10 bytes to each step.
_MAX_JOIN_BYTES = 1 << 28

Number = TypeVar("Number", np.int64, np.float32)
# Makes the bytes before a value of a length: tags, lengths and keys.
Head = Callable[[int], bytes]

# Tags of length-delimited fields 1 and 2, and of the fields of Feature's oneof.
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"


def serialize_batch(batch: pa.RecordBatch) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Serializes each row as a tf.Example.

    Args:
      batch: columns of type int64, float (32 bits), string, binary, or lists of them. A null is a
        feature that is absent, an empty list a feature without values.

    Returns:
      A binary array (large_binary above 256 MiB) with as many values as the batch has rows, and no
      nulls.

    Raises:
      TypeError: a column of another type.
      ValueError: a null inside a list.
    """
    return _serialize(batch, None)


def serialize_sequences(
    batch: pa.RecordBatch, lists: Collection[str]
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Serializes each row as a tf.SequenceExample.

    Args:
      batch: as for ``serialize_batch``.
      lists: the list columns that become feature lists; the others are the context. A null list is
        a feature list that is absent, an empty list one without steps. A step is a value, or a
        list of any number of values; a null step is a Feature without a kind.

    Returns:
      As ``serialize_batch``. Both maps are set.

    Raises:
      TypeError: a column of another type, or a feature list that is no list.
      ValueError: a null inside a list of the context, or inside a step.
    """
    return _serialize(batch, lists)


def _serialize(
    batch: pa.RecordBatch, lists: Collection[str] | None
) -> pa.BinaryArray | pa.LargeBinaryArray:
    if batch.nbytes > _MAX_JOIN_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        halves = [_serialize(part, lists) for part in (batch.slice(0, half), batch.slice(half))]
        return pa.concat_arrays([array.cast(pa.large_binary()) for array in halves])
    context: list[pa.Array] = []
    sequences: list[pa.Array] = []
    for name in sorted(batch.schema.names, key=lambda name: name.encode()):
        column = batch.column(name)
        if lists is not None and name in lists:
            sequences.append(_entries(name, _none, _feature_lists(name, column)))
        else:
            context.append(_entries(name, *_features(name, column)))
    if lists is not None:
        maps = _map(_FIELD_1, context, batch.num_rows), _map(_FIELD_2, sequences, batch.num_rows)
        return pc.binary_join_element_wise(*maps, b"")
    return _map(_FIELD_1, context, batch.num_rows) if context else _empty(batch.num_rows)


def _map(tag: bytes, entries: list[pa.BinaryArray], rows: int) -> pa.BinaryArray:
    """Returns a map's message for each row, without null entries."""
    joined = pc.binary_join_element_wise(
        _empty(rows), *entries, b"", null_handling="replace", null_replacement=b""
    )
    return _fields(_head(tag), joined)


def _empty(rows: int) -> pa.BinaryArray:
    return pa.repeat(pa.scalar(b"", pa.binary()), rows)


def _none(length: int) -> bytes:  # noqa: ARG001 - as heads are called
    return b""


def _head(tag: bytes, inner: Head = _none, key: bytes = b"") -> Head:
    """Returns the head of a field with a key and inner head.

    What follows the inner head belongs to the field.
    """

    def head(length: int) -> bytes:
        rest = key + inner(length)
        return tag + varint(len(rest) + length) + rest

    return head


def _fields(head: Head, values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns each value after its head; null where the value is."""
    return pc.binary_join_element_wise(by_length(byte_lengths(values), head), values, b"")


def _entries(name: str, head: Head, values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns a map's entry with one key for each value.

    The entry is null where the value is.
    """
    key = name.encode()
    key_field = _FIELD_1 + varint(len(key)) + key
    return _fields(_head(_FIELD_1, _head(_FIELD_2, head), key_field), values)


def _feature_lists(name: str, column: pa.Array) -> pa.BinaryArray:
    """Returns each list as a FeatureList, with a Feature for each step.

    A null list stays null.
    """
    if not pa.types.is_list(column.type):
        raise TypeError(f"feature list '{name}': found {column.type}, expected a list")
    starts, values = _list_values(column)
    head, payloads = _features(name, values)
    steps = _fields(_head(_FIELD_1, head), payloads).fill_null(_FIELD_1 + varint(0))
    return _cut(_bytes_of(steps), offsets_of(steps)[starts], column)


def _features(name: str, column: pa.Array) -> tuple[Head, pa.BinaryArray]:
    """Returns the head and the bytes of a column's Features.

    The bytes are null where the column is.
    """
    starts, values = np.arange(len(column) + 1), column
    if is_list := pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        starts, values = _list_values(column)
        if values.null_count and column.flatten().null_count:
            raise ValueError("found a null inside a list, which tf.Example cannot hold")
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        if not is_list:
            return _head(_BYTES_LIST, _head(_FIELD_1)), column.cast(pa.binary())
        texts = _fields(_head(_FIELD_1), values.cast(pa.binary()))
        return _head(_BYTES_LIST), _cut(_bytes_of(texts), offsets_of(texts)[starts], column)
    if pa.types.is_int64(values.type):
        data, lengths = varints(_numbers(values, np.int64))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return _head(_INT64_LIST, _packed), _cut(data, ends[starts], column)
    if pa.types.is_float32(values.type):
        floats = _numbers(values, np.float32)
        return _head(_FLOAT_LIST, _packed), _cut(floats, 4 * starts, column)
    raise TypeError(
        f"feature '{name}': found {column.type}, expected int64, float, string, binary, or lists "
        "of them"
    )


def _packed(length: int) -> bytes:
    """Returns the head of packed numbers.

    Without numbers the field is left out.
    """
    return _FIELD_1 + varint(length) if length else b""


def _list_values(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Returns the n + 1 offsets and values of a list column.

    Values before the first offset and after the last are left out.
    """
    starts = offsets_of(column)
    return starts - starts[0], column.values.slice(starts[0], starts[-1] - starts[0])


def _numbers(column: pa.Array, dtype: type[Number]) -> npt.NDArray[Number]:
    """Returns the buffer of a number array; undefined where it is null."""
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def _bytes_of(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)


def _cut(
    data: npt.NDArray[np.generic], offsets: npt.NDArray[np.int64], like: pa.Array
) -> pa.BinaryArray:
    """Returns bytes cut at n + 1 offsets; null where ``like`` is."""
    validity = pa.array(is_valid(like)).buffers()[1] if like.null_count else None
    places = pa.py_buffer(offsets.astype(np.int32))
    buffers = [validity, places, pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(like), buffers)


def varints(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Encodes int64 values as varints; negative ones as two's complement, ten bytes.

    Returns:
      All bytes, one value after the other, and the number of bytes of each value.
    """
    rest = values.view(np.uint64)
    width = (max(int(rest.max()), 1).bit_length() + 6) // 7 if len(rest) else 1
    table = np.empty((len(rest), width), np.uint8)
    lengths = np.ones(len(rest), np.int64)
    for position in range(width):
        table[:, position] = rest | np.uint64(128)  # the low byte with the continuation bit
        rest = rest >> np.uint64(7)
        lengths += rest > 0
    table[np.arange(len(lengths)), lengths - 1] &= 127
    return table[np.arange(width) < lengths[:, None]], lengths
