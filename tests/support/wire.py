"""Messages of protobuf, byte by byte, without protobuf and our kernels."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

# Kind of values -> number of its field in a Feature.
KINDS = {"bytes": 1, "float": 2, "int64": 3}


def varint(number: int) -> bytes:
    """Returns a number of 64 bits in protobuf's variable length."""
    number &= (1 << 64) - 1
    digits = []
    while number >> 7:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def field(number: int, content: bytes) -> bytes:
    """Returns a field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def entries(messages: Mapping[str, bytes]) -> bytes:
    """Returns Features, or FeatureLists: name -> message."""
    pairs = (field(1, name.encode()) + field(2, message) for name, message in messages.items())
    return b"".join(field(1, pair) for pair in pairs)


def feature(values: Sequence[Any] | None, kind: str) -> bytes:
    """Returns a Feature; of ``None`` one without a kind."""
    if values is None:
        return b""
    if kind == "bytes":
        content = b"".join(field(1, value) for value in values)
    elif kind == "float":
        content = field(1, struct.pack(f"<{len(values)}f", *values))
    else:
        content = field(1, b"".join(varint(value) for value in values))
    return field(KINDS[kind], content if values else b"")


def example(row: Mapping[str, tuple[str, Sequence[Any] | None]]) -> bytes:
    """Returns a tf.Example of a row: feature -> kind and values.

    Values are ``None`` where the feature is missing.
    """
    features = {
        name: feature(values, kind) for name, (kind, values) in row.items() if values is not None
    }
    return field(1, entries(features))


def of_values(**row: Sequence[Any]) -> bytes:
    """Returns a tf.Example of values, whose types decide on their kinds."""
    kinds = {bytes: "bytes", float: "float", int: "int64"}
    return example({name: (kinds[type(values[0])], values) for name, values in row.items()})


def sequence_example(context: Mapping[str, bytes], lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """Returns a tf.SequenceExample of Features, and of the steps of feature lists."""
    steps = {name: b"".join(field(1, step) for step in found) for name, found in lists.items()}
    return field(1, entries(context)) + field(2, entries(steps))
