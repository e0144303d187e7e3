"""Fills TensorFlow's protos, which the serializers are compared with."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import tensorflow as tf
from hypothesis import strategies as st

# Any values of a Feature; more often integers whose varints, or 32 bits, are full.
VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from(
        [0, 1, 127, 128, 2**31, -(2**31) - 1, 2**55, 2**56, 2**62, 2**63 - 1, -1, -(2**63)]
    ),
    pa.float32(): st.floats(width=32),
    pa.large_binary(): st.binary(max_size=90),
}


def fill(feature: tf.train.Feature, kind: pa.DataType, values: list[Any] | None) -> None:
    """Puts values into a Feature; None leaves it without a kind."""
    if values is None:
        return
    if kind == pa.int64():
        feature.int64_list.SetInParent()
        feature.int64_list.value.extend(values)
    elif kind == pa.float32():
        feature.float_list.SetInParent()
        feature.float_list.value.extend(values)
    else:
        feature.bytes_list.SetInParent()
        feature.bytes_list.value.extend(
            value.encode() if isinstance(value, str) else value for value in values
        )
