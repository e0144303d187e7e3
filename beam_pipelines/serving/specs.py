"""Makes a schema's feature specs and the types of parsed tensors."""

from __future__ import annotations

from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2


def feature_spec(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns a schema's feature spec, as ``tft.TFTransformOutput`` reads it.

    It calls ``schema_utils.schema_as_feature_spec``.

    Raises:
      ValueError: the schema cannot be interpreted.
    """
    from tfx_bsl.tfxio import tensor_representation_util as util

    types = {feature.name: feature.type for feature in schema.feature}
    spec = {}
    for name, representation in util.InferTensorRepresentationsFromMixedSchema(schema).items():
        values = str(util.GetSourceValueColumnFromTensorRepresentation(representation))
        spec[name] = util.CreateTfExampleParserConfig(representation, types[values])
    return spec


def ragged_spec(spec: Any) -> Any:
    """Returns the spec that parses ragged tensors instead of sparse ones."""
    import tensorflow as tf

    is_sparse = isinstance(spec, tf.io.VarLenFeature)
    return tf.io.RaggedFeature(spec.dtype, row_splits_dtype=tf.int64) if is_sparse else spec


def type_spec(spec: Any) -> Any:
    """Returns the ``tf.TypeSpec`` of the tensor that a spec parses.

    Raises:
      ValueError: a kind that no schema of columns gives.
    """
    import tensorflow as tf

    if isinstance(spec, tf.io.FixedLenFeature):
        return tf.TensorSpec([None, *spec.shape], spec.dtype)
    if isinstance(spec, tf.io.VarLenFeature):
        return tf.SparseTensorSpec([None, None], spec.dtype)
    if isinstance(spec, tf.io.RaggedFeature):
        uniform = tf.io.RaggedFeature.UniformRowLength
        inner = [part.length if isinstance(part, uniform) else None for part in spec.partitions]
        return tf.RaggedTensorSpec(
            [None, None, *inner],
            spec.dtype,
            1 + inner.count(None),
            row_splits_dtype=spec.row_splits_dtype,
        )
    raise ValueError(f"found {spec!r}, expected a dense, sparse or ragged feature")
