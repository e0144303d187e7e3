"""Packs values and their counts for the way from worker to worker: nearly all the bytes of an
accumulator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# How often values occur, or how much weight they have.
Counts = npt.NDArray[np.int64] | npt.NDArray[np.float64]

# Below it, values are pickled as they are: a stream takes 40 µs, and Beam pickles to estimate
# sizes, too.
SMALL_BYTES = 1 << 14
# A worker has its own core; Arrow's thread pool would only get in the way of the others'.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def pack(values: pa.Array, counts: Counts) -> bytes:
    """Returns values and counts as an Arrow IPC stream, compressed with lz4 (most counts are
    small).
    """
    batch = pa.record_batch([values, pa.array(counts)], names=["values", "counts"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(stream: bytes) -> tuple[pa.Array, Counts]:
    """Returns what ``pack`` was given."""
    batch = pa.ipc.open_stream(
        stream, options=pa.ipc.IpcReadOptions(use_threads=False)
    ).read_next_batch()
    return batch.column(0), batch.column(1).to_numpy()
