"""Types of MariaDB and MySQL: how each column is read without loss.

The server sends values as texts. A text is cast to the type of its column by Arrow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines_plugins.databases.database import TableColumn, guarded

# Numbers of the protocol.
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint", 13: "year"}
_FLOAT, _DOUBLE, _BIGINT, _YEAR = 4, 5, 8, 13
_DECIMALS = (0, 246)
_NULL, _DATE, _TIME, _BIT, _JSON, _GEOMETRY = 6, 10, 11, 16, 245, 255
_STAMPS = {7: "timestamp", 12: "datetime"}
_TEXTS = {15: "varchar", 249: "text", 250: "text", 251: "text", 252: "text", 253: "varchar"}
_TEXTS[254] = "char"
_UNSIGNED, _ENUM, _SET = 32, 256, 2048
# The character set of bytes, and a number of decimals: as many as there are.
_BINARY, _ANY_DECIMALS = 63, 31
# Digits of a decimal that every int64 holds.
_INT64_DIGITS = 18
_LARGEST = (1 << 63) - 1
# A decimal may have more digits; the plan says that they are rounded.
_ANY_DECIMAL = pa.decimal128(38, 19)


class Field(NamedTuple):
    """A column as the server describes it.

    Attributes:
      name: of the column.
      code: number of its type.
      charset: number of its character set.
      flags: bits; some say more of the type.
      length: most bytes of a value's text.
      decimals: digits after the point.
    """

    name: str
    code: int
    charset: int
    flags: int
    length: int
    decimals: int


def fields_of(cursor: Any) -> list[Field]:
    """Returns the columns of a cursor's result."""
    # DB-API's description has neither signs nor character sets.
    return [
        Field(field.name, field.type_code, field.charsetnr, field.flags, field.length, field.scale)
        for field in cursor._result.fields  # noqa: SLF001
    ]


def kind_of(field: Field) -> str:
    """Returns the name of a column's type, such as ``bigint unsigned``."""
    code = field.code
    if code in _INTEGERS:
        is_unsigned = field.flags & _UNSIGNED and code != _YEAR
        return f"{_INTEGERS[code]} unsigned" if is_unsigned else _INTEGERS[code]
    if code in _TEXTS:
        if field.charset == _BINARY:
            return "blob"
        flag = field.flags & (_ENUM | _SET)
        return {_ENUM: "enum", _SET: "set"}.get(flag, _TEXTS[code])
    if code in _DECIMALS:
        return f"decimal({_digits(field)},{field.decimals})"
    names = {_FLOAT: "float", _DOUBLE: "double", _NULL: "null", _DATE: "date", _TIME: "time"}
    names |= {_BIT: "bit", _JSON: "json", _GEOMETRY: "geometry", **_STAMPS}
    return names.get(code, f"type {code}")


def column_of(field: Field, quoted: str, declared: str | None) -> TableColumn:
    """Returns how a column is read.

    Args:
      field: the column.
      quoted: its name as SQL.
      declared: the recipe's type, or ``None``.
    """
    name, code, kind, column = field.name, field.code, kind_of(field), f"q.{quoted}"
    is_text = declared == "text"
    if code in (_DATE, _TIME, *_STAMPS):
        return _of_calendar(field, kind, column, is_text)
    if code == _BIT or (code == _BIGINT and field.flags & _UNSIGNED):
        return _of_64_bits(field, kind, column, is_text)
    if code in _DECIMALS and declared is None:
        is_whole = field.decimals == 0 and _digits(field) <= _INT64_DIGITS
        stored, found = (pa.int64(), None) if is_whole else (pa.float64(), _ANY_DECIMAL)
        return TableColumn(name, kind, column, stored, found)
    if code == _FLOAT or (code == _DOUBLE and field.decimals != _ANY_DECIMALS):
        # A float would come with six digits.
        stored = pa.float32() if code == _FLOAT else pa.float64()
        return TableColumn(name, kind, f"{column} * 1E0", stored)
    if is_text and received_type(field) is None:
        text = f"ST_AsText({column})" if code == _GEOMETRY else f"CAST({column} AS CHAR)"
        return TableColumn(name, kind, text, pa.string())
    return TableColumn(name, kind, column, received_type(field))


def _of_64_bits(field: Field, kind: str, column: str, is_text: bool) -> TableColumn:
    """Returns how an integer is read that may be too large."""
    # The server sends bits as bytes.
    number = f"({column} + 0)" if field.code == _BIT else column
    if is_text:
        return TableColumn(field.name, kind, f"CAST({number} AS CHAR)", pa.string())
    guard, words = f"{column} > {_LARGEST}", f"an integer above {_LARGEST}"
    return guarded(field.name, kind, number, pa.int64(), guard, words)


def _of_calendar(field: Field, kind: str, column: str, is_text: bool) -> TableColumn:
    """Returns how a date, a time or both are read."""
    if is_text:
        return TableColumn(field.name, kind, f"CAST({column} AS CHAR)", pa.string())
    if field.code == _TIME:
        guard = f"({column} < '00:00:00' OR {column} >= '24:00:00')"
        words = "a time below 0 or of 24 hours or more"
        return guarded(field.name, kind, column, pa.time64("us"), guard, words)
    zoned = pa.timestamp("us", "UTC")
    stored = zoned if kind == "timestamp" else received_type(field)
    # Zeros, and the last days of longer months, which the server may keep.
    guard = (
        f"(MONTH({column}) = 0 OR DAYOFMONTH({column}) = 0 "
        f"OR DAYOFMONTH({column}) > DAYOFMONTH(LAST_DAY({column})))"
    )
    return guarded(field.name, kind, column, stored, guard, "a day that no calendar has")


def received_type(field: Field) -> pa.DataType | None:
    """Returns the Arrow type of a column's texts, or ``None``."""
    code = field.code
    if code in _INTEGERS:
        return pa.int64()
    if code in (_JSON, _NULL, *_DECIMALS):
        return pa.string()
    if code in _TEXTS:
        return pa.binary() if field.charset == _BINARY else pa.string()
    known = {_DOUBLE: pa.float64(), _DATE: pa.date32(), _TIME: pa.time64("us")}
    return known.get(code, pa.timestamp("us") if code in _STAMPS else None)


def received(values: tuple[bytes | None, ...], field: Field) -> pa.Array:
    """Returns a column's values, which the server sent as texts.

    Raises:
      pyarrow.ArrowException: a text is not of the type.
    """
    array, type_ = pa.array(values, pa.binary()), received_type(field)
    if type_ is None or type_ == pa.binary():
        return array
    text = pc.cast(array, pa.string())
    if pa.types.is_time(type_):
        # Arrow reads no text as a time.
        text = pc.binary_join_element_wise("1970-01-01", text, " ")
        return pc.cast(pc.cast(text, pa.timestamp("us")), type_)
    return text if type_ == pa.string() else pc.cast(text, type_)


def _digits(field: Field) -> int:
    """Returns the precision of a decimal, whose length has sign and point."""
    return field.length - (field.decimals > 0) - (not field.flags & _UNSIGNED)
