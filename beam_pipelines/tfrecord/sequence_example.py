"""Turns a RecordBatch into serialized tf.SequenceExamples, column by column, as
``tfrecord/example.py`` does for tf.Examples.

A SequenceExample has two maps: the context, which is a tf.Example's features, and feature lists. A
feature list is a list of Features, one for each step; each of ours has one value, or none where the
step is null. So the steps of all rows are serialized as one flat array, which the column's own
offsets cut into rows.

The bytes are those of ``tf.train.SequenceExample.SerializeToString(deterministic=True)`` with both
maps set, features and lists in order of their names as in ``tfrecord/example.py``.
Format: tensorflow/core/example/example.proto.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import by_length, byte_lengths, offsets_of, varint
from beam_pipelines.tfrecord import example
from beam_pipelines.tfrecord.example import FIELD_1, FIELD_2

# A step takes up to 10 bytes more than its value: less than for tf.Examples goes into one of
# Arrow's arrays.
_MAX_JOIN_BYTES = 1 << 28
_NULL_STEP = FIELD_1 + varint(0)  # a Feature without a kind


def serialize_sequences(
    batch: pa.RecordBatch, lists: Collection[str]
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Serializes each row as a tf.SequenceExample.

    Args:
      batch: columns of type int64, float (32 bits), string, binary, or lists of them.
      lists: the list columns that become feature lists; the others are the context. A null list is
        a feature list that is absent, an empty list one without steps; a null in a list is a
        Feature without values.

    Returns:
      A binary array (large_binary above 256 MiB) with as many values as the batch has rows, and no
      nulls.

    Raises:
      TypeError: a column of another type, or a feature list that is no list.
      ValueError: a null inside a list of the context.
    """
    if batch.nbytes > _MAX_JOIN_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        halves = [
            serialize_sequences(part, lists) for part in (batch.slice(0, half), batch.slice(half))
        ]
        return pa.concat_arrays([array.cast(pa.large_binary()) for array in halves])
    context: list[pa.Array] = []
    sequences: list[pa.Array] = []
    for name in sorted(batch.schema.names, key=lambda name: name.encode()):
        if name in lists:
            sequences += _list_entries(name, batch.column(name))
        else:
            context += example.feature_entries(name, batch.column(name))
    parts = [
        *_message(FIELD_1, context, batch.num_rows),
        *_message(FIELD_2, sequences, batch.num_rows),
    ]
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")


def _message(tag: bytes, entries: list[pa.Array], rows: int) -> list[pa.Array]:
    """Returns the parts of a map's message: its tag and length, and its entries."""
    lengths = np.zeros(rows, np.int64)
    for entry in entries:
        lengths += byte_lengths(entry)
    return [by_length(lengths, lambda length: tag + varint(length)), *entries]


def _list_entries(name: str, column: pa.Array) -> list[pa.Array]:
    """Returns the prefixes and the steps of one feature list; null where the list is absent."""
    if not pa.types.is_list(column.type):
        raise TypeError(f"feature list '{name}': found {column.type}, expected a list")
    offsets = offsets_of(column)
    steps = _steps(name, column.values.slice(offsets[0], offsets[-1] - offsets[0]))
    payloads = example.binary_like(_data(steps), offsets_of(steps)[offsets - offsets[0]], column)
    key = name.encode()
    prefixes = by_length(byte_lengths(payloads), lambda length: _prefix(key, length))
    if column.null_count:
        prefixes = pc.if_else(column.is_valid(), prefixes, pa.scalar(None, pa.binary()))
    return [prefixes, payloads]


def _steps(name: str, values: pa.Array) -> pa.BinaryArray:
    """Returns for each value the bytes of its Feature within a feature list."""
    kind, header, payloads = example.payloads_of(name, values)
    prefixes = by_length(byte_lengths(payloads), lambda length: _step_prefix(kind, header, length))
    if values.null_count:
        prefixes = pc.if_else(values.is_valid(), prefixes, pa.scalar(_NULL_STEP, pa.binary()))
    return pc.binary_join_element_wise(
        prefixes, payloads, b"", null_handling="replace", null_replacement=b""
    )


def _step_prefix(kind: int, header: example.Header, length: int) -> bytes:
    feature = example.feature_prefix(kind, header, length)
    return FIELD_1 + varint(len(feature) + length) + feature


def _prefix(key: bytes, length: int) -> bytes:
    """Returns all bytes of a map entry before the steps: entry, key, FeatureList."""
    prefix = FIELD_1 + varint(len(key)) + key + FIELD_2 + varint(length)
    return FIELD_1 + varint(len(prefix) + length) + prefix


def _data(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)
