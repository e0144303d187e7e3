"""One formula for numpy and TensorFlow, and what graphs share."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.arrow.equal_floats import nearest_floats
from beam_pipelines.encodings.array_values import BEYOND, map_numbers, need_numbers, smallest_normal
from beam_pipelines.encodings.encoding import Fitted
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Library:
    """Functions of one library for formulas, on float64 of any shape.

    Attributes:
      where: (condition, then, else).
      place: (sorted constants, x) -> int64, the number of constants at or below x; all of them for
        NaN.
      take: (constants, indices) -> the constants at these places.
      remainder: (x, constant) -> exact remainder of the division, with the sign of x.
      math: module with ``log``, ``log1p``, ``sqrt``, ``floor``, ``sin`` and ``cos`` of each value.
    """

    where: Callable[..., Any]
    place: Callable[..., Any]
    take: Callable[..., Any]
    remainder: Callable[..., Any]
    math: Any


NUMPY = Library(
    where=np.where,
    place=lambda constants, x: np.searchsorted(constants, x, side="right"),
    take=np.take,
    remainder=np.fmod,
    math=np,
)


def tensorflow_library() -> Library:
    """Returns the same functions of TensorFlow."""
    import tensorflow as tf

    return Library(
        where=tf.where,
        place=lambda constants, x: tf.searchsorted(constants, x, side="right", out_type=tf.int64),
        take=tf.gather,
        remainder=tf.truncatemod,
        math=tf.math,
    )


def tensor_to_float64(values: tf.Tensor) -> tf.Tensor:
    """Returns numbers as float64, subnormals as 0 (``values.map_numbers``)."""
    import tensorflow as tf

    wide = tf.cast(values, tf.float64)
    if not values.dtype.is_floating:
        return wide
    least = smallest_normal(values.dtype.as_numpy_dtype)
    return tf.where(tf.abs(wide) < least, tf.zeros_like(wide), wide)


def narrowed_tensor(values: tf.Tensor) -> tf.Tensor:
    """Builds ``values.narrowed`` in a graph."""
    import tensorflow as tf

    if values.dtype != tf.float64:
        return values
    result = tf.cast(values, tf.float32)
    return checked(result, ~tf.math.is_inf(result) | tf.math.is_inf(values), BEYOND)


class ToFloat:
    """Numbers become float32."""

    def output(self, *features: Feature) -> Feature:
        """Numbers become float32; lists stay lists."""
        return need_numbers(features[0]).with_values(pa.float32())


class Formula(ToFloat, Fitted):
    """A fitted encoding with one formula per number.

    Nulls stay null, and lists stay lists.

    Attributes:
      dtype: of the results, float32 or int64.
    """

    dtype: type[np.float32 | np.int64] = np.float32

    def for_float32(self) -> Formula:
        """Returns the encoding for numbers that were rounded to float32."""
        return self

    @abc.abstractmethod
    def formula(self, x: Any, library: Library) -> Any:
        """Computes float64 from float64, with operators and ``library`` of numpy or TensorFlow."""

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Computes the numbers of scalars, or the items of lists."""
        own = self._of(pa.types.is_float32(value_type(arrays[0].type)))
        return map_numbers(arrays[0], lambda x: own.formula(x, NUMPY), self.dtype)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Computes the flat values."""
        import tensorflow as tf

        (x,) = features
        own = self._of(x.dtype == tf.float32)
        values = own.formula(tensor_to_float64(x.flat_values), tensorflow_library())
        return x.with_flat_values(tf.cast(values, self.dtype))

    def _of(self, is_float32: bool) -> Formula:
        return self.for_float32() if is_float32 else self


def checked(values: tf.Tensor, holds: tf.Tensor, message: str) -> tf.Tensor:
    """Returns values for which a graph checks a condition.

    The graph fails with the message unless the condition holds for each value.
    """
    import tensorflow as tf

    with tf.control_dependencies([check(tf.reduce_all(holds), message)]):
        return tf.identity(values)


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


def to_matrix(x: tf.RaggedTensor, default: Any, width: int | None = None) -> tf.Tensor:
    """Returns rows as a matrix [batch, width], padded with ``default``.

    Longer rows are cut.

    Args:
      x: [batch, None].
      default: scalar of its type.
      width: number of columns; ``None`` for that of the longest row.
    """
    import tensorflow as tf

    matrix: tf.Tensor = tf.raw_ops.RaggedTensorToTensor(
        shape=tf.constant([-1, -1 if width is None else width], tf.int64),
        values=x.values,
        default_value=tf.convert_to_tensor(default, x.dtype),
        row_partition_tensors=[x.row_splits],
        row_partition_types=["ROW_SPLITS"],
    )
    matrix.set_shape([None, width])
    return matrix


def from_matrix(matrix: tf.Tensor) -> tf.RaggedTensor:
    """Returns a matrix [batch, width] as a ragged tensor [batch, None].

    The tensor has a uniform row length if the matrix has a static width.
    """
    import tensorflow as tf

    shape = tf.shape(matrix, tf.int64)
    width = shape[1] if matrix.shape[1] is None else tf.constant(matrix.shape[1], tf.int64)
    return tf.RaggedTensor.from_uniform_row_length(
        tf.reshape(matrix, [-1]), width, shape[0], validate=False
    )


def check(holds: tf.Tensor, message: str) -> tf.Operation:
    """Returns an operation that fails unless a boolean scalar holds.

    The operation fails with ``message``. It is cheaper than ``tf.debugging.Assert``.
    """
    import tensorflow as tf

    operation: tf.Operation = tf.raw_ops.Assert(condition=holds, data=[message])
    return operation
