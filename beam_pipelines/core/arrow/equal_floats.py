"""Integers and the floats that equal them.

This is the one rule for integers that become floats without a request to round: equality, not a
bound.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def nearest_floats(
    integers: pa.Array, type_: pa.DataType
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Returns integers as floats, and which of the floats equal their integer.

    Args:
      integers: n integers of any type; nulls stay null, and count as equal.
      type_: float16, float32 or float64.

    Returns:
      The floats, infinite beyond the range of float16; and bool[n].
    """
    filled = integers.fill_null(0) if integers.null_count else integers
    # Arrow's own cast to float16 is not that to the nearest. Of integers within its range, float32
    # has all.
    is_half = pa.types.is_float16(type_)
    floats = pc.cast(filled, pa.float32() if is_half else type_, safe=False)
    floats = pc.cast(floats, type_) if is_half else floats
    numbers = floats.to_numpy(zero_copy_only=False).astype(np.float64)
    whole = filled.to_numpy(zero_copy_only=False)
    limits = np.iinfo(whole.dtype)
    is_within = (numbers >= float(limits.min)) & (
        numbers < float(limits.max) + (whole.itemsize < 8)
    )
    with np.errstate(invalid="ignore"):  # 2**63 is beyond int64
        equal = (numbers.astype(whole.dtype) == whole) & is_within
    if integers.null_count:
        # Older Arrow's if_else takes no float16.
        is_null = integers.is_null().to_numpy(zero_copy_only=False)
        floats = pa.array(floats.to_numpy(zero_copy_only=False), type_, mask=is_null)
    return floats, equal
