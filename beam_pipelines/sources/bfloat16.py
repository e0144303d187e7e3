"""Numbers as bfloat16, which neither Arrow nor numpy has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_pipelines.sources.exact_cast import exact_cast

# A bfloat16 is the upper half of a float32.
_LOWER_BITS, _HALF = np.uint32(16), np.uint32(0x7FFF)
_QUIET_NAN = np.uint16(0x7FC0)
_LOWER = np.uint32(0xFFFF)


def to_bfloat16(values: pa.Array) -> pa.UInt16Array:
    """Returns the bits of the nearest bfloat16 of each number.

    Ties go to even.

    Args:
      values: bools, integers or floats, without nulls.

    Raises:
      pa.ArrowInvalid: an integer that no bfloat16 equals; a finite number beyond the range of
        bfloat16.
    """
    if not pa.types.is_floating(values.type):
        values = exact_cast(values, pa.float32())
        if (values.to_numpy().view(np.uint32) & _LOWER).any():
            raise pa.ArrowInvalid("an integer that no bfloat16 equals")
    wide = values.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(np.float32)
        # Rounding twice may miss the nearest. An odd last bit marks what the first cut off.
        away = np.abs(narrow.astype(np.float64)) > np.abs(wide)
        narrow = np.where(away, np.nextafter(narrow, np.float32(0)), narrow)
        bits = narrow.view(np.uint32) | (narrow.astype(np.float64) != wide)
    rounded = bits + _HALF + ((bits >> _LOWER_BITS) & np.uint32(1))
    result = (rounded >> _LOWER_BITS).astype(np.uint16)
    result[np.isnan(wide)] = _QUIET_NAN
    is_infinite = (result & np.uint16(0x7FFF)) == np.uint16(0x7F80)
    if (is_infinite & np.isfinite(wide)).any():
        raise pa.ArrowInvalid("a number beyond the range of bfloat16")
    return pa.array(result)
