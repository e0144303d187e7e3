"""Fills TensorFlow's protos, which the serializers are compared with."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import tensorflow as tf


def fill(feature: tf.train.Feature, kind: pa.DataType, values: list[Any]) -> None:
    """Puts values into a Feature, one by one."""
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
