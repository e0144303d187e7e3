"""Turns a RecordBatch into serialized tf.Examples, column by column, with Arrow and numpy kernels.

A serialized Example is the concatenation of one entry for each feature, behind one length. An entry
is a prefix, which depends on nothing but the feature's name and the length of its values, and the
values' own bytes. So each column gives two arrays (prefixes, looked up by length, and payloads,
often the column's own buffer), and one kernel joins them all.

Features are in order of their names' bytes. So they are in
``tf.train.Example.SerializeToString(deterministic=True)``, but for names of which one begins with
the other: there protobuf's Python runtime puts the longer one first. tfx-bsl's encoder, the obvious
alternative, orders them by a hash that changes from process to process (docs/decisions.md).

Format: https://protobuf.dev/programming-guides/encoding/ and
tensorflow/core/example/{example,feature}.proto.
"""

from __future__ import annotations

import enum
import functools
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import by_length, byte_lengths, is_valid, offsets_of, varint

# Arrow's binary arrays hold 2 GiB; prefixes add to the columns' own bytes.
_MAX_JOIN_BYTES = 1 << 29

# Of a feature's values whose entries are kept, and then copied instead of built: 1 MB a feature.
_TABLE_ENTRIES = 1 << 16

Number = TypeVar("Number", np.int64, np.float32)

# Field numbers of Feature's oneof (feature.proto), as length-delimited tags.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 0x0A, 0x12, 0x1A
FIELD_1, FIELD_2 = b"\x0a", b"\x12"


class Header(enum.Enum):
    """What stands between a list message and its payload."""

    NONE = enum.auto()  # repeated bytes: each value carries its own tag and length
    PACKED = enum.auto()  # packed numbers: one tag and length, nothing for no numbers
    SINGLE = enum.auto()  # one bytes value: its tag and length, also when it is empty


def serialize_batch(batch: pa.RecordBatch) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Serializes each row as a tf.Example.

    Args:
      batch: columns of type int64, float (32 bits), string, binary, or lists of them. A null is a
        feature that is absent, an empty list a feature without values, so that both survive.

    Returns:
      A binary array (large_binary above 512 MiB) with as many values as the batch has rows, and no
      nulls.

    Raises:
      TypeError: a column of another type.
      ValueError: a null inside a list.
    """
    if batch.nbytes > _MAX_JOIN_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        halves = [serialize_batch(batch.slice(0, half)), serialize_batch(batch.slice(half))]
        return pa.concat_arrays([array.cast(pa.large_binary()) for array in halves])
    parts: list[pa.Array] = []
    for name in sorted(batch.schema.names, key=lambda name: name.encode()):
        parts += feature_entries(name, batch.column(name))
    if not parts:
        return pa.repeat(pa.scalar(b"", pa.binary()), batch.num_rows)
    lengths = np.zeros(batch.num_rows, np.int64)
    for part in parts:
        lengths += byte_lengths(part)
    features = by_length(lengths, lambda length: FIELD_1 + varint(length))
    return pc.binary_join_element_wise(
        features, *parts, b"", null_handling="replace", null_replacement=b""
    )


def varints(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Encodes int64 values as varints (negative ones as two's complement, ten bytes).

    Returns:
      All bytes, one value after the other, and the number of bytes of each value.
    """
    rest = values.view(np.uint64)
    width = (max(int(rest.max()), 1).bit_length() + 6) // 7 if len(rest) else 1
    if width <= 4:
        rest = rest.astype(np.uint32)
    table = np.empty((len(rest), width), np.uint8)
    lengths = np.ones(len(rest), np.int64)
    for position in range(width):
        table[:, position] = rest | 128  # the low byte with the continuation bit
        rest = rest >> rest.dtype.type(7)
        if position + 1 < width:
            lengths += rest > 0
    table[np.arange(len(lengths)), lengths - 1] &= 127
    if width == 1:
        return table[:, 0], lengths
    return table[np.arange(width) < lengths[:, None]], lengths


def feature_entries(name: str, column: pa.Array) -> list[pa.Array]:
    """Returns the prefixes and the payloads of one feature; null where the feature is absent."""
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if pa.types.is_int64(column.type) and (entries := _table_entries(name, column)) is not None:
        return [entries]
    kind, header, payloads = payloads_of(name, column)
    key = name.encode()
    if not is_list and (width := _fixed_width(payloads)):
        return [_fixed_entries(_prefix(key, kind, header, width), payloads, width)]
    prefixes = by_length(byte_lengths(payloads), lambda length: _prefix(key, kind, header, length))
    if column.null_count:
        prefixes = pc.if_else(column.is_valid(), prefixes, pa.scalar(None, pa.binary()))
    return [prefixes, payloads]


def payloads_of(name: str, column: pa.Array) -> tuple[int, Header, pa.BinaryArray]:
    """Returns the tag of a column's list messages, what their header is, and what follows it; null
    where the column is.
    """
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    value_type = column.type.value_type if is_list else column.type
    if pa.types.is_string(value_type) or pa.types.is_binary(value_type):
        if is_list:
            return _BYTES_LIST, Header.NONE, _bytes_lists(column)
        return _BYTES_LIST, Header.SINGLE, column.cast(pa.binary())
    if pa.types.is_int64(value_type):
        return _INT64_LIST, Header.PACKED, _int64_lists(column) if is_list else _int64s(column)
    if pa.types.is_float32(value_type):
        return _FLOAT_LIST, Header.PACKED, _float_lists(column) if is_list else _floats(column)
    raise TypeError(
        f"feature '{name}': found {column.type}, expected int64, float, string, binary, or lists "
        "of them"
    )


def _table_entries(name: str, column: pa.Array) -> pa.BinaryArray | None:
    """Looks up whole entries where int64 values are small, as ids and labels are: from -1, at most
    two a row different.

    Returns:
      The entries, null where the feature is absent; ``None`` if the values are not small.
    """
    if len(column) == column.null_count:
        return None
    extremes = pc.min_max(column)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    size = 1 << max(8, (high + 1).bit_length())
    if low < -1 or size > min(_TABLE_ENTRIES, 2 * len(column)):
        return None
    return _entry_table(name, size).take(pc.add(column, 1))


@functools.lru_cache(maxsize=128)
def _entry_table(name: str, size: int) -> pa.BinaryArray:
    """Returns the entries of a feature with one value, for the values from -1 to ``size`` - 2."""
    data, lengths = varints(np.arange(-1, size - 1))
    payloads = pa.Array.from_buffers(
        pa.binary(), size, [None, pa.py_buffer(_ends(lengths).astype(np.int32)), pa.py_buffer(data)]
    )
    prefixes = by_length(
        lengths, lambda length: _prefix(name.encode(), _INT64_LIST, Header.PACKED, length)
    )
    return pc.binary_join_element_wise(prefixes, payloads, b"")


def _fixed_width(payloads: pa.BinaryArray) -> int:
    """Returns the length that all payloads have which are not null, or 0 if they differ."""
    if len(payloads) == payloads.null_count:
        return 0
    offsets = offsets_of(payloads)
    lengths = np.diff(offsets)
    width = int(lengths.max())
    present = len(payloads) - payloads.null_count
    # Where null slots hold bytes as well, the sum or the count does not come out.
    is_fixed = offsets[-1] - offsets[0] == present * width and np.count_nonzero(lengths) == present
    return width if is_fixed else 0


def _fixed_entries(prefix: bytes, payloads: pa.BinaryArray, width: int) -> pa.BinaryArray:
    """Returns whole entries of payloads of one length, and nothing where they are null: one array
    instead of two.
    """
    first = int(offsets_of(payloads.slice(0, 1))[0])
    present = len(payloads) - payloads.null_count
    entries = np.empty((present, len(prefix) + width), np.uint8)
    entries[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    entries[:, len(prefix) :] = np.frombuffer(
        payloads.buffers()[2], np.uint8, present * width, first
    ).reshape(-1, width)
    lengths = np.full(len(payloads), entries.shape[1], np.int64)
    if payloads.null_count:
        lengths[~is_valid(payloads)] = 0
    offsets = pa.py_buffer(_ends(lengths).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(payloads), [None, offsets, pa.py_buffer(entries)])


def _prefix(key: bytes, kind: int, header: Header, length: int) -> bytes:
    """Returns all bytes of a map entry before the payload: entry, key, Feature, its list, and the
    list's header.
    """
    prefix = feature_prefix(kind, header, length)
    prefix = FIELD_1 + varint(len(key)) + key + FIELD_2 + varint(len(prefix) + length) + prefix
    return FIELD_1 + varint(len(prefix) + length) + prefix


def feature_prefix(kind: int, header: Header, length: int) -> bytes:
    """Returns all bytes of a Feature before the payload: its list, and the list's header."""
    packed = header is Header.SINGLE or (header is Header.PACKED and length > 0)
    prefix = FIELD_1 + varint(length) if packed else b""
    return bytes([kind]) + varint(len(prefix) + length) + prefix


def _int64s(column: pa.Array) -> pa.BinaryArray:
    data, lengths = varints(_numbers(column, np.int64))
    return binary_like(data, _ends(lengths), column)


def _floats(column: pa.Array) -> pa.BinaryArray:
    return binary_like(_numbers(column, np.float32), np.arange(0, 4 * len(column) + 1, 4), column)


def _int64_lists(column: pa.Array) -> pa.BinaryArray:
    starts, values = _list_values(column)
    data, lengths = varints(_numbers(values, np.int64))
    return binary_like(data, _ends(lengths)[starts], column)


def _float_lists(column: pa.Array) -> pa.BinaryArray:
    starts, values = _list_values(column)
    return binary_like(_numbers(values, np.float32), 4 * starts, column)


def _bytes_lists(column: pa.Array) -> pa.BinaryArray:
    starts, values = _list_values(column)
    headers = by_length(byte_lengths(values), lambda length: FIELD_1 + varint(length))
    joined = pc.binary_join_element_wise(headers, values.cast(pa.binary()), b"")
    offsets = offsets_of(joined)
    return binary_like(np.frombuffer(joined.buffers()[2] or b"", np.uint8), offsets[starts], column)


def _list_values(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Returns the n + 1 offsets of a list column and the values between the first and the last."""
    starts = offsets_of(column)
    values = column.values.slice(starts[0], starts[-1] - starts[0])
    if values.null_count and len(column.flatten().filter(column.flatten().is_null())):
        raise ValueError("found a null inside a list, which tf.Example cannot hold")
    return starts - starts[0], values


def _numbers(column: pa.Array, dtype: type[Number]) -> npt.NDArray[Number]:
    """Returns the values of a number array as they lie in its buffer; whatever is there where it is
    null.
    """
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def _ends(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def binary_like(
    data: npt.NDArray[np.generic], offsets: npt.NDArray[np.int64], like: pa.Array
) -> pa.BinaryArray:
    """Wraps bytes and n + 1 offsets into them as a binary array that is null where ``like`` is."""
    validity = None
    if like.null_count:
        validity = pa.array(is_valid(like)).buffers()[1]
    buffers = [
        validity,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(like), buffers)
