"""Types of BigQuery, as its Storage Read API gives them in Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from beam_pipelines_plugins.databases.database import Column

# Both names of a type: of SQL, and of the REST interface.
_PLAIN: dict[str, pa.DataType] = {
    **dict.fromkeys(("INTEGER", "INT64"), pa.int64()),
    **dict.fromkeys(("FLOAT", "FLOAT64"), pa.float64()),
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    **dict.fromkeys(("STRING", "JSON", "GEOGRAPHY"), pa.string()),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("NUMERIC", "DECIMAL"), pa.decimal128(38, 9)),
    **dict.fromkeys(("BIGNUMERIC", "BIGDECIMAL"), pa.decimal256(76, 38)),
}
_STRUCTS = ("RECORD", "STRUCT")
_REPEATED = "REPEATED"


def column_of(field: Any, declared: str | None) -> Column:
    """Returns how a column is read.

    Args:
      field: of the table's schema, with ``name``, ``field_type``, ``mode`` and ``fields``.
      declared: the recipe's type, or ``None``.
    """
    stored, column = _type_of(field), f"q.`{field.name}`"
    kind = field.field_type.lower()
    kind = f"array of {kind}" if field.mode == _REPEATED else kind
    is_decimal = stored is not None and pa.types.is_decimal(stored)
    if declared == "text" and (stored is None or is_decimal):
        is_scalar = field.mode != _REPEATED and field.field_type not in _STRUCTS
        text = f"CAST({column} AS STRING)" if is_scalar else f"TO_JSON_STRING({column})"
        return Column(field.name, kind, text, pa.string())
    return Column(field.name, kind, column, stored, stored if is_decimal else None)


def _type_of(field: Any) -> pa.DataType | None:
    """Returns the Arrow type of a field, or ``None``."""
    if field.field_type in _STRUCTS:
        parts = [(part.name, _type_of(part)) for part in field.fields]
        own = None if any(type_ is None for _, type_ in parts) else pa.struct(parts)
    else:
        own = _PLAIN.get(field.field_type)
    return pa.list_(own) if own is not None and field.mode == _REPEATED else own
