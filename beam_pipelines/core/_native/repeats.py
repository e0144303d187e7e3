"""The C++ kernel for equal hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native import _kernels, imported


def find_repeats(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Finds records that repeat a hash, as ``core/equal_hashes.py`` does.

    Args:
      records: n of a dtype of 16 to 1,024 bytes; the first 16 are the hash.

    Returns:
      int64[repeats, 2], read-only: the first record with the hash, and the record that repeats it.

    Raises:
      ValueError: records of another size, or 2^32 of them.
    """
    data = pa.py_buffer(np.ascontiguousarray(records).view(np.uint8))
    type_ = pa.binary(records.dtype.itemsize)
    array = pa.FixedSizeBinaryArray.from_buffers(type_, len(records), [None, data])
    pairs = imported(_kernels.find_repeats(array.__arrow_c_array__()))
    places: npt.NDArray[np.int64] = pairs.to_numpy().reshape(-1, 2)
    return places
