"""Finds the parts of a condition that compare a column with constants.

Databases evaluate such comparisons as DuckDB does. So a server can leave rows out that a filter
would leave out, too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.sql.conjuncts import factors
from beam_pipelines.sql.database import cast_target, constant_of
from beam_pipelines.sql.expressions import Expression, tree_of

Constant = int | float | str | datetime.date | datetime.datetime

# Type of a node -> operator, and the operator of swapped sides.
_OPERATORS = {
    "COMPARE_EQUAL": ("=", "="),
    "COMPARE_LESSTHAN": ("<", ">"),
    "COMPARE_GREATERTHAN": (">", "<"),
    "COMPARE_LESSTHANOREQUALTO": ("<=", ">="),
    "COMPARE_GREATERTHANOREQUALTO": (">=", "<="),
}
# Of texts, order is a matter of the server's collation.
_TEXT_OPERATORS = ("=", "IN", "IS NOT NULL")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{3}|\.\d{6})?)?)?")
_DECIMAL = re.compile(r"-?\d*(?:\.\d*)?")
_STAMP_TYPES = ("timestamp", "timestamp with time zone", "timestamptz", "datetime")
# A text that has no character with a meaning in some dialect of SQL.
_PLAIN_TEXT = re.compile(r"[^'\"\\\x00-\x1f\x7f]*")
# DuckDB's decimals of so many digits become the nearest float64, as those of other readers.
_EXACT_DIGITS, _EXACT_INTEGER = 15, 1 << 53
_INT64 = range(-(1 << 63), 1 << 63)


class Comparison(NamedTuple):
    """A comparison that holds in every row that a condition takes.

    Attributes:
      column: its name.
      operator: ``=``, ``<``, ``<=``, ``>``, ``>=``, ``IN`` or ``IS NOT NULL``.
      values: of the column's type; several for ``IN``, none for ``IS NOT NULL``.
    """

    column: str
    operator: str
    values: tuple[Constant, ...] = ()


def comparisons_of(condition: Expression, types: Mapping[str, pa.DataType]) -> list[Comparison]:
    """Returns comparisons that are true for all rows that a condition takes.

    A part of the condition that is no such comparison has none in the result. The condition
    decides about the rows that remain.

    Args:
      condition: such as ``a > 5 AND b IN ('x', 'y')``.
      types: column -> its type; other columns are not compared.
    """
    known = {name.lower(): name for name in condition.columns}
    found = []
    for node in factors(tree_of(condition.sql)):
        for side, operator, constants in _sides(node):
            names = side.get("column_names", ())
            column = known.get(names[0].lower()) if len(names) == 1 else None
            if column is None or column not in types:
                continue
            if pa.types.is_string(types[column]) and operator not in _TEXT_OPERATORS:
                continue
            values = [_constant(constant, types[column]) for constant in constants]
            comparable = tuple(value for value in values if value is not None)
            if len(comparable) == len(values):
                found.append(Comparison(column, operator, comparable))
    return list(dict.fromkeys(found))


def _sides(node: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, list[Any]]]:
    """Yields a node's compared side, its operator, and the other sides."""
    kind = node["type"]
    if kind in _OPERATORS:
        operator, swapped = _OPERATORS[kind]
        yield node["left"], operator, [node["right"]]
        yield node["right"], swapped, [node["left"]]
    elif kind == "COMPARE_BETWEEN":
        yield node["input"], ">=", [node["lower"]]
        yield node["input"], "<=", [node["upper"]]
    elif kind == "COMPARE_IN":
        yield node["children"][0], "IN", node["children"][1:]
    elif kind == "OPERATOR_IS_NOT_NULL":
        yield node["children"][0], "IS NOT NULL", []


def _constant(node: Mapping[str, Any], type_: pa.DataType) -> Constant | None:
    """Returns a constant as a value of a column's type, or ``None``."""
    cast = ""
    if node["type"] == "OPERATOR_CAST" and not node["try_cast"]:
        cast = cast_target(node)
        node = node["child"]
    kind, text = constant_of(node)
    if kind == "STRING":
        return _of_text(text, cast, type_)
    return None if cast else _number(kind, text, type_)


def _number(kind: str, text: str, type_: pa.DataType) -> int | float | None:
    """Returns a number that DuckDB compares with a column, or ``None``."""
    if kind == "INTEGER" and pa.types.is_integer(type_):
        return int(text) if int(text) in _INT64 else None
    if kind == "INTEGER" and type_ == pa.float64():
        return float(text) if abs(int(text)) <= _EXACT_INTEGER else None
    digits = sum(character.isdigit() for character in text)
    is_exact = _DECIMAL.fullmatch(text) is not None and digits <= _EXACT_DIGITS
    return float(text) if kind == "NUMERIC" and type_ == pa.float64() and is_exact else None


def _of_text(text: str, cast: str, type_: pa.DataType) -> Constant | None:
    """Returns a quoted constant in a column's type, or ``None``.

    Args:
      text: of the constant.
      cast: type that the condition casts it to; "": none.
      type_: of the column.
    """
    if pa.types.is_string(type_) and not cast:
        return text if _PLAIN_TEXT.fullmatch(text) else None
    try:
        if pa.types.is_date32(type_) and cast in ("", "date") and _DATE.fullmatch(text):
            return datetime.date.fromisoformat(text)
        pattern = _DATE if cast == "date" else _TIMESTAMP
        is_stamp = pa.types.is_timestamp(type_) and cast in ("", "date", *_STAMP_TYPES)
        return (
            datetime.datetime.fromisoformat(text) if is_stamp and pattern.fullmatch(text) else None
        )
    except ValueError:
        return None
