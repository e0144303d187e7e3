"""Integers as the float32 that equal them, or an error.

For encodings that put integers among floats. ``cast: float32`` takes the nearest, because it is
asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from beam_pipelines.core.equal_floats import nearest_floats
from beam_pipelines.encodings.formula import checked
from beam_pipelines.encodings.values import narrow

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
    narrow, is_equal = nearest_floats(array, pa.float32())
    if not is_equal.all():
        raise pa.ArrowInvalid(rounded(name))
    return narrow


def exact_float(number: int) -> float:
    """Returns one integer as ``exact_float32`` does.

    Raises:
      ValueError: no float32 equals it.
    """
    if narrow(number) != number:
        raise ValueError(rounded(""))
    return float(number)


def exact_float32_tensor(values: tf.Tensor, name: str = "") -> tf.Tensor:
    """Builds ``exact_float32`` in a graph, for a tensor of any shape."""
    import tensorflow as tf

    if not values.dtype.is_integer:
        return values
    narrow = tf.cast(values, tf.float32)
    same = (tf.cast(narrow, tf.int64) == values) & (narrow < 2.0**63)
    return checked(narrow, same, rounded(name))


def rounded(name: str) -> str:
    """Returns the error of an integer that would be rounded."""
    if name:
        return (
            f"no float32 equals an integer of '{name}'; to round it, encode '{name}' before the "
            f"vector, as in {{{name}: {{cast: float32}}}}"
        )
    return (
        "no float32 equals an integer; to round it, cast first, as in "
        "[{cast: float32}, {fill: mean}]"
    )
