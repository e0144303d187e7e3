"""Compresses values and counts, nearly all bytes of an accumulator, for pickling."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.arrow.weighted_values import Numbers

# Smaller values are pickled uncompressed: a stream takes 40 µs, and Beam pickles also to estimate
# sizes.
SMALL_BYTES = 1 << 14


def pack(values: pa.Array, counts: Numbers) -> bytes:
    """Returns values and counts as an lz4-compressed Arrow IPC stream.

    Most counts are small.
    """
    return batches_to_bytes(
        [pa.record_batch([values, pa.array(counts)], ["values", "counts"])], "lz4"
    )


def unpack(stream: bytes) -> tuple[pa.Array, Numbers]:
    """Returns the arguments of ``pack``."""
    batch = bytes_to_batches(stream)[0]
    return batch.column(0), batch.column(1).to_numpy()
