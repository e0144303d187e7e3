"""Chooses the features of a batch, and the form of each.

A feature that the schema never lacks and gives a shape is dense; so is one with a fill value. Any
other is ragged, or padded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout import schema_features
from beam_pipelines.reader.arrays import DTYPES
from beam_pipelines.reader.images import Image, check_image
from beam_pipelines.reader.lookup import Lookup, TextIds, make_lookup

# Arguments of batches that are mappings from features.
_OF_FEATURES = ("fill", "types", "images", "lookup", "lengths", "keyed")
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


class Wishes(TypedDict, total=False):
    """Arguments of ``Dataset.batches`` about features; it describes them."""

    columns: Iterable[str] | None
    fill: Mapping[str, Any] | None
    types: Mapping[str, str] | None
    padding: float | None
    images: Mapping[str, Image] | None
    lookup: Mapping[str, int | Lookup] | None
    lengths: Mapping[str, int] | None
    keyed: Mapping[str, Sequence[str]] | None


class ReadFeature(NamedTuple):
    """A feature to read.

    Attributes:
      name: of the feature.
      type: of its values: int64, also of ids, float32 or large_binary.
      dtype: of numbers in a batch; that of ``type``, or a narrower one.
      shape: of a row's values; ``None``: they are ragged.
      fill: of a row without values; ``None``: no row lacks them.
      steps: of a feature list, ``one`` or ``several`` values in a step; else ``None``.
      padding: of a feature with several lengths; ``None``: it stays ragged.
      image: how a row's image is decoded; ``None``: it is not.
      lookup: how texts become ids; ``None``: they do not.
      length: to which lists are cut, and padded if they are; ``None``: they are not cut.
      keyed: name of the ``Keyed`` in which its values are; ``None``: it is alone.
    """

    name: str
    type: pa.DataType
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    fill: Any = None
    steps: str | None = None
    padding: float | None = None
    image: Image | None = None
    lookup: TextIds | None = None
    length: int | None = None
    keyed: str | None = None

    @property
    def stored(self) -> pa.DataType:
        """The type in the records."""
        return self.type if self.lookup is None else pa.large_binary()

    @property
    def is_text(self) -> bool:
        """Whether its values in batches are bytes."""
        return self.type == pa.large_binary() and self.image is None


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
    known = {feature.name: feature for feature in schema_features.features_of(schema)}
    if not known:
        raise DataError(f"{folder}: found no features in the schema. Convert again.")
    names = _names(folder, known, wishes)
    for argument, value, kinds in (
        ("images", wishes.get("images"), ("arrow",)),
        ("padding", wishes.get("padding"), ("arrow",)),
        ("keyed", wishes.get("keyed"), ("arrow", "tf")),
    ):
        if as_ in kinds and value is not None:
            raise ValueError(f"{argument}: found it with as_='{as_}', expected another kind.")
    context = {feature.name for feature in schema.feature}
    lists = {feature.name for feature in schema_features.feature_lists_of(schema)}
    for name in names:
        if name in context & lists:
            raise ValueError(
                f"{folder}: found a feature and a feature list '{name}', expected one of them. "
                "Leave it out of 'columns'."
            )
    several = lists & set(lists_of_lists)
    domains = schema_features.domains_of(schema)
    found = [
        _feature(folder, known[name], name in lists, name in several, wishes, domains)
        for name in names
    ]
    for feature in found:
        if feature.length is None and feature.name in (wishes.get("lengths") or {}):
            raise ValueError(
                f"lengths: found '{feature.name}', expected a list of any length. Leave it out."
            )
    texts = [feature.name for feature in found if feature.is_text]
    if texts and as_ in {"torch", "jax"}:
        raise ValueError(
            f"columns: found texts in {', '.join(texts)} with as_='{as_}', which has numbers only. "
            f"Give lookup={{'{texts[0]}': 100_000}} to have ids, by hash or by a bp.Lookup; or "
            "leave them out of 'columns'. With as_='numpy' texts are Arrow arrays."
        )
    return _in_keyed(found, wishes.get("keyed") or {})


def _check(argument: str, given: Any, kind: type, expected: str) -> None:
    if isinstance(given, str) or not isinstance(given, kind | None):
        raise ValueError(f"{argument}: found {given!r}, expected {expected}.")  # noqa: TRY004


def _names(folder: str, known: Collection[str], wishes: Wishes) -> list[str]:
    """Returns the names of the features to read."""
    columns = wishes.get("columns")
    arguments: dict[str, Any] = {name: wishes.get(name) for name in _OF_FEATURES}
    for name, given in arguments.items():
        _check(name, given, Mapping, "a mapping, such as {'feature': …}")
    for name, given in {**(arguments["keyed"] or {}), "columns": columns}.items():
        _check(name, given, Iterable, "a list, such as ['feature']")
    names = list(known) if columns is None else list(columns)
    arguments["keyed"] = [name for own in (arguments["keyed"] or {}).values() for name in own]
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
    folder: str,
    feature: schema_pb2.Feature,
    is_list: bool,
    is_several: bool,
    wishes: Wishes,
    domains: schema_features.Domains,
) -> ReadFeature:
    name = feature.name
    if feature.type not in schema_features.VALUE_TYPES:
        raise DataError(
            f"{folder}: feature '{name}' has the type "
            f"{schema_pb2.FeatureType.Name(feature.type)} in the schema, expected INT, FLOAT or "
            "BYTES. Leave it out of 'columns'."
        )
    type_, lookup = schema_features.VALUE_TYPES[feature.type], None
    image, fill = (wishes.get("images") or {}).get(name), (wishes.get("fill") or {}).get(name)
    if name in (wishes.get("lookup") or {}):
        lookup, type_ = _lookup(feature, wishes, domains), pa.int64()
    dtype = _dtype(name, type_, wishes.get("types") or {})
    found = ReadFeature(name, type_, dtype, None, lookup=lookup)
    if is_list:
        if fill is not None or image is not None:
            raise ValueError(
                f"{'images' if fill is None else 'fill'}: found the feature list '{name}', "
                "expected a feature with one value a row. "
                + ("Leave it out." if fill is None else "Give 'padding' instead.")
            )
        one = schema_features.has_one_value_a_step(feature) and not is_several
        # Steps that may be null have one value at most: only lists of lists have more.
        steps = "one" if one else "several" if is_several else "some"
        return _as_list(found._replace(steps=steps), wishes)
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
    if schema_features.has_one_value(feature):
        return found
    return _as_list(found, wishes)


def _lookup(
    feature: schema_pb2.Feature, wishes: Wishes, domains: schema_features.Domains
) -> TextIds:
    name, given = feature.name, (wishes.get("lookup") or {})[feature.name]
    if feature.type != schema_pb2.BYTES:
        raise ValueError(f"lookup: found numbers in '{name}', expected texts. Leave it out.")
    own = [feature.string_domain] if feature.HasField("string_domain") else []
    known = [text for one in own or domains.get(feature.domain, ()) for text in one.value]
    return make_lookup(name, given, known)


def _as_list(feature: ReadFeature, wishes: Wishes) -> ReadFeature:
    """Returns a feature with what the arguments say of its lists."""
    length = (wishes.get("lengths") or {}).get(feature.name)
    if length is not None and (not isinstance(length, int) or length < 1):
        raise ValueError(
            f"lengths: found {length!r} for feature '{feature.name}', expected a number of values, "
            "1 or more."
        )
    return feature._replace(padding=_padding(feature, wishes.get("padding")), length=length)


def _in_keyed(
    features: Sequence[ReadFeature], keyed: Mapping[str, Sequence[str]]
) -> list[ReadFeature]:
    """Returns features, with those of each ``Keyed`` at the end."""
    alone, found = {feature.name: feature for feature in features}, list[ReadFeature]()
    for key, names in keyed.items():
        own = [alone.pop(name)._replace(keyed=key, padding=None) for name in names if name in alone]
        if not own or len(own) < len(names) or key in {feature.name for feature in features}:
            raise ValueError(
                f"keyed: found '{key}' of {', '.join(names)}, expected a name that no feature has, "
                "and one or more features, each once."
            )
        if len({feature.dtype for feature in own}) > 1 or not all(map(_is_keyable, own)):
            shown = ", ".join(f"{one.name}: {one.dtype}" for one in own)
            raise ValueError(
                f"keyed: found {shown} in '{key}', expected numbers of one type, without pictures "
                "and steps of several values. Give 'types' or 'lookup', or leave them out."
            )
        found += own
    return [*alone.values(), *found]


def _is_keyable(feature: ReadFeature) -> bool:
    return feature.image is None and not feature.is_text and feature.steps in {None, "one"}


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
