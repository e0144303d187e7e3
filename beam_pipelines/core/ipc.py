"""Turns RecordBatches into the bytes of an Arrow IPC stream, and back.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa


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
