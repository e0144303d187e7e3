"""C++ kernels for stripes.

A stripe has consecutive rows of a batch, which can be read without the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import imported, kernels

__all__ = ["pack_stripes", "unpack_stripes"]


def pack_stripes(
    batch: pa.RecordBatch, rows_per_stripe: int
) -> tuple[pa.Buffer, npt.NDArray[np.int64]] | None:
    """Packs the rows of a batch, or declines to.

    Integers and lengths are stored with as few bytes as their range in a stripe needs.

    Args:
      batch: n rows. Columns of bool, integers, floats, dates, times, texts with 32-bit offsets, and
        lists of them.
      rows_per_stripe: 1 or more; the last stripe may have fewer.

    Returns:
      The stripes; and int64[stripes], where each ends. ``None`` if a column has another type.

    Raises:
      ValueError: buffers that contradict themselves, or a stripe of over 4 GiB.
      MemoryError: there is no memory for the result.
    """
    try:
        data, ends = kernels.pack_stripes(batch.__arrow_c_array__(), rows_per_stripe)
    except TypeError:
        return None
    return imported(data).buffers()[1], imported(ends).to_numpy()


def unpack_stripes(schema: pa.Schema, pieces: Sequence[tuple[bytes, int, int]]) -> pa.RecordBatch:
    """Returns rows of stripes, one after the other.

    Args:
      schema: of the batches that were packed.
      pieces: (consecutive stripes, number of their first rows to leave out, rows to return).

    Raises:
      ValueError: the bytes are no stripes of this schema, or lack rows; or a column would have over
        2 GiB of texts.
      MemoryError: there is no memory for the result.
    """
    array = imported(kernels.unpack_stripes(schema.__arrow_c_schema__(), list(pieces)))
    return pa.RecordBatch.from_arrays(array.flatten(), schema=schema)
