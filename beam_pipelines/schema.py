"""The schema: inferred from statistics by TFDV's rules, adapted to what encodings write, read and written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines import files
from beam_pipelines.errors import DataError
from beam_pipelines.statistics.proto import feature_type
from beam_pipelines.statistics.table import ColumnStatistics, TableStatistics, value_type
from beam_pipelines.statistics.text import TextStatistics

# TFDV's default (validation_api.infer_schema).
MAX_STRING_DOMAIN_SIZE = 100
# TFDV's (bool_domain_util.cc), the empty string included.
_TRUE_VALUES = frozenset(("TRUE", "true", "SET", "set", "1", ""))
_FALSE_VALUES = frozenset(("FALSE", "false", "CLEAR", "clear", "0"))
_INTEGER_TEXT = r"^\s*[+-]?[0-9]{1,18}\s*$"

# Types in statistics (INT, FLOAT, STRING, BYTES) to types in schemas.
_TYPE_FOR_STATISTICS_TYPE = {0: schema_pb2.INT, 1: schema_pb2.FLOAT, 2: schema_pb2.BYTES, 3: schema_pb2.BYTES}


def infer_schema(statistics: Mapping[str, TableStatistics]) -> schema_pb2.Schema:
    """Infers the schema of all splits together, by TFDV's rules.

    SchemaGen infers from the first split and widens by the others; here all are looked at at once, with the same result for
    presence and valency, and without an order to depend on. The schema never flags the statistics it was inferred from.

    Args:
      statistics: split name -> statistics; all with the same columns. Splits without rows have no say.

    Returns:
      Features in the table's order. A feature that is present everywhere with always the same number of values has a
      ``shape``, so that it is parsed as a dense tensor; others are parsed as sparse ones.
    """
    tables = [table for table in statistics.values() if table.rows] or list(statistics.values())
    schema = schema_pb2.Schema()
    for name in tables[0].columns:
        columns = [table.columns[name] for table in tables]
        feature = schema.feature.add(name=name, type=schema_type(columns[0].type))
        _infer_presence(feature, columns)
        _infer_valency(feature, columns)
        _infer_domain(feature, columns, schema)
    return schema


def encoded_schema(schema: schema_pb2.Schema, types: Mapping[str, pa.DataType]) -> schema_pb2.Schema:
    """Returns the schema of written features, where encodings changed the types of some.

    Args:
      schema: of the columns before encoding.
      types: feature name -> type after encoding, for the features that an encoding changed.

    Returns:
      A copy; a changed feature has its new type, keeps presence and valency, and has lost its domain.
    """
    encoded = schema_pb2.Schema()
    encoded.CopyFrom(schema)
    for feature in encoded.feature:
        if feature.name in types:
            feature.type = schema_type(types[feature.name])
            kind = feature.WhichOneof("domain_info")
            if kind is not None:
                feature.ClearField(kind)
    used = {feature.domain for feature in encoded.feature if feature.HasField("domain")}
    domains = [domain for domain in encoded.string_domain if domain.name in used]
    del encoded.string_domain[:]
    encoded.string_domain.extend(domains)
    return encoded


def schema_type(column_type: pa.DataType) -> schema_pb2.FeatureType:
    """Returns the feature type that a column is written as: INT, FLOAT or BYTES."""
    return _TYPE_FOR_STATISTICS_TYPE[feature_type(column_type)]


def read_schema(path: str) -> schema_pb2.Schema:
    """Reads a schema in protobuf's text format.

    Raises:
      DataError: the file cannot be read, or is no schema; the message has the line.
    """
    data = files.read_bytes(path)
    try:
        schema: schema_pb2.Schema = text_format.Parse(data.decode(), schema_pb2.Schema())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, byte {error.start}: found invalid UTF-8, expected a schema as text (.pbtxt)"
        ) from error
    except text_format.ParseError as error:
        line = f", line {error.GetLine()}" if error.GetLine() else ""
        raise DataError(
            f"{path}{line}: found text that is no schema ({_without_place(error)}), expected a tensorflow_metadata Schema in "
            "text format. Correct it, or leave out 'schema:' to have one inferred."
        ) from error
    names = [feature.name for feature in schema.feature]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{path}: found feature '{name}' {names.count(name)} times, expected it once. Remove the others."
            )
    return schema


def schema_to_text(schema: schema_pb2.Schema) -> bytes:
    """Returns a schema in protobuf's text format, UTF-8; the same bytes for equal schemas."""
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text.encode()


def write_schema(path: str, schema: schema_pb2.Schema) -> None:
    """Writes a schema in protobuf's text format."""
    files.write_bytes(path, schema_to_text(schema))


def true_and_false(values: Sequence[str]) -> tuple[str | None, str | None] | None:
    """Returns which of one or two texts means true and which false, or ``None`` if they are not a pair of truth values."""
    trues = [value for value in values if value in _TRUE_VALUES]
    falses = [value for value in values if value in _FALSE_VALUES]
    if not values or len(trues) > 1 or len(falses) > 1 or len(trues) + len(falses) != len(values):
        return None
    return (trues[0] if trues else None), (falses[0] if falses else None)


def all_integers(values: pa.Array) -> bool:
    """Whether all of at least one text are integers of at most 18 digits."""
    few = values.slice(0, MAX_STRING_DOMAIN_SIZE)  # mostly settles it
    return bool(len(values)) and all(
        pc.all(pc.match_substring_regex(some, _INTEGER_TEXT)).as_py() for some in (few, values)
    )


def _infer_presence(feature: schema_pb2.Feature, columns: Sequence[ColumnStatistics]) -> None:
    feature.presence.min_count = int(all(column.present for column in columns))
    if feature.presence.min_count and not any(column.missing for column in columns):
        feature.presence.min_fraction = 1.0


def _infer_valency(feature: schema_pb2.Feature, columns: Sequence[ColumnStatistics]) -> None:
    filled = [column for column in columns if column.present]
    if not filled:
        return
    fewest = min(column.min_values for column in filled)
    most = max(column.max_values for column in filled)
    if fewest == 0:
        return
    if fewest < most:
        feature.value_count.min = 1
    elif feature.presence.min_fraction == 1.0:
        feature.shape.dim.add(size=fewest)
    else:
        feature.value_count.min = feature.value_count.max = fewest


def _infer_domain(feature: schema_pb2.Feature, columns: Sequence[ColumnStatistics], schema: schema_pb2.Schema) -> None:
    filled = [column for column in columns if column.num_values]
    if not filled:
        return
    if pa.types.is_string(value_type(filled[0].type)):
        _infer_text_domain(feature, [c.values for c in filled if isinstance(c.values, TextStatistics)], schema)
    elif feature.type == schema_pb2.INT:
        numbers = [column.values for column in filled if not isinstance(column.values, TextStatistics)]
        if min(n.minimum or 0 for n in numbers) >= 0 and max(n.maximum or 0 for n in numbers) == 1:
            feature.bool_domain.SetInParent()


def _infer_text_domain(feature: schema_pb2.Feature, texts: Sequence[TextStatistics], schema: schema_pb2.Schema) -> None:
    if not all(text.exact for text in texts):
        return
    values = _few_values(texts)
    truth = true_and_false(values) if values else None
    if truth is not None:
        if truth[0] is not None:
            feature.bool_domain.true_value = truth[0]
        if truth[1] is not None:
            feature.bool_domain.false_value = truth[1]
    elif all(all_integers(text.values) for text in texts):
        feature.int_domain.SetInParent()
    elif values:
        feature.domain = feature.name
        schema.string_domain.add(name=feature.name, value=values)


def _few_values(texts: Sequence[TextStatistics]) -> list[str]:
    """Returns all distinct values, sorted; nothing if there are more than a string domain may have."""
    if max(len(text.values) for text in texts) > MAX_STRING_DOMAIN_SIZE:
        return []
    values = {value for text in texts for value in text.values.to_pylist()}
    return sorted(values) if len(values) <= MAX_STRING_DOMAIN_SIZE else []


def _without_place(error: text_format.ParseError) -> str:
    """Returns protobuf's complaint without the leading ``line:column : ``."""
    return str(error).split(" : ", 1)[-1]
