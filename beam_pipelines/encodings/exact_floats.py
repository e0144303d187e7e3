"""Integers as the float32 that equal them, or an error.

For encodings that put integers among floats. ``cast: float32`` takes the nearest, because it is
asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.encodings.formula import checked

if TYPE_CHECKING:
    import tensorflow as tf


def exact_float32(array: pa.Array, name: str = "") -> pa.Array:
    """Returns int64 scalars as float32 that equal them.

    Args:
      array: int64, or float32, which stays as it is; nulls stay null.
      name: of the feature, for messages, where there are several.

    Raises:
      pa.ArrowInvalid: no float32 equals an integer.
    """
    if not pa.types.is_integer(array.type):
        return array
    filled = array.fill_null(0) if array.null_count else array
    narrow = pc.cast(filled, pa.float32(), safe=False)
    numbers = narrow.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):  # 2**63 is beyond int64
        back = numbers.astype(np.int64)
    same = (back == filled.to_numpy(zero_copy_only=False)) & (numbers < 2.0**63)
    if not same.all():
        raise pa.ArrowInvalid(_rounded(name))
    return (
        pc.if_else(array.is_valid(), narrow, pa.scalar(None, pa.float32()))
        if array.null_count
        else narrow
    )


def exact_float32_tensor(values: tf.Tensor, name: str = "") -> tf.Tensor:
    """Builds ``exact_float32`` in a graph, for a tensor of any shape."""
    import tensorflow as tf

    if not values.dtype.is_integer:
        return values
    narrow = tf.cast(values, tf.float32)
    same = (tf.cast(narrow, tf.int64) == values) & (narrow < 2.0**63)
    return checked(narrow, same, _rounded(name))


def _rounded(name: str) -> str:
    """Returns the error of an integer that would be rounded."""
    where = f" of '{name}'" if name else ""
    return f"no float32 equals an integer{where}; to round it, put 'cast: float32' first"
