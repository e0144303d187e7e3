"""Encodes sparse features' columns in the graph, then joins them.

Signatures have only the columns, because their outputs are dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.serving.ragged import to_ragged
from beam_pipelines.serving.specs import feature_spec

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


def without_sparse_features(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    """Returns the schema with sparse features' columns as separate features."""
    result = schema_pb2.Schema()
    result.CopyFrom(schema)
    del result.sparse_feature[:]
    return result


def sparse_specs(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns the ``tf.io.SparseFeature`` of each sparse feature."""
    spec = feature_spec(schema)
    return {
        feature.name: spec[feature.name]
        for feature in schema.sparse_feature
        if feature.name in spec
    }


def assemble_sparse(
    tensors: Mapping[str, AnyTensor], sparse: Mapping[str, Any]
) -> dict[str, AnyTensor]:
    """Returns tensors with sparse features' columns joined, as parsing gives them.

    Args:
      tensors: of features, dense, sparse or ragged; indices and values in ascending order of the
        indices.
      sparse: name -> ``tf.io.SparseFeature``; its tensor is sparse, [batch, size, …].
    """
    import tensorflow as tf

    result = dict(tensors)
    for name, spec in sparse.items():
        *indices, values = (to_ragged(result.pop(key)) for key in (*spec.index_key, spec.value_key))
        places = tf.stack([values.value_rowids(), *(index.values for index in indices)], axis=1)
        shape = tf.concat([[values.nrows()], tf.constant(spec.size, tf.int64)], axis=0)
        result[name] = tf.SparseTensor(places, values.values, shape)
    return result


def split_sparse(
    tensors: Mapping[str, AnyTensor], specs: Mapping[str, Any]
) -> dict[str, AnyTensor]:
    """Returns tensors with sparse features split into columns, ragged [batch, None].

    Args:
      tensors: of features; sparse ones in the order of their rows.
      specs: name -> spec that parses the feature; ``tf.io.SparseFeature`` are split.
    """
    import tensorflow as tf

    result: dict[str, AnyTensor] = {}
    for name, tensor in tensors.items():
        spec = specs[name]
        if isinstance(spec, tf.io.SparseFeature):
            values = to_ragged(tensor)
            keys = [spec.index_key] if isinstance(spec.index_key, str) else spec.index_key
            for number, key in enumerate(keys, 1):
                result[key] = values.with_values(tensor.indices[:, number])
            result[spec.value_key] = values
        else:
            result[name] = tensor
    return result
