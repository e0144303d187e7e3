"""Integers as the floats that equal them, or an error.

For encodings that put integers among floats. ``cast: float32`` takes the nearest, because it is
asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.arrow.equal_floats import nearest_floats
from beam_pipelines.encodings.formula import checked

if TYPE_CHECKING:
    import tensorflow as tf


def exact_floats(array: pa.Array, type_: pa.DataType, name: str = "") -> pa.Array:
    """Returns int64 scalars as floats that equal them.

    Args:
      array: int64, or floats, which stay as they are; nulls stay null.
      type_: float32 or float64.
      name: of the feature, for messages, where there are several.

    Raises:
      pa.ArrowInvalid: no float equals an integer.
    """
    if not pa.types.is_integer(array.type):
        return array
    floats, is_equal = nearest_floats(array, type_)
    if not is_equal.all():
        raise pa.ArrowInvalid(rounded(type_name(type_), name))
    return floats


def exact_floats_tensor(values: tf.Tensor, dtype: tf.DType, name: str = "") -> tf.Tensor:
    """Builds ``exact_floats`` in a graph, for a tensor of any shape."""
    import tensorflow as tf

    if not values.dtype.is_integer:
        return values
    floats = tf.cast(values, dtype)
    same = (tf.cast(floats, tf.int64) == values) & (floats < 2.0**63)
    return checked(floats, same, rounded(dtype.name, name))


def rounded(type_: str, name: str) -> str:
    """Returns the error of an integer that a type would round."""
    if name:
        return (
            f"no {type_} equals an integer of '{name}'; to round it, encode '{name}' before the "
            f"vector, as in {{{name}: {{cast: float32}}}}"
        )
    return (
        f"no {type_} equals an integer; to round it, cast first, as in "
        "[{cast: float32}, {fill: mean}]"
    )
