"""Makes the written features' schema from the columns' schema and encodings."""

from __future__ import annotations

import dataclasses
import math

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import has_lists_as_steps
from beam_pipelines.core.layout.schema_features import (
    features_of,
    keep_sparse_features,
    nested,
    schema_type,
)
from beam_pipelines.core.layout.tensor_representations import (
    add_representations,
    drop_representations,
)
from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.plan import EncodePlan


def raw_features(schema: schema_pb2.Schema, columns: pa.Schema) -> dict[str, Feature]:
    """Returns the features of the columns before encoding, from a schema.

    A column is required where the schema promises a dense tensor: always present, with a fixed
    number of values. A list of fixed shape has its length, and integers with a domain from 0 have
    its size.
    """
    protos = {feature.name: feature for feature in features_of(schema)}
    features = {}
    for field in columns:
        proto = protos.get(field.name, schema_pb2.Feature())
        is_dense = proto.HasField("shape") and proto.presence.min_fraction == 1
        feature = Feature.of(field.type, is_dense)
        if feature.is_list and is_dense:
            feature = dataclasses.replace(
                feature, length=math.prod(dim.size for dim in proto.shape.dim)
            )
        domain = proto.int_domain
        counts_from_0 = domain.HasField("min") and domain.min == 0 and domain.HasField("max")
        if counts_from_0 and pa.types.is_int64(feature.value_type):
            feature = dataclasses.replace(feature, size=domain.max + 1)
        features[field.name] = feature
    return features


def encoded_schema(schema: schema_pb2.Schema, plan: EncodePlan) -> schema_pb2.Schema:
    """Returns the schema of the written features.

    Args:
      schema: of the columns before encoding.
      plan: of the encodings, fitted.

    Returns:
      Features in the order of ``plan.written``; feature lists in a struct
      (``core/layout/schema_features.py``). Columns without encodings are as they were. Others have
      their new type, presence and shape: dense if required and of a fixed number of values, ids
      with a domain.

    Raises:
      DataError: an encoding cannot take the feature that the data turned out to be.
    """
    made = {chain.name for chain in plan.chains}
    protos = {feature.name: feature for feature in features_of(schema)}
    features = plan.features(raw_features(schema, plan.columns))
    encoded = schema_pb2.Schema()
    encoded.CopyFrom(schema)
    del encoded.feature[:]
    for name, feature in features.items():
        if name in made or name not in protos:
            encoded.feature.append(_feature(name, feature))
        else:
            encoded.feature.append(protos[name])
    keep_sparse_features(encoded, [name for name in features if name not in made])
    used = {feature.domain for feature in encoded.feature if feature.HasField("domain")}
    domains = [domain for domain in encoded.string_domain if domain.name in used]
    del encoded.string_domain[:]
    encoded.string_domain.extend(domains)
    drop_representations(encoded, made | (protos.keys() - features.keys()))
    steps = [field.name for field in plan.columns if has_lists_as_steps(field.type)]
    return add_representations(nested(encoded, plan.lists, steps))


def _feature(name: str, feature: Feature) -> schema_pb2.Feature:
    proto = schema_pb2.Feature(name=name, type=schema_type(feature.type))
    length = feature.length if feature.is_list else 1
    if feature.required:
        proto.presence.min_fraction = 1.0
        proto.presence.min_count = 1
    if feature.required and length is not None:
        proto.shape.dim.add(size=length)
    elif not feature.is_list:
        proto.value_count.min = proto.value_count.max = 1
    if feature.size is not None:
        proto.int_domain.min, proto.int_domain.max = feature.lowest, feature.size - 1
        proto.int_domain.is_categorical = True
    return proto
