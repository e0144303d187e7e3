"""Infers a schema from statistics by TFDV's rules; reads and writes schemas."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.texts import are_integers, true_and_false
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import FeatureView, view_of_column
from beam_pipelines.core.arrow.columns import shape_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout import schema_features
from beam_pipelines.files.beam import files

# TFDV's default (validation_api.infer_schema).
MAX_STRING_DOMAIN_SIZE = 100


def infer_schema(statistics: Mapping[str, TableStatistics]) -> schema_pb2.Schema:
    """Infers the schema of all splits together, by TFDV's rules.

    SchemaGen infers from the first split and widens by the others. Here all splits count alike:
    presence and valency are the same, and the order of splits does not matter. The statistics have
    no anomalies against the schema.

    Args:
      statistics: split name -> statistics. Splits without rows are ignored. A column that a split
        lacks is missing in all of its rows.

    Returns:
      The schema, with features in the splits' order. A feature that has the same number of values
      in every row has a ``shape`` and is parsed as a dense tensor; others are parsed as sparse
      tensors.
    """
    tables = [table for table in statistics.values() if table.rows] or [*statistics.values()]
    schema = schema_pb2.Schema()
    infer_features(
        dict.fromkeys(name for table in tables for name in table.columns), tables, schema
    )
    return schema


def with_shapes(schema: schema_pb2.Schema, columns: pa.Schema) -> schema_pb2.Schema:
    """Replaces one-dimensional shapes of features by their columns' shapes.

    A shape is replaced if its size is that of the column's shape.

    Changes and returns ``schema``. A feature that may be missing keeps no shape, because it cannot
    be parsed as a dense tensor.
    """
    known = {field.name: shape for field in columns if (shape := shape_of(field)) is not None}
    for feature in schema.feature:
        shape = known.get(feature.name)
        if (
            shape
            and feature.HasField("shape")
            and [dim.size for dim in feature.shape.dim] == [math.prod(shape)]
        ):
            del feature.shape.dim[:]
            for size in shape:
                feature.shape.dim.add(size=size)
    return schema


def infer_features(
    names: Iterable[str], tables: Sequence[TableStatistics], schema: schema_pb2.Schema
) -> None:
    """Adds features of columns and their string domains to a schema.

    See ``infer_schema``.
    """
    taken = set(schema_features.domains_of(schema))
    for name in names:
        feature, values = _infer_feature(name, tables, schema)
        if values:
            feature.domain = _free_name(name, taken)
            schema.string_domain.add(name=feature.domain, value=values)
            taken.add(feature.domain)


def _infer_feature(
    name: str, tables: Sequence[TableStatistics], schema: schema_pb2.Schema
) -> tuple[schema_pb2.Feature, list[str]]:
    """Adds a column's feature to a schema.

    Returns the feature, and the values of its string domain if it needs one.
    """
    known = (table.columns[name] for table in tables if name in table.columns)
    columns = [view_of_column(name, column) for column in known]
    filled = [column for column in columns if column.column.present]
    first = (filled or columns)[0]
    feature = schema_features.add_feature(schema, first.path)
    feature.type = schema_features.TYPE_FOR_STATISTICS_TYPE[first.type]
    feature.presence.min_count = int(len(filled) == len(tables))
    if not filled:
        return feature, []
    if len(columns) == len(tables) and not any(column.column.missing for column in columns):
        feature.presence.min_fraction = 1.0
    _infer_valency(feature, filled)
    counted = [column for column in filled if column.num_values and column.column.is_counted]
    return feature, _infer_domain(feature, counted)


def read_schema(path: str) -> schema_pb2.Schema:
    """Reads a schema in protobuf's text format.

    Raises:
      DataError: the file cannot be read or is no schema; the message names the line.
    """
    data = files.read_document(path)
    schema = schema_features.parse_schema(data, path)
    for name, count in schema_features.duplicates(schema):
        raise DataError(
            f"{path}: found feature '{name}' {count} times, expected it once. Remove the others."
        )
    return schema


def schema_to_text(schema: schema_pb2.Schema) -> bytes:
    """Returns a schema in protobuf's text format, as UTF-8."""
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text.encode()


def _infer_valency(feature: schema_pb2.Feature, columns: Sequence[FeatureView]) -> None:
    """Sets ``shape`` or ``value_count``.

    Lists of lists get ``value_counts``, one for each level.
    """
    depth = max(len(column.levels) for column in columns)
    bounds = []
    for level in range(depth):
        levels = [column.levels[level] for column in columns if level < len(column.levels)]
        bounds.append(
            (min(found.min_values for found in levels), max(found.max_values for found in levels))
        )
    missing = any(level.missing for column in columns for level in column.levels)
    is_required = feature.presence.min_fraction == 1.0 and not missing
    if is_required and all(fewest == most > 0 for fewest, most in bounds):
        for fewest, _ in bounds:
            feature.shape.dim.add(size=fewest)
    elif depth > 1:
        for fewest, most in bounds:
            _set_value_count(feature.value_counts.value_count.add(), fewest, most)
    elif bounds[0][0] > 0:
        _set_value_count(feature.value_count, *bounds[0])


def _set_value_count(count: schema_pb2.ValueCount, fewest: int, most: int) -> None:
    if fewest > 0:
        count.min = fewest if fewest == most else 1
    if fewest == most > 0:
        count.max = most


def _infer_domain(feature: schema_pb2.Feature, columns: Sequence[FeatureView]) -> list[str]:
    """Sets the first fitting domain, or returns a string domain's values.

    Numbers get no bounds.
    """
    texts = [column.strings for column in columns if column.strings is not None]
    if texts:
        return _infer_text_domain(feature, texts)
    if columns and feature.type == schema_pb2.INT and _is_boolean(columns):
        feature.bool_domain.SetInParent()
    return []


def _is_boolean(columns: Sequence[FeatureView]) -> bool:
    least, most = (
        min(column.numbers.minimum or 0 for column in columns),
        max(column.numbers.maximum or 0 for column in columns),
    )
    return least >= 0 and most == 1


def _infer_text_domain(feature: schema_pb2.Feature, texts: Sequence[TextStatistics]) -> list[str]:
    if not all(text.exact for text in texts):
        return []
    values = _few_values(texts)
    truth = true_and_false(values) if values else None
    if truth is not None:
        if truth[0] is not None:
            feature.bool_domain.true_value = truth[0]
        if truth[1] is not None:
            feature.bool_domain.false_value = truth[1]
    elif all(_all_integers(text.values) for text in texts):
        feature.int_domain.SetInParent()
    else:
        return values
    return []


def _all_integers(values: pa.Array) -> bool:
    few = values.slice(0, MAX_STRING_DOMAIN_SIZE)  # cheap, and usually decides
    return bool(are_integers(few).all() and are_integers(values).all())


def _free_name(name: str, taken: Collection[str]) -> str:
    """Returns a free name for a feature's string domain.

    It is the feature's name, with a number from 2 if that is taken.
    """
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free


def _few_values(texts: Sequence[TextStatistics]) -> list[str]:
    """Returns the distinct values for a string domain, sorted.

    Returns none if there are too many for a string domain.
    """
    if max(len(text.values) for text in texts) > MAX_STRING_DOMAIN_SIZE:
        return []
    values = {value for text in texts for value in text.values.to_pylist()}
    return sorted(values) if len(values) <= MAX_STRING_DOMAIN_SIZE else []
