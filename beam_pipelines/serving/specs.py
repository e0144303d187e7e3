"""Schemas of the graph, their feature specs, and their sparse features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.layout.schema_features import SEQUENCE, feature_lists_of
from beam_pipelines.serving.ragged import to_ragged

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


def feature_spec(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns a schema's feature spec, as ``tft.TFTransformOutput`` reads it.

    It calls ``schema_utils.schema_as_feature_spec``. Feature lists have none.

    Raises:
      ValueError: the schema cannot be interpreted.
    """
    from tfx_bsl.tfxio import tensor_representation_util as util

    types = {feature.name: feature.type for feature in schema.feature}
    lists = {f"{SEQUENCE}.{feature.name}" for feature in feature_lists_of(schema)}
    spec = {}
    for name, representation in util.InferTensorRepresentationsFromMixedSchema(schema).items():
        if name not in lists:
            values = util.GetSourceValueColumnFromTensorRepresentation(representation)
            kind = types[values.steps()[0]]
            spec[name] = util.CreateTfExampleParserConfig(representation, kind)
    return spec


def sequence_spec(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns name -> ``tf.io.RaggedFeature`` of the feature lists."""
    import tensorflow as tf

    dtypes = {schema_pb2.INT: tf.int64, schema_pb2.FLOAT: tf.float32, schema_pb2.BYTES: tf.string}
    return {
        feature.name: tf.io.RaggedFeature(dtypes[feature.type], value_key=feature.name)
        for feature in feature_lists_of(schema)
    }


def spec_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns how TensorFlow parses all features and feature lists."""
    return feature_spec(schema) | sequence_spec(schema)


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

    keys = {key for spec in sparse.values() for key in (*spec.index_key, spec.value_key)}
    result = {name: tensor for name, tensor in tensors.items() if name not in keys}
    for name, spec in sparse.items():
        *indices, values = (to_ragged(tensors[key]) for key in (*spec.index_key, spec.value_key))
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


RAW_SCHEMA = "metadata/schema.pbtxt"
ENCODED_SCHEMA = "transformed_metadata/schema.pbtxt"


def schema_files(
    raw_schema: schema_pb2.Schema, encoded_schema: schema_pb2.Schema, columns: Iterable[str]
) -> dict[str, bytes]:
    """Returns path in ``transform_graph/`` -> content of the schemas' files.

    Args:
      raw_schema, encoded_schema: as in ``write.write_transform_graph``.
      columns: names of the columns.
    """
    raw = columns_only(raw_schema, columns)
    return {RAW_SCHEMA: _to_text(raw), ENCODED_SCHEMA: _to_text(encoded_schema)}


def columns_only(schema: schema_pb2.Schema, names: Iterable[str]) -> schema_pb2.Schema:
    """Returns the schema with columns only, without features made of several columns."""
    known = set(names)
    result = without_sparse_features(schema)
    del result.feature[:]
    result.feature.extend(feature for feature in schema.feature if feature.name in known)
    return result


def _to_text(schema: schema_pb2.Schema) -> bytes:
    """Returns a schema as ``schema.schema_to_text`` does, without importing that module."""
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text.encode()
