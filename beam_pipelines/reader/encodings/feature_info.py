"""Describes a dataset's features to programs that build models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.layout.dataset_layout import RAW_SCHEMA
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.schema_features import features_of, has_one_value, parse_schema
from beam_pipelines.encodings.labels import labels_of_features
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.reader import features as reader_features
from beam_pipelines.reader.encodings.encoder import fitted_encodings, recipe_of

Kind: TypeAlias = Literal["number", "id", "vector", "ragged", "text", "bytes", "image"]
Texts: TypeAlias = Mapping[str, tuple[str, ...]]
# Reads a file of the dataset by its path in it.
_Read = Callable[[str], bytes]


@dataclasses.dataclass(frozen=True)
class FeatureInfo:
    """A feature of a dataset, as a model needs to know it.

    Attributes:
      name: of the feature.
      kind: of a row's values: ``number``, ``id``, ``text``, ``bytes`` or ``image``; ``vector``:
        as many numbers in each row; ``ragged``: any number of values, of any type.
      dtype: of values in batches: ``int64``, ``float32``, or ``bytes``.
      shape: of a row's values in batches; ``()``: one value; ``None``: batches have a ``Ragged``,
        unless ``fill`` or ``padding`` makes the feature dense.
      size: of ids, also ragged ones, the greatest id + 1, with those of unseen values; of a vector,
        its width; ``None`` of others, and where the schema does not say it.
      lowest: least id. It is -1 where that stands for an unseen value, else mostly 0.
      vocabulary: texts of ids from 0, or of the places of a vector, without unseen values; ``None``
        if there are none, or more than 100,000.
      may_be_missing: whether rows may lack the feature.
      role: ``label``, ``weight`` or ``""``.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...] | None
    size: int | None
    lowest: int
    vocabulary: tuple[str, ...] | None = dataclasses.field(repr=False)
    may_be_missing: bool
    role: Literal["label", "weight", ""]


def describe_features(
    read: _Read, folder: str, manifest: Manifest, schema: schema_pb2.Schema
) -> dict[str, FeatureInfo]:
    """Returns the features of a dataset by name.

    In the order of the schema.

    Args:
      read: reads a file of the dataset by its path in it.
      folder: of the dataset, for messages.
      manifest: of the dataset.
      schema: of its records.

    Raises:
      DataError: the recipe, the encodings or the schema are damaged.
    """
    plan = _encodings(read, folder, manifest, schema)
    columns = manifest.columns
    texts = {name for name, type_ in columns.items() if type_ == "text"}
    if plan is not None:
        made = plan.features()
        texts = {name for name, known in made.items() if pa.types.is_string(known.value_type)}
    vocabularies = _texts_of_ids(plan, manifest)
    protos = {proto.name: proto for proto in features_of(schema)}
    several = reader_features.names_of_lists_of_lists(columns)
    found = {}
    for feature in reader_features.wanted_features(
        folder, schema, several, reader_features.Wishes(), "numpy"
    ):
        name, proto = feature.name, protos[feature.name]
        kind = _kind(feature, proto, name in texts)
        is_id = proto.int_domain.is_categorical
        lowest, size = 0, None
        if is_id:
            lowest = proto.int_domain.min if proto.int_domain.HasField("min") else 0
            size = proto.int_domain.max + 1 if proto.int_domain.HasField("max") else None
        elif kind == "vector":
            size = math.prod(dim.size for dim in proto.shape.dim)
        found[name] = FeatureInfo(
            name,
            kind,
            "bytes" if feature.is_text else feature.dtype.name,
            feature.shape,
            size,
            lowest,
            vocabularies.get(name),
            proto.presence.min_fraction != 1,
            _role(name, manifest),
        )
    return found


def texts_of_ids(read: _Read, folder: str, manifest: Manifest) -> Texts:
    """Returns the texts by id of features, from vocabularies and sources.

    See ``describe_features`` for arguments and errors.
    """
    return _texts_of_ids(_encodings(read, folder, manifest), manifest)


def labels_of(
    features: Mapping[str, FeatureInfo], schema: schema_pb2.Schema, label: str | None
) -> tuple[str, ...]:
    """Returns the label's texts by id, as ``Dataset.labels`` does."""
    if label is not None and label in features and (texts := features[label].vocabulary):
        return texts
    domains = {domain.name: domain.value for domain in schema.string_domain}
    for feature in schema.feature:
        if feature.name == label:
            truth = feature.bool_domain.false_value, feature.bool_domain.true_value
            values = feature.string_domain.value or domains.get(feature.domain, ())
            return tuple(values) or (truth if any(truth) else ())
    return ()


def _texts_of_ids(plan: EncodePlan | None, manifest: Manifest) -> Texts:
    made = {} if plan is None else labels_of_features(plan)
    return {**made, **manifest.labels}


def _encodings(
    read: _Read, folder: str, manifest: Manifest, schema: schema_pb2.Schema | None = None
) -> EncodePlan | None:
    """Returns the fitted encodings; ``None`` if only the schema describes the features."""
    if not manifest.recipe or manifest.record == "raw":
        return None
    recipe = recipe_of(folder, manifest)
    if recipe.preprocessing_fn is not None:
        return None
    if schema is None or manifest.schema != RAW_SCHEMA:
        schema = parse_schema(read(RAW_SCHEMA), f"{folder}/{RAW_SCHEMA}")
    return fitted_encodings(read, folder, manifest, recipe, schema)


def _kind(feature: reader_features.ReadFeature, proto: schema_pb2.Feature, is_text: bool) -> Kind:
    is_one = has_one_value(proto)
    if feature.steps is not None or not (is_one or proto.HasField("shape")):
        return "ragged"
    if proto.type == schema_pb2.BYTES:
        is_text |= bool(proto.WhichOneof("domain_info") in ("domain", "string_domain"))
        is_image = proto.HasField("image_domain") or proto.name == "image/encoded"
        return "image" if is_image else "text" if is_text else "bytes"
    if proto.int_domain.is_categorical:
        return "id"
    return "number" if is_one else "vector"


def _role(name: str, manifest: Manifest) -> Literal["label", "weight", ""]:
    if name == manifest.label:
        return "label"
    parts = [manifest.recipe.get(key) or {} for key in ("fit", "statistics", "sample")]
    return "weight" if name in [part.get("weight") for part in parts] else ""
