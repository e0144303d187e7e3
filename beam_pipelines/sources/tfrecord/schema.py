"""The TFMD schema of a TFRecord source, and errors of records."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import Shape
from beam_pipelines.core.errors import DataError, RecipeProblems, nearest
from beam_pipelines.core.layout.dataset_layout import EXAMPLES, MANIFEST, split_folder
from beam_pipelines.core.layout.manifest import parse_manifest
from beam_pipelines.core.layout.schema_features import (
    feature_lists_of,
    features_of,
    has_one_value,
    parse_schema,
)
from beam_pipelines.files.beam import files, listing
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.recipe.values import read_text
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import problem

_SPLITS = "/" + split_folder(EXAMPLES, "")
_TEXT_DOMAINS = ("string_domain", "domain", "natural_language_domain", "url_domain")


@dataclasses.dataclass(frozen=True)
class TFRecordOptions:
    """The key of sources of serialized examples."""

    schema: str | None = recipe_key(
        read_text, None, "that of the dataset, or inferred", "Path of a `tfrecord` source's schema."
    )


def schema_path(source: Source, found: Sequence[FileInfo]) -> str | None:
    """Returns the path of the schema.

    It is the recipe's, or that of the dataset whose shards the files are. ``None``: the schema is
    inferred from the records.

    Raises:
      RecipeProblems: the files are shards of raw records.
    """
    given = source.options_of(TFRecordOptions).schema
    if given is not None:
        return given
    folders = {file.path.rpartition(_SPLITS)[0] for file in found}
    folder = folders.pop()
    manifest_path = files.join(folder, MANIFEST)
    if folders or not folder or not listing.exists(manifest_path):
        return None
    manifest = parse_manifest(files.read_bytes(manifest_path), manifest_path)
    if manifest.record == "raw":
        message = (
            f"{folder} has raw records, which no schema parses. Read them with 'format: "
            "raw_records'."
        )
        raise RecipeProblems([problem(source, "format", message)])
    return files.within(folder, manifest.schema)


def may_be_shards(source: Source) -> bool:
    """Whether a source's paths may name shards, whose dataset has a schema."""
    return any(_SPLITS in path for path in source.path)


def read_schema(source: Source, path: str) -> schema_pb2.Schema:
    """Reads a schema.

    Raises:
      RecipeProblems: it does not exist, is none, or has no features.
    """
    if not listing.exists(path):
        raise RecipeProblems([problem(source, "schema", f"no file '{path}'.")])
    try:
        schema = parse_schema(files.read_document(path), path)
    except DataError as error:
        raise RecipeProblems([problem(source, "schema", str(error))]) from error
    if not features_of(schema):
        raise RecipeProblems([problem(source, "schema", f"{path} has no features.")])
    return schema


def column_types(schema: schema_pb2.Schema, open_lists: Sequence[str] = ()) -> pa.Schema:
    """Returns the columns of a schema's features, then of its feature lists.

    A feature with a shape of one value, or at most one value by ``value_count``, is a scalar; any
    other is a list. A feature list is a list of values if the schema allows at most one in a step,
    else a list of lists. Bytes are text if the schema gives them a domain of strings, language or
    URLs.

    Args:
      schema: of tf.Examples or tf.SequenceExamples.
      open_lists: feature lists that the schema leaves open, and whose sampled records have at most
        one value in a step.
    """
    lists = feature_lists_of(schema)
    context = features_of(schema)[: -len(lists) or None]
    fields = [
        (f.name, _value_type(f) if has_one_value(f) else pa.list_(_value_type(f))) for f in context
    ]
    for feature in lists:
        steps = pa.list_(_value_type(feature))
        is_flat = most_values_a_step(feature) == 1 or feature.name in open_lists
        fields.append((feature.name, steps if is_flat else pa.list_(steps)))
    return pa.schema(fields)


def shapes_of(schema: schema_pb2.Schema, columns: pa.Schema) -> dict[str, Shape]:
    """Returns the multi-dimensional shapes that a schema gives to lists.

    Feature lists with one value in a step have none.
    """
    flat = {
        feature.name for feature in feature_lists_of(schema) if most_values_a_step(feature) == 1
    }
    return {
        feature.name: tuple(dim.size for dim in feature.shape.dim)
        for feature in features_of(schema)
        if len(feature.shape.dim) > 1
        and pa.types.is_list(columns.field(feature.name).type)
        and feature.name not in flat
    }


def most_values_a_step(feature: schema_pb2.Feature) -> int | None:
    """Returns the most values in a feature list's step, or ``None``."""
    if len(feature.shape.dim) > 1:
        return int(feature.shape.dim[1].size)
    counts = feature.value_counts.value_count
    return int(counts[1].max) or None if len(counts) > 1 else None


def _value_type(feature: schema_pb2.Feature) -> pa.DataType:
    type_ = {schema_pb2.INT: pa.int64(), schema_pb2.FLOAT: pa.float32()}.get(
        feature.type, pa.binary()
    )
    is_text = type_ == pa.binary() and any(feature.HasField(domain) for domain in _TEXT_DOMAINS)
    return pa.string() if is_text else type_


# Key of an inferred schema in the metadata of a plan's file schema.
INFERRED = b"beam_pipelines.inferred_schema"

_OTHER_KIND = re.compile(r"found (int64|float|bytes) values, expected (int64|float|bytes)")
_UNEXPECTED, _SEVERAL, _STEP = "that is not expected", "values, expected at most one", "a step of"
_NOT_TEXT = "Invalid UTF8"
_FULL = "infer from every record with 'infer: full' of the source"


def reason(plan: SourcePlan, column: str, message: str) -> str:
    """Returns the error of a bad record.

    Args:
      plan: of the source.
      column: the bad column; empty if the whole record cannot be decoded.
      message: the decoder's.
    """
    if INFERRED not in (plan.file_schema.metadata or {}):
        return (
            f"found an example that does not fit the schema ({message}). Mend the "
            f"record, or {plan.source.options_of(TFRecordOptions).schema}."
        )
    cures = [*_cures(plan, column, message), "mend the record"]
    cures.append("leave such records out with 'on_error: {reject: …}'")
    text = f"{', '.join(cures[:-1])}, or {cures[-1]}."
    return (
        f"found an example unlike those that the types were inferred from ({message}). "
        f"{text[0].upper()}{text[1:]}"
    )


def _cures(plan: SourcePlan, column: str, message: str) -> list[str]:
    """Returns what reads the record, or leaves its column out."""
    if not column:
        return []
    cures: list[str] = []
    key = yaml_text(column)
    if _UNEXPECTED in message:
        known = [field.name for field in plan.file_schema if field.name not in plan.source.types]
        can_declare = "feature list" not in message and not nearest(column, known)
        cures = [_FULL, *([_declare(column)] if can_declare else [])]
    elif column in plan.source.types:
        cures = [f"declare another type with 'types: {{{key}: …}}'"]
    elif _OTHER_KIND.search(message):
        # A feature has one kind. The sample may have had none.
        cures = [_FULL, _declare(column)] if column in plan.null_columns else []
    elif _SEVERAL in message and message.startswith(_STEP):
        # Records, not a declared type, decide how many values a step has.
        cures = [f"{_FULL} (and 'types: {{{key}: list<…>}}' if arrays differ in shape)"]
    elif _SEVERAL in message:
        cures = [_FULL, _declare(column, "list<…>")]
    elif _NOT_TEXT in message:
        is_list = pa.types.is_list(plan.schema.field(column).type)
        cures = [_FULL, _declare(column, "list<bytes>" if is_list else "bytes")]
    return [*cures, "leave the column out with 'columns'"]


def _declare(column: str, type_: str = "…") -> str:
    return f"declare 'types: {{{yaml_text(column)}: {type_}}}'"
