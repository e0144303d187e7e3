"""Parses batches of tf.SequenceExamples in TensorFlow, to ragged or padded tensors.

For trainers: imports no Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.schema_features import feature_lists_of, has_one_value_a_step
from beam_pipelines.reader.features import names_of_lists_of_lists

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class FeatureLists:
    """Feature lists to parse.

    Attributes:
      spec: name -> ``tf.io.RaggedFeature``, for ``tf.io.parse_sequence_example``.
      one_value: names of those with exactly one value in every step.
      padding: fills sequences up to the longest of a batch (texts: empty ones); ``None``: they
        stay ragged.
      several: names of those whose steps are lists.
    """

    spec: Mapping[str, Any]
    one_value: frozenset[str]
    padding: float | None = None
    several: frozenset[str] = frozenset()


def feature_lists(
    schema: schema_pb2.Schema,
    padding: float | None = None,
    columns: Mapping[str, str] | None = None,
) -> FeatureLists:
    """Returns the feature lists of a schema, if it has any.

    Args:
      schema: of the examples.
      padding: as in ``FeatureLists``.
      columns: column -> type, which says whose steps are lists: a schema does not tell them from
        steps that may be null.
    """
    import tensorflow as tf

    dtypes = {schema_pb2.INT: tf.int64, schema_pb2.FLOAT: tf.float32, schema_pb2.BYTES: tf.string}
    features = feature_lists_of(schema)
    spec = {
        feature.name: tf.io.RaggedFeature(dtypes[feature.type], value_key=feature.name)
        for feature in features
    }
    several = names_of_lists_of_lists(columns or {})
    one_value = {feature.name for feature in features if has_one_value_a_step(feature)}
    return FeatureLists(spec, frozenset(one_value - several), padding, several)


def parse_batch(records: tf.Tensor, spec: Mapping[str, Any], lists: FeatureLists) -> dict[str, Any]:
    """Parses a batch of serialized tf.SequenceExamples.

    Args:
      records: string [batch].
      spec: of the features to parse: of the context, and some of ``lists.spec``.
      lists: the feature lists.

    Returns:
      Name -> tensor. A feature list is ragged, [batch, steps], or [batch, steps, values] if some
      steps have no value or are lists; with padding it is dense, [batch, most steps], or [batch,
      most steps, most values] if steps are lists.
    """
    import tensorflow as tf

    context = {name: feature for name, feature in spec.items() if name not in lists.spec}
    steps = {name: feature for name, feature in spec.items() if name in lists.spec}
    parsed, found, _ = tf.io.parse_sequence_example(records, context or None, steps or None)
    return {**parsed, **{name: _shaped(name, tensor, lists) for name, tensor in found.items()}}


def _shaped(name: str, tensor: tf.RaggedTensor, lists: FeatureLists) -> tf.Tensor | tf.RaggedTensor:
    """Gives a list [batch, steps, values] the shape of ``parse_batch``."""
    import tensorflow as tf

    if lists.padding is not None:
        filler = (
            tf.constant("") if tensor.dtype == tf.string else tf.cast(lists.padding, tensor.dtype)
        )
        if name in lists.several:
            return tensor.to_tensor(filler)
        return tf.squeeze(tensor.to_tensor(filler, shape=[None, None, 1]), 2)
    if name in lists.one_value:
        return tf.RaggedTensor.from_row_splits(tensor.flat_values, tensor.row_splits)
    return tensor
