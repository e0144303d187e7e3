"""Encodes raw rows by a dataset's encodings, for models outside of TensorFlow.

Opening an encoder and encoding rows load neither TensorFlow nor Beam nor tfx-bsl.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.binary_arrays import byte_lengths, is_valid
from beam_pipelines.core.arrow.columns import parse_type, type_name, with_shape
from beam_pipelines.core.errors import DataError, RecipeProblems, nearest
from beam_pipelines.core.layout.dataset_layout import ENCODINGS, MANIFEST, RAW_SCHEMA
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.schema_features import parse_schema
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.encodings.apply import BatchEncoder, needed
from beam_pipelines.encodings.feature import Feature as RawFeature
from beam_pipelines.encodings.plan import EncodePlan, with_fitted
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.encodings.schema import raw_features
from beam_pipelines.encodings.stored import FILE_NAME, decode_encodings
from beam_pipelines.reader.columns import Ragged, arrow_rows
from beam_pipelines.reader.encodings.request import ColumnTypes, Request, RequestMaker, plan_request
from beam_pipelines.reader.features import ReadFeature, Wishes, wanted_features
from beam_pipelines.reader.folders.opened import Opened
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.normal_form import from_normalised

Encoded = dict[str, Any]


class FittedPlan(NamedTuple):
    """A dataset's encodings of some features.

    Attributes:
      plan: of these features and the columns that they need; fitted.
      raw: features of these columns before encoding.
      request: plans the columns that a server has, and those that are made of them, for some
        sources.
      sources: those whose events may come along.
    """

    plan: EncodePlan
    raw: Mapping[str, RawFeature]
    request: Callable[..., Request]
    sources: tuple[str, ...]


class Encoder:
    r"""A dataset's ``derive`` and encodings as a function of raw rows: ``encoder(rows)``.

    Several threads may call it at once.

    Args:
      rows: n rows, with the joined columns of the recipe before ``derive``: a dictionary (one row),
        a list of dictionaries, an Arrow table or batch, or a pandas DataFrame. Other columns are
        ignored.
        Rows may be nested: ``{"a": {"b": 1}}`` has the column ``a.b``. Values of dictionaries are
        bool, int, float, str, bytes, ``datetime.date``, ``time`` and ``datetime`` (without a zone:
        UTC) or their ISO 8601 texts, lists, numpy's numbers, and ``None`` for null.
      history: source -> the events of a join over time, in any form of ``rows``, in the order of
        the source. Then rows have that join's keys and time in place of its columns. No event at or
        after the row's time is used, as in the shards.

    Returns:
      Feature -> values, as ``Dataset.batches`` gives them: an array [n] or [n, \*shape] of int64,
      float32 or bytes objects for a feature that the schema never lacks and gives a shape, a
      ``Ragged`` for any other.

    Raises:
      DataError: a column is missing, a value is of another type or has no encoding, an expression
        has no value, or a row lacks a value that every row of the dataset has.
      TypeError: the rows or events are something else.
      ValueError: no join over time takes events of a source.

    Attributes:
      columns: column -> type, as recipes name it: what a raw row without events must have.
      features: names of the features that it gives.
    """

    def __init__(
        self,
        fitted: FittedPlan,
        features: Sequence[ReadFeature],
    ) -> None:
        """Takes the encodings, and the features as the dataset's schema has them."""
        self._fitted, self._features = fitted, features
        self._plan, self._raw, self._request, self._sources = fitted
        self._makers: dict[frozenset[str], RequestMaker] = {}
        self.columns = _types(self._request().columns)
        self.features = tuple(feature.name for feature in features)
        self._lock, self._encode = Lock(), BatchEncoder(self._plan)

    @property
    def events(self) -> dict[str, dict[str, str]]:
        """Source -> column -> type: what events must have."""
        found: dict[str, dict[str, str]] = {}
        for each in self._request(self._sources).joins:
            found.setdefault(each.join.source, {}).update(_types(each.events.columns))
        return found

    def __call__(self, rows: Any, history: Mapping[str, Any] | None = None) -> Encoded:
        """Encodes raw rows; see the class."""
        batch = self._maker(history or {})(rows, history or {}).select(self._plan.columns.names)
        for name, feature in self._raw.items():
            if feature.required:
                _check(batch.column(name), f"column '{name}'", feature.length or 1)
        encoded = self._encode(batch, "rows")
        return {
            feature.name: _from_arrow(encoded.column(feature.name), feature)
            for feature in self._features
        }

    def _maker(self, sources: Collection[str]) -> RequestMaker:
        """Returns what makes the columns of rows with events of some sources.

        Raises:
          ValueError: no join over time takes events of a source.
        """
        for name in sources:
            if name not in (known := self._sources):
                expected = ", ".join(f"'{each}'" for each in known) or "none"
                raise ValueError(
                    f"history: found '{name}', expected {expected}: the sources that the recipe "
                    f"joins by time.{nearest(name, known)}"
                )
        with self._lock:
            key = frozenset(sources)
            if key not in self._makers:
                self._makers[key] = RequestMaker(self._request(key))
            return self._makers[key]

    def __repr__(self) -> str:
        return f"Encoder({len(self.columns)} columns -> {len(self.features)} features)"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fitted, self._features)


def _types(columns: pa.Schema) -> dict[str, str]:
    return {field.name: type_name(field.type) for field in columns}


def _from_arrow(array: pa.Array, feature: ReadFeature) -> Any:
    """Returns the values of a feature of n rows.

    Raises:
      DataError: a row lacks a value that the schema promises.
    """
    is_list = pa.types.is_list(array.type)
    flat = array.flatten() if is_list else array.drop_null() if array.null_count else array
    if feature.is_text:
        values = flat.cast(pa.large_binary())
    else:
        values = flat.to_numpy(zero_copy_only=False)
        values = values if values.flags.writeable else values.copy()
    if feature.shape is not None:
        size = math.prod(feature.shape)
        _check(array, f"feature '{feature.name}'", size)
        shape = (len(array), *feature.shape)
        return arrow_rows(values, shape) if feature.is_text else values.reshape(shape)
    is_present = is_valid(array)
    lengths = byte_lengths(array) if is_list else is_present.astype(np.int64)
    return Ragged(values, _offsets(lengths), is_present)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _check(array: pa.Array, what: str, size: int) -> None:
    """Raises ``DataError`` at a row with another number of values."""
    is_list = pa.types.is_list(array.type)
    if not is_list and not array.null_count:
        return
    is_wrong = ~is_valid(array)
    if is_list:
        is_wrong |= byte_lengths(array) != size
    wrong = np.flatnonzero(is_wrong)
    if len(wrong):
        found = array[int(wrong[0])].as_py()
        raise DataError(
            f"row {wrong[0]}, {what}: found "
            f"{'null' if found is None else f'{len(found):,} values'}, expected "
            f"{f'{size:,} values' if size > 1 else 'a value'}, as every row of the dataset has. "
            "For others, convert with a 'schema' whose feature has no shape: value_count {min: 1}"
        )


def read_plan(
    one: Opened,
    schema: schema_pb2.Schema,
    columns: Iterable[str] | None,
) -> tuple[FittedPlan, list[ReadFeature]]:
    """Reads the encodings of some features of a dataset.

    Args:
      one: the dataset.
      schema: of its records.
      columns: names of the features; ``None``: all but the label.

    Raises:
      DataError: the records are no tf.Examples; the dataset has a ``preprocessing_fn``, or its
        manifest or encodings are damaged.
      ValueError: there is no such feature.
    """
    manifest, read, folder = one.fields, one.read, one.files.path
    if manifest.record != "example":
        kind = "raw records" if manifest.record == "raw" else "tf.SequenceExamples"
        raise DataError(
            f"{folder}: found {kind}, expected tf.Examples, which is all that encoder() takes. "
            "Take the serving graph, transform_graph/transform_fn."
        )
    if columns is None:
        columns = [feature.name for feature in schema.feature if feature.name != manifest.label]
    features = wanted_features(one.shown, schema, (), Wishes(columns=columns), "numpy")
    names = [feature.name for feature in features]
    recipe = recipe_of(folder, manifest)
    if recipe.preprocessing_fn is not None:
        raise DataError(
            f"{folder}: found a preprocessing_fn, which needs TensorFlow. Take the serving graph, "
            "transform_graph/transform_fn."
        )
    raw_schema = parse_schema(read(RAW_SCHEMA), f"{folder}/{RAW_SCHEMA}")
    plan = fitted_encodings(read, folder, manifest, recipe, raw_schema)
    chains, used = needed(plan, names)
    plan = dataclasses.replace(
        plan,
        columns=pa.schema([field for field in plan.columns if field.name in used]),
        chains=tuple(chains),
        written=tuple(names),
    )
    types = ColumnTypes(
        manifest.columns, {name: source.columns for name, source in manifest.sources.items()}
    )
    request = functools.partial(plan_request, recipe, types, plan.columns, folder)
    timed = (join.source for join in recipe.join if join.timed and join.adds_columns)
    raw = raw_features(raw_schema, plan.columns)
    fitted = FittedPlan(plan, raw, request, tuple(dict.fromkeys(timed)))
    return fitted, features


def fitted_encodings(
    read: Callable[[str], bytes],
    folder: str,
    manifest: Manifest,
    recipe: Recipe,
    raw_schema: schema_pb2.Schema,
) -> EncodePlan:
    """Returns all encodings of a dataset, with their fitted values.

    Args:
      read: reads a file of the dataset by its path in it.
      folder: of the dataset, for messages.
      manifest: of the dataset.
      recipe: of the dataset.
      raw_schema: of its columns.

    Raises:
      DataError: the manifest or the encodings are damaged.
    """
    columns = _columns(manifest, raw_schema)
    try:
        plan = plan_encode(recipe, columns, _sizes(manifest, recipe))
        if not plan.is_fitted:
            fitted = decode_encodings(
                lambda name: read(f"{ENCODINGS}/{name}"), f"{folder}/{ENCODINGS}/{FILE_NAME}"
            )
            plan = with_fitted(plan, fitted)
        return plan
    except (RecipeProblems, KeyError) as error:
        raise DataError(
            f"{folder}: found encodings that this version does not make from the recipe in "
            f"{MANIFEST} ({error}). Convert again with --overwrite."
        ) from error


def recipe_of(folder: str, manifest: Manifest) -> Recipe:
    """Returns the recipe of a dataset.

    Raises:
      DataError: this version does not read it.
    """
    try:
        return from_normalised(manifest.recipe, manifest.directory)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{folder}/{MANIFEST}: found no recipe that this version reads ({error!r}). Convert "
            "again with --overwrite."
        ) from error


def _columns(manifest: Manifest, schema: schema_pb2.Schema) -> pa.Schema:
    """Returns the columns before encoding; lists have the schema's shapes."""
    shapes = {feature.name: feature.shape.dim for feature in schema.feature}
    fields = []
    for name, type_ in manifest.columns.items():
        field = pa.field(name, parse_type(type_))
        if pa.types.is_list(field.type) and (shape := shapes.get(name)):
            field = with_shape(field, tuple(dim.size for dim in shape))
        fields.append(field)
    return pa.schema(fields)


def _sizes(manifest: Manifest, recipe: Recipe) -> dict[str, int]:
    """Returns the number of ids of columns whose source names the classes."""
    sizes = {}
    prefixes = {recipe.base: ("",)} | {
        name: tuple(join.prefix or "" for join in recipe.join if join.source == name)
        for name in recipe.sources
        if name != recipe.base
    }
    for name, source in manifest.sources.items():
        for column, labels in source.labels.items():
            for prefix in prefixes.get(name, ()):
                sizes[recipe.rename.get(prefix + column, prefix + column)] = len(labels)
    return sizes
