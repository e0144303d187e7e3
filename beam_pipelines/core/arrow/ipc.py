"""Turns RecordBatches into the bytes of an Arrow IPC stream, and back.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

_METADATA_KEY = b"beam_pipelines"


class PackedBatch(NamedTuple):
    """A batch in a payload, with JSON data."""

    batch: pa.RecordBatch
    about: Mapping[str, Any]


def batches_to_bytes(
    batches: Sequence[pa.RecordBatch], compression: Literal["lz4", "zstd"] | None = None
) -> bytes:
    """Writes one or more batches of one schema as an IPC stream."""
    sink = pa.BufferOutputStream()
    # A worker has one core; Arrow's thread pool would compete with the other workers.
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def bytes_to_batches(data: bytes | pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the batches of an IPC stream.

    Raises:
      pa.ArrowInvalid: the bytes are no IPC stream.
    """
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(data, options=options) as reader:
        return list(reader)


def pack(batches: Sequence[PackedBatch], compression: Literal["lz4"] | None = "lz4") -> bytes:
    """Writes batches of one schema, with their data, as an IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].batch.schema, options=options) as writer:
        for batch, about in batches:
            writer.write_batch(batch, {_METADATA_KEY: json.dumps(about)})
    return bytes(sink.getvalue())


def unpack(payload: bytes) -> Iterator[PackedBatch]:
    """Yields the batches of a ``pack`` payload."""
    with pa.ipc.open_stream(payload) as reader:
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield PackedBatch(batch, json.loads(metadata[_METADATA_KEY]))
