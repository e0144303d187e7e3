"""Packs values and their counts for the way from worker to worker: nearly all the bytes of an
accumulator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches

# How often values occur, or how much weight they have.
Counts = npt.NDArray[np.int64] | npt.NDArray[np.float64]

# Below it, values are pickled as they are: a stream takes 40 µs, and Beam pickles to estimate
# sizes, too.
SMALL_BYTES = 1 << 14


def pack(values: pa.Array, counts: Counts) -> bytes:
    """Returns values and counts as an Arrow IPC stream, compressed with lz4 (most counts are
    small).
    """
    batch = pa.record_batch([values, pa.array(counts)], names=["values", "counts"])
    return batches_to_bytes([batch], "lz4")


def unpack(stream: bytes) -> tuple[pa.Array, Counts]:
    """Returns what ``pack`` was given."""
    (batch,) = bytes_to_batches(stream)
    return batch.column(0), batch.column(1).to_numpy()
