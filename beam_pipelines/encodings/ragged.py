"""Between ragged tensors and matrices: in as few operations as it takes, and without the checks
that TensorFlow's own functions add.

Each operation of a graph costs a fifth of a millisecond to build and to save, and there are
features by the dozen. A check of TensorFlow's is two functions and fifty operations, here of what
holds by construction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def to_matrix(x: tf.RaggedTensor, default: Any, width: int | None = None) -> tf.Tensor:
    """Returns the values of each row [batch, width]: filled up with ``default``, and cut off.

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
    """Returns the rows of a matrix [batch, width] as a ragged tensor [batch, None] that knows their
    length, if the matrix does.
    """
    import tensorflow as tf

    shape = tf.shape(matrix, tf.int64)
    width = shape[1] if matrix.shape[1] is None else tf.constant(matrix.shape[1], tf.int64)
    return tf.RaggedTensor.from_uniform_row_length(
        tf.reshape(matrix, [-1]), width, shape[0], validate=False
    )


def check(holds: tf.Tensor, message: str) -> tf.Operation:
    """Returns an operation that fails with a message unless a boolean scalar holds; as
    ``tf.debugging.Assert``, which costs more.
    """
    import tensorflow as tf

    operation: tf.Operation = tf.raw_ops.Assert(condition=holds, data=[message])
    return operation
