"""The ``tensor_representation_group`` of a schema: how features become tensors.

TFX parses tf.Examples without the group: tfx-bsl infers it
(tfx_bsl/tfxio/tensor_representation_util.py). For tf.SequenceExamples it has to be in the schema.
Otherwise tfx-bsl has no parser, and Transform reads the serialized records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.layout.schema_features import feature_lists_of, path_of

_Representation = schema_pb2.TensorRepresentation
# tfx-bsl's name of the group that it uses by default.
_GROUP = ""
# Stages whose features tfx-bsl does not parse.
_STAGES = (
    schema_pb2.DEPRECATED,
    schema_pb2.DISABLED,
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEBUG_ONLY,
    schema_pb2.VALIDATION_DERIVED,
)


def add_representations(
    schema: schema_pb2.Schema, before: schema_pb2.Schema | None = None
) -> schema_pb2.Schema:
    """Adds representations if the schema has feature lists.

    What the schema already says about a column stays.

    Args:
      schema: it is changed, and returned.
      before: the schema before its features were changed. What was inferred from it is inferred
        again.
    """
    group = schema.tensor_representation_group[_GROUP].tensor_representation
    inferred = _inferred(schema)
    for name, old in ({} if before is None else _inferred(before)).items():
        if name in group and group[name] == old != inferred.get(name):
            del group[name]
            if name in inferred:
                group[name].CopyFrom(inferred[name])
    if feature_lists_of(schema):
        used = {column for representation in group.values() for column in _columns(representation)}
        for name, representation in inferred.items():
            if name not in group and used.isdisjoint(_columns(representation)):
                group[name].CopyFrom(representation)
    return _without_empty_group(schema)


def drop_representations(schema: schema_pb2.Schema, columns: Collection[str]) -> schema_pb2.Schema:
    """Removes the representations of columns.

    Changes and returns the schema.
    """
    group = schema.tensor_representation_group[_GROUP].tensor_representation
    for name in [name for name in group if not set(columns).isdisjoint(_columns(group[name]))]:
        del group[name]
    return _without_empty_group(schema)


def drop_inferred(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    """Removes the representations that can be inferred again.

    Changes and returns the schema.
    """
    group = schema.tensor_representation_group[_GROUP].tensor_representation
    for name, representation in _inferred(schema).items():
        if name in group and group[name] == representation:
            del group[name]
    return _without_empty_group(schema)


def _without_empty_group(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    if not schema.tensor_representation_group[_GROUP].tensor_representation:
        del schema.tensor_representation_group[_GROUP]
    return schema


def _columns(representation: schema_pb2.TensorRepresentation) -> Iterator[str]:
    """Yields the columns of a tensor, feature lists by their own names."""
    kind = representation.WhichOneof("kind")
    if kind == "ragged_tensor":
        yield representation.ragged_tensor.feature_path.step[-1]
        for partition in representation.ragged_tensor.partition:
            if partition.HasField("row_length"):
                yield partition.row_length
    elif kind == "sparse_tensor":
        yield from representation.sparse_tensor.index_column_names
        yield representation.sparse_tensor.value_column_name
    elif kind is not None:
        yield getattr(representation, kind).column_name


def _inferred(schema: schema_pb2.Schema) -> dict[str, schema_pb2.TensorRepresentation]:
    """Returns tensor -> representation, by tfx-bsl's rules.

    Left out are features that are not parsed, and those with a shape that may be missing, which
    tfx-bsl refuses.
    """
    columns = {feature.name: feature for feature in schema.feature}
    found = {}
    for sparse in filter(_is_parsed, schema.sparse_feature):
        found[sparse.name] = _of_sparse_feature(sparse, columns)
        for part in (*sparse.index_feature, sparse.value_feature):
            columns.pop(part.name, None)
    for feature in filter(_is_parsed, columns.values()):
        if feature.type != schema_pb2.STRUCT:
            representation = _of_feature(feature, schema.represent_variable_length_as_ragged)
            if representation is not None:
                found[feature.name] = representation
    for feature in filter(_is_parsed, feature_lists_of(schema)):
        path = path_of(feature.name, is_list=True)
        found[".".join(path.step)] = _Representation(
            ragged_tensor=_Representation.RaggedTensor(feature_path=path)
        )
    return found


def _is_parsed(feature: Any) -> bool:
    """Whether tfx-bsl parses a feature; deprecated ones it does not."""
    return not (feature.deprecated or feature.lifecycle_stage in _STAGES)


def _of_sparse_feature(
    sparse: schema_pb2.SparseFeature, columns: Mapping[str, schema_pb2.Feature]
) -> schema_pb2.TensorRepresentation:
    indices = [index.name for index in sparse.index_feature]
    tensor = _Representation.SparseTensor(
        index_column_names=indices, value_column_name=sparse.value_feature.name
    )
    if sparse.is_sorted:
        tensor.already_sorted = True
    for name in indices:
        domain = columns[name].int_domain if name in columns else schema_pb2.IntDomain()
        tensor.dense_shape.dim.add(size=domain.max + 1 if domain.HasField("max") else -1)
    return _Representation(sparse_tensor=tensor)


def _of_feature(
    feature: schema_pb2.Feature, is_ragged: bool
) -> schema_pb2.TensorRepresentation | None:
    if feature.HasField("shape"):
        if feature.presence.min_fraction != 1:
            return None
        return _Representation(
            dense_tensor=_Representation.DenseTensor(column_name=feature.name, shape=feature.shape)
        )
    if is_ragged:
        path = path_of(feature.name, is_list=False)
        return _Representation(ragged_tensor=_Representation.RaggedTensor(feature_path=path))
    return _Representation(
        varlen_sparse_tensor=_Representation.VarLenSparseTensor(column_name=feature.name)
    )
