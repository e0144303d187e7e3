"""Types of Avro's schemas as Arrow's.

Format: https://avro.apache.org/docs/1.12.0/specification/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# (type, logical type) -> type. A logical type that is not here is ignored, as the format says.
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL_128, _DECIMAL_256 = 38, 76
# Schemas of more levels are refused by the limits of a source; this keeps the walk finite.
_MOST_LEVELS = 200


class SchemaError(ValueError):
    """A schema that does not describe a table.

    Attributes:
      cure: what the writer of the file can do.
    """

    def __init__(self, found: str, cure: str) -> None:
        super().__init__(found)
        self.cure = cure


def columns_of(schema: Any, named: Mapping[str, Any]) -> pa.Schema:
    """Returns the columns of a schema.

    Args:
      schema: parsed by fastavro, so that names are full ones.
      named: full name -> its definition.

    Raises:
      SchemaError: it is no record, has a union of several types, or contains itself.
    """
    type_ = _type_of(schema, named, "", ())
    if not pa.types.is_struct(type_):
        raise SchemaError(
            f"found values of {type_}, expected records with fields",
            "Write each value as the field of a record: {type: record, name: Row, fields: [{name: "
            "value, type: …}]}.",
        )
    return pa.schema(list(type_))


def _type_of(
    schema: Any, named: Mapping[str, Any], where: str, within: tuple[str, ...]
) -> pa.DataType:
    if len(within) > _MOST_LEVELS:
        raise SchemaError(
            f"{where}: found more than {_MOST_LEVELS} levels",
            "Write the file with flatter records.",
        )
    if isinstance(schema, list):
        return _union(schema, named, where, within)
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or _of_name(schema, named, where, within)
    kind = schema.get("type")
    inner = (*within, "")
    if kind in ("record", "error"):
        return _record(schema, named, where, within)
    if kind == "array":
        return pa.list_(_type_of(schema["items"], named, where, inner))
    if kind == "map":
        return pa.map_(pa.string(), _type_of(schema["values"], named, where, inner))
    return _scalar(schema, where) or _type_of(kind, named, where, inner)


def _of_name(
    name: str, named: Mapping[str, Any], where: str, within: tuple[str, ...]
) -> pa.DataType:
    if name not in named:
        raise SchemaError(
            f"{where}: found the unknown type '{name}'", "Write the file with its definition."
        )
    _refuse_cycle(name, where, within)
    return _type_of(named[name], named, where, within)


def _refuse_cycle(name: str, where: str, within: tuple[str, ...]) -> None:
    if name in within:
        raise SchemaError(
            f"{where}: found the record '{name}' within itself, whose values may be nested to any "
            "depth, expected a column",
            "Write the field as a text of JSON, or its records as rows with the key of the outer "
            "one.",
        )


def _record(
    schema: Mapping[str, Any], named: Mapping[str, Any], where: str, within: tuple[str, ...]
) -> pa.DataType:
    _refuse_cycle(schema["name"], where, within)
    inner = (*within, schema["name"])
    fields = []
    for field in schema["fields"]:
        place = f"{where}.{field['name']}".lstrip(".")
        fields.append(pa.field(field["name"], _type_of(field["type"], named, place, inner)))
    return pa.struct(fields)


def _scalar(schema: Mapping[str, Any], where: str) -> pa.DataType | None:
    """Returns the type of single values, or ``None``."""
    kind = schema.get("type")
    if kind == "enum":
        return pa.string()
    if kind in ("bytes", "fixed"):
        return _bytes(schema, where)
    if not isinstance(kind, str) or kind not in _PRIMITIVES:
        return None
    return _LOGICAL.get((kind, str(schema.get("logicalType"))), _PRIMITIVES[kind])


def _union(
    schema: list[Any], named: Mapping[str, Any], where: str, within: tuple[str, ...]
) -> pa.DataType:
    kinds = [kind for kind in schema if kind != "null"]
    if len(kinds) == 1:
        return _type_of(kinds[0], named, where, (*within, ""))
    shown = ", ".join(_shown(kind) for kind in schema) or "nothing"
    raise SchemaError(
        f"{where}: found a union of {shown}, expected one type, or one and null"
        if kinds or not schema
        else f"{where}: found a union of null alone",
        "Write the file with another schema: a field for each type, each a union of it and null."
        if kinds
        else "Write the file without the field.",
    )


def _shown(kind: Any) -> str:
    return str(kind.get("name", kind.get("type"))) if isinstance(kind, dict) else str(kind)


def _bytes(schema: Mapping[str, Any], where: str) -> pa.DataType:
    if schema.get("logicalType") != "decimal":
        return pa.binary()
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 < precision <= _DECIMAL_256:
        raise SchemaError(
            f"{where}: found a decimal of {precision} digits, expected 1 to {_DECIMAL_256}",
            "Write the file with fewer digits, or with texts.",
        )
    kind = pa.decimal128 if precision <= _DECIMAL_128 else pa.decimal256
    return kind(precision, scale)


def plain(schema: Any) -> Any:
    """Returns a schema whose values fastavro leaves as they are stored.

    Only decimals become numbers; dates and times stay integers, which Arrow takes.
    """
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    drops = schema.get("logicalType") != "decimal"
    return {
        key: plain(value) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
        if not (drops and key == "logicalType")
    }
