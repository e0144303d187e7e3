"""PostgreSQL's types: how each column is read without loss."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines_plugins.databases.database import Column

# Type -> how it is read, where a cast says it: (SQL type, Arrow type).
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
# Read as their texts: fixed lengths lose their padding, as everywhere in PostgreSQL.
_AS_TEXT = ("bpchar", "name", "char", "uuid", "json", "jsonb")
_INFINITE = ("date", "timestamp", "timestamptz")
# The last time in microseconds from 1970. The driver turns later ones into times before it.
_STAMPS, _LAST = ("timestamp", "timestamptz"), "294247-01-10 04:00:54.775807"
# Digits of a numeric that every int64 holds.
_INT64_DIGITS = 18
# A numeric without precision may have any digits; the plan says that they are rounded.
_ANY_DECIMAL = pa.decimal128(38, 19)
# A cast to float8 refuses numbers from 2^1024 - 2^970 on, and those that 2^-1075 or less is
# between and 0; NaN is larger than all numbers. Most numbers are found good by two comparisons.
_FAR = "{0} NOT BETWEEN 1e-300 AND 1e300 AND {0} NOT BETWEEN -1e300 AND -1e-300"
_LARGE = "abs({0}) >= 1.7976931348623158e308 AND {0}::text NOT IN ('NaN', 'Infinity', '-Infinity')"
_SMALL = "{0} <> 0 AND abs({0}) < 2.4703282292062328e-324"
_BEYOND = f"({_FAR} AND ({_LARGE} OR {_SMALL}))"
_GUARDED = "a number that is too large for float64, or too near to 0"
# Digits before and after the point that no such number has.
_FLOAT64_DIGITS = (308, 323)


def column_of(name: str, quoted: str, kind: str, typmod: int, declared: str | None) -> Column:
    """Returns how a column is read.

    Args:
      name: of the column.
      quoted: the same as SQL.
      kind: its type: ``int4``, ``_int4`` of an array, ``enum mood``.
      typmod: precision and scale of a numeric; -1: none.
      declared: the recipe's type, or ``None``.
    """
    column = f"q.{quoted}"
    item = _item_of(kind)
    if declared == "text" and (item is not None or _is_text_of_server(kind)):
        return Column(name, kind, f"{column}::text", pa.string())
    if item is not None:
        return _array(name, column, kind, item, typmod, declared)
    cast, stored, found = _scalar(kind, typmod, declared)
    guard, guarded = "", ""
    if kind in _INFINITE:
        guard, guarded = f"NOT isfinite({column})", "infinity"
    if kind in _STAMPS:
        guard, guarded = f"({guard} OR {column} > '{_LAST}')", f"infinity, or a time after {_LAST}"
    if stored == pa.int64() and kind == "numeric":
        guard, guarded = f"{column} = 'NaN'", "NaN"
    if _may_be_beyond(kind, stored, typmod):
        guard, guarded = _BEYOND.format(column), _GUARDED
    # A guarded value is not converted, as the server would refuse it without a row.
    expression = f"{column}{cast}"
    if guard and cast:
        expression = f"CASE WHEN {guard} THEN NULL ELSE {expression} END"
    return Column(name, kind, expression, stored, found, guard, guarded)


def _is_text_of_server(kind: str) -> bool:
    """Whether the server, not Arrow, makes a declared text of a type."""
    return kind not in _PLAIN or kind in _INFINITE


def _array(
    name: str, column: str, kind: str, item: str, typmod: int, declared: str | None
) -> Column:
    declared_item = _item_of_list(declared)
    cast, stored, found = _scalar(item, typmod, declared_item)
    if declared_item == "text" and _is_text_of_server(item):
        cast, stored, found, item = "::text", pa.string(), None, "text"
    if stored is None:
        return Column(name, kind, column, None)
    # 'NaN'::numeric::int8 would be refused without a row.
    if item == "numeric" and stored == pa.int64():
        cast, stored, found = "::text", pa.string(), None
    guards = [f"array_ndims({column}) > 1", f"array_lower({column}, 1) NOT IN (0, 1)"]
    guarded = "an array of several dimensions, or one that does not begin at 1"
    if item in _INFINITE:
        endless = "'infinity', '-infinity'"
        guards += [f"{column} && ARRAY[{endless}]::{item}[]"]
        guarded += ", or infinity"
    if item in _STAMPS:
        guards += [f"'{_LAST}' < ANY ({column})"]
        guarded += f", or a time after {_LAST}"
    if _may_be_beyond(item, stored, typmod):
        guards += [f"EXISTS (SELECT FROM unnest({column}) AS n WHERE {_BEYOND.format('n')})"]
        guarded += f", or {_GUARDED}"
    guard = " OR ".join(guards)
    value = f"{column}{cast}[]" if cast else column
    expression = f"CASE WHEN {guard} THEN NULL ELSE {value} END"
    return Column(
        name, kind, expression, pa.list_(stored), found and pa.list_(found), f"({guard})", guarded
    )


def _scalar(
    kind: str, typmod: int, declared: str | None
) -> tuple[str, pa.DataType | None, pa.DataType | None]:
    """Returns a type's cast, and the Arrow types after and before it."""
    if kind == "numeric":
        precision, scale = _digits(typmod)
        if declared is not None:
            return "::text", pa.string(), None
        if scale == 0 and 0 < precision <= _INT64_DIGITS:
            return "::int8", pa.int64(), None
        return "::float8", pa.float64(), _ANY_DECIMAL
    if kind == "oid":
        return "::int8", pa.int64(), None
    if kind in _AS_TEXT or kind.startswith("enum "):
        return "::text", pa.string(), None
    return "", _PLAIN.get(kind), None


def _digits(typmod: int) -> tuple[int, int]:
    """Returns precision and scale of a numeric; (0, 0): any.

    The scale has 11 bits with a sign.
    """
    if typmod <= 4:
        return 0, 0
    return (typmod - 4) >> 16, (((typmod - 4) & 0x7FF) ^ 0x400) - 0x400


def _may_be_beyond(kind: str, stored: pa.DataType | None, typmod: int) -> bool:
    """Whether a numeric that is read as float64 may be beyond it."""
    if kind != "numeric" or stored != pa.float64():
        return False
    precision, scale = _digits(typmod)
    most_before, most_after = _FLOAT64_DIGITS
    return not precision or precision - scale > most_before or scale > most_after


def _item_of(kind: str) -> str | None:
    """Returns the type of an array's items, or ``None``."""
    if kind.endswith("[]"):
        return kind.removesuffix("[]")
    return kind[1:] if kind.startswith("_") else None


def _item_of_list(declared: str | None) -> str | None:
    return declared and declared.removeprefix("list<").removesuffix(">")
