"""Writes small datasets of given records, for tests of a reader's values."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from tests.reader.indexed import add_index

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


def sequence_example(context: Mapping[str, bytes], lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """Returns a tf.SequenceExample of Features, and of the steps of feature lists."""
    steps = {name: b"".join(field(1, step) for step in found) for name, found in lists.items()}
    return field(1, entries(context)) + field(2, entries(steps))


def write_records(
    folder: Path, schema: str, records: Sequence[bytes], shards: int = 2, **manifest: Any
) -> str:
    """Writes a dataset of one split, ``train``, in plain shards."""
    (folder / "examples" / "Split-train").mkdir(parents=True)
    (folder / "schema.pbtxt").write_text(schema)
    found = []
    for shard in range(shards):
        own = records[len(records) * shard // shards : len(records) * (shard + 1) // shards]
        path = f"examples/Split-train/t-{shard:05}-of-{shards:05}.tfrecord"
        framed_records = _native.frame(pa.array(own, pa.large_binary()))
        (folder / path).write_bytes(data_of(framed_records).to_pybytes())
        size = (folder / path).stat().st_size
        found.append({"path": path, "rows": len(own), "bytes": size, "crc32c": "00000000"})
    framed = sum(len(record) + 16 for record in records)
    split = {"rows": len(records), "bytes": framed, "framed_bytes": framed, "shards": found}
    counts = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0)
    fields = {
        "format_version": 1,
        "schema": "schema.pbtxt",
        "label": None,
        "labels": {},
        "compression": "none",
        "record": "example",
        "counts": counts,
        "sources": {},
        "columns": {},
        "splits": {"train": split},
    }
    (folder / "dataset.json").write_text(json.dumps(fields | manifest))
    return add_index(str(folder))
