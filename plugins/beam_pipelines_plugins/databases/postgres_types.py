"""PostgreSQL's types: how each column is read without loss."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines_plugins.databases.database import Column, guarded

# Types that the driver reads. All others are read as the server's texts: enums, uuid, json,
# intervals; char(n) loses its padding, as everywhere in PostgreSQL.
_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_INFINITE = ("date", "timestamp", "timestamptz")
# The last time in microseconds from 1970. The driver turns later ones into times before it.
_STAMPS, _LAST = ("timestamp", "timestamptz"), "294247-01-10 04:00:54.775807"
# Digits of a numeric that every int64 holds.
_INT64_DIGITS = 18
# A numeric may have any digits; the plan says that they are rounded.
_ANY_DECIMAL = pa.decimal128(38, 19)


def column_of(name: str, quoted: str, kind: str, typmod: int, declared: str | None) -> Column:
    """Returns how a column is read.

    Args:
      name: of the column.
      quoted: the same as SQL.
      kind: its type: ``int4``, ``_int4`` of an array.
      typmod: precision and scale of a numeric; -1: none.
      declared: the recipe's type, or ``None``.
    """
    column, item = f"q.{quoted}", kind.removeprefix("_")
    is_array = item != kind
    if declared == "text" and (is_array or item in _INFINITE):
        return Column(name, kind, f"{column}::text", pa.string())
    wanted = declared and declared.removeprefix("list<").removesuffix(">")
    cast, stored, found = _scalar(item, typmod, wanted)
    if is_array:
        return _array(name, column, item, cast, stored, found)
    if not cast and kind in _INFINITE:
        guard, words = f"NOT isfinite({column})", "infinity"
        if kind in _STAMPS:
            guard, words = f"({guard} OR {column} > '{_LAST}')", f"{words}, or a time after {_LAST}"
        return Column(name, kind, column, stored, None, guard, words)
    return Column(name, kind, f"{column}{cast}", stored, found)


def _array(
    name: str, column: str, item: str, cast: str, stored: pa.DataType, found: pa.DataType | None
) -> Column:
    guards = [f"array_ndims({column}) > 1", f"array_lower({column}, 1) NOT IN (0, 1)"]
    words = "an array of several dimensions, or one that does not begin at 1"
    if not cast and item in _INFINITE:
        guards += [f"{column} && ARRAY['infinity', '-infinity']::{item}[]"]
        words += ", or infinity"
    if not cast and item in _STAMPS:
        guards += [f"'{_LAST}' < ANY ({column})"]
        words += f", or a time after {_LAST}"
    value, guard = f"{column}{cast and f'{cast}[]'}", f"({' OR '.join(guards)})"
    made = guarded(name, f"_{item}", value, pa.list_(stored), guard, words)
    return made._replace(found=found and pa.list_(found))


def _scalar(
    kind: str, typmod: int, declared: str | None
) -> tuple[str, pa.DataType, pa.DataType | None]:
    """Returns a type's cast, and the Arrow types after and before it."""
    if kind == "numeric" and declared is None:
        # The scale has 11 bits with a sign; typmod is -1 for any precision.
        precision, scale = (typmod - 4) >> 16, (((typmod - 4) & 0x7FF) ^ 0x400) - 0x400
        if typmod > 4 and scale == 0 and precision <= _INT64_DIGITS:
            return "::int8", pa.int64(), None
        return "::float8", pa.float64(), _ANY_DECIMAL
    if kind == "oid":
        return "::int8", pa.int64(), None
    if kind in _PLAIN and not (kind in _INFINITE and declared == "text"):
        return "", _PLAIN[kind], None
    return "::text", pa.string(), None
