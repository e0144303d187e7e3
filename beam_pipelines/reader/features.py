"""Chooses the features of a batch, and the form of each.

A feature that the schema never lacks and gives a shape is dense; so is one with a fill value. Any
other is ragged, or padded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.schema_features import (
    feature_lists_of,
    features_of,
    has_one_value,
    has_one_value_a_step,
)
from beam_pipelines.reader.arrays import DTYPES
from beam_pipelines.reader.images import Image, check_image

_TYPES = {
    schema_pb2.BYTES: pa.large_binary(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.INT: pa.int64(),
}
# Type in the records -> types that a batch may have.
_NARROWER = {
    pa.int64(): ("int64", "int32", "int16", "int8", "uint8"),
    pa.float32(): ("float32", "float16"),
    pa.large_binary(): (),
}
_KINDS: dict[pa.DataType, Any] = {
    pa.int64(): (int, np.integer),
    pa.float32(): (int, float, np.integer, np.floating),
    pa.large_binary(): (bytes,),
}


class Wishes(NamedTuple):
    """Arguments of ``Dataset.batches`` about features; it describes them."""

    columns: Iterable[str] | None = None
    fill: Mapping[str, Any] | None = None
    types: Mapping[str, str] | None = None
    padding: float | None = None
    images: Mapping[str, Image] | None = None


class ReadFeature(NamedTuple):
    """A feature to read.

    Attributes:
      name: of the feature.
      type: in the records: int64, float32 or large_binary.
      dtype: of numbers in a batch; that of ``type``, or a narrower one.
      shape: of a row's values; ``None``: they are ragged.
      fill: of a row without values; ``None``: no row lacks them.
      steps: of a feature list, ``one`` or ``several`` values in a step; else ``None``.
      padding: of a feature with several lengths; ``None``: it stays ragged.
      image: how a row's image is decoded; ``None``: it is not.
    """

    name: str
    type: pa.DataType
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    fill: Any = None
    steps: str | None = None
    padding: float | None = None
    image: Image | None = None


def names_of_lists_of_lists(columns: Mapping[str, str]) -> frozenset[str]:
    """Returns the columns of lists of lists.

    Args:
      columns: column -> type, as a manifest names it.
    """
    return frozenset(name for name, type_ in columns.items() if type_.startswith("list<list<"))


def wanted_features(
    folder: str,
    schema: schema_pb2.Schema,
    lists_of_lists: Iterable[str],
    wishes: Wishes,
    as_: str,
) -> list[ReadFeature]:
    """Returns the features to read, in the order of ``columns``.

    Args:
      folder: names the dataset in errors.
      schema: of the records.
      lists_of_lists: names of feature lists whose steps have any number of values.
      wishes: which features, and in which form.
      as_: kind of the batches.

    Raises:
      DataError: the schema has no features, or a type of its own.
      ValueError: there is no such feature, or a wish does not suit it.
    """
    known = {feature.name: feature for feature in features_of(schema)}
    if not known:
        raise DataError(f"{folder}: found no features in the schema. Convert again.")
    names = _names(folder, known, wishes)
    for argument, value in (("images", wishes.images), ("padding", wishes.padding)):
        if as_ == "arrow" and value is not None:
            raise ValueError(f"{argument}: found it with as_='arrow', expected another kind.")
    context = {feature.name for feature in schema.feature}
    lists = {feature.name for feature in feature_lists_of(schema)}
    for name in names:
        if name in context & lists:
            raise ValueError(
                f"{folder}: found a feature and a feature list '{name}', expected one of them. "
                "Leave it out of 'columns'."
            )
    several = lists & set(lists_of_lists)
    return [_feature(folder, known[name], name in lists, name in several, wishes) for name in names]


def _names(folder: str, known: Collection[str], wishes: Wishes) -> list[str]:
    """Returns the names of the features to read."""
    if isinstance(wishes.columns, str):
        raise ValueError(  # noqa: TRY004
            f"columns: found the text '{wishes.columns}', expected a list: ['{wishes.columns}']."
        )
    names = list(known) if wishes.columns is None else list(wishes.columns)
    arguments = {"fill": wishes.fill, "types": wishes.types, "images": wishes.images}
    for name in [*names, *(name for given in arguments.values() for name in given or {})]:
        if name not in known:
            raise ValueError(
                f"{folder}: found no feature '{name}', expected one of the "
                f"schema's.{nearest(name, known)}"
            )
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"columns: found {names}, expected one or more names, each once.")
    for argument, given in arguments.items():
        for name in given or {}:
            if name not in names:
                raise ValueError(
                    f"{argument}: found '{name}', which is not in columns. Leave it out."
                )
    return names


def _feature(
    folder: str, feature: schema_pb2.Feature, is_list: bool, is_several: bool, wishes: Wishes
) -> ReadFeature:
    name = feature.name
    if feature.type not in _TYPES:
        raise DataError(
            f"{folder}: feature '{name}' has the type "
            f"{schema_pb2.FeatureType.Name(feature.type)} in the schema, expected INT, FLOAT or "
            "BYTES. Leave it out of 'columns'."
        )
    type_ = _TYPES[feature.type]
    image, fill = (wishes.images or {}).get(name), (wishes.fill or {}).get(name)
    found = ReadFeature(name, type_, _dtype(name, type_, wishes.types or {}), None)
    if is_list:
        if fill is not None or image is not None:
            raise ValueError(
                f"{'images' if fill is None else 'fill'}: found the feature list '{name}', "
                "expected a feature with one value a row. "
                + ("Leave it out." if fill is None else "Give 'padding' instead.")
            )
        one = has_one_value_a_step(feature) and not is_several
        # Steps that may be null have one value at most: only lists of lists have more.
        steps = "one" if one else "several" if is_several else "some"
        return found._replace(steps=steps, padding=_padding(found, wishes.padding))
    has_shape = feature.HasField("shape")
    shape = tuple(dim.size for dim in feature.shape.dim) if has_shape else ()
    shape = () if shape == (1,) else shape
    if image is not None:
        check_image(name, image)
        if type_ != pa.large_binary() or shape != () or fill is not None:
            raise ValueError(
                f"images: found '{name}', expected a feature of bytes, one value a row, without a "
                "fill value."
            )
        return found._replace(shape=(), image=image)
    if has_shape and feature.presence.min_fraction == 1:
        return found._replace(shape=shape)
    if fill is not None:
        return found._replace(shape=shape, fill=_fill_value(found, fill))
    if has_one_value(feature):
        return found
    return found._replace(padding=_padding(found, wishes.padding))


def _dtype(name: str, type_: pa.DataType, types: Mapping[str, str]) -> np.dtype[Any]:
    if name not in types:
        return DTYPES[type_]
    if types[name] not in _NARROWER[type_]:
        known = ", ".join(_NARROWER[type_]) or "no type, as its values are bytes"
        raise ValueError(f"types: found {types[name]!r} for feature '{name}', expected {known}.")
    return np.dtype(types[name])


def _padding(feature: ReadFeature, padding: float | None) -> Any:
    if padding is None:
        return None
    if feature.type == pa.large_binary():
        return b""
    if not _holds(feature, padding):
        raise ValueError(
            f"padding: found {padding!r} for feature '{feature.name}', expected a number that "
            f"{feature.dtype} holds."
        )
    return padding


def _fill_value(feature: ReadFeature, fill: Any) -> Any:
    if not _holds(feature, fill):
        wanted = {pa.int64(): "an integer", pa.float32(): "a number"}.get(feature.type, "bytes")
        holds = "" if feature.type == pa.large_binary() else f" that {feature.dtype} holds"
        raise ValueError(
            f"fill: found {fill!r} for feature '{feature.name}', expected {wanted}{holds}."
        )
    return fill


def _holds(feature: ReadFeature, value: Any) -> bool:
    """Whether the values of a feature may be a value."""
    if isinstance(value, bool) or not isinstance(value, _KINDS[feature.type]):
        return False
    if feature.dtype.kind in "iu":
        limits = np.iinfo(feature.dtype)
        return bool(limits.min <= value <= limits.max)
    if feature.dtype.kind == "f":
        return not np.isfinite(value) or abs(value) <= float(np.finfo(feature.dtype).max)
    return True
