"""SQL conditions of whole columns, computed chunk by chunk.

Each aggregate of a condition is a few values of a chunk, its pieces, and a rule that merges the
pieces of all chunks in order. Sums are exact for whole numbers, and rounded once for others. The
rest of the condition is evaluated once, on the merged values.
"""

from __future__ import annotations

import copy
import decimal
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.sql import database as duck
from beam_pipelines.sql.expressions import Expression, parse_expression, refused_part, statement_of
from beam_pipelines.sql.functions import is_aggregate
from beam_pipelines.sql.sizes import size_of

# Numbers of a chunk that an aggregate is merged of, in order; ``None`` is null.
Piece = tuple[Any, ...]
# Aggregate -> those that its pieces are.
_PIECES: dict[str, tuple[str, ...]] = {
    **{
        name: (name,)
        for name in ("count_star", "count", "count_if", "sum", "min", "max", "bool_and", "bool_or")
    },
    "avg": ("sum", "count"),
}
_SAME = {"countif": "count_if", "mean": "avg"}
_KNOWN = "count, count_if, sum, avg, min, max, bool_and and bool_or"


class Call(NamedTuple):
    """An aggregate of a condition.

    Attributes:
      name: of the function.
      sql: its text.
      pieces: SQL of the pieces of a chunk.
      type: DuckDB's type of its value.
    """

    name: str
    sql: str
    pieces: tuple[str, ...]
    type: str


class Condition(NamedTuple):
    """A checked condition of whole columns.

    Attributes:
      name: of the expectation.
      sql: its text.
      columns: the columns that it needs.
      calls: its aggregates, in order.
      rest: the condition with ``value0``, ``value1``, … in place of the aggregates.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    calls: tuple[Call, ...]
    rest: str


def parse_condition(
    name: str,
    sql: str,
    empty: pa.RecordBatch,
    sizes: Mapping[str, int] = types.MappingProxyType({}),
) -> Condition:
    """Checks a condition of whole columns.

    Args:
      name: of the expectation.
      sql: one SQL condition of aggregates.
      empty: a batch without rows, of the columns that it may use.
      sizes: name of a derived column in lower case -> its expression's size.

    Raises:
      ExpressionError: it cannot be parsed, has no aggregate, one that cannot be merged, or a column
        outside of one, or is no condition.
    """
    statement = statement_of(sql)
    found: list[dict[str, Any]] = []
    tree = statement["statements"][0]["node"]["select_list"][0]
    size_of(tree, sizes)
    rest = _cut(tree, found)
    for node in duck.walk(rest):
        if refused := refused_part(node):
            raise duck.ExpressionError(f"found {refused}; expected a condition of aggregates")
        if node.get("class") == "COLUMN_REF" and not str(node["column_names"][0]).startswith(
            _VALUE
        ):
            column = ".".join(node["column_names"])
            raise duck.ExpressionError(
                f"found column '{column}' outside of an aggregate, expected one such as "
                f"avg({column})"
            )
    if not found:
        raise duck.ExpressionError(
            "found no aggregate, expected one such as avg(x); 'row' has none"
        )
    columns: set[str] = set()
    calls = tuple(_call(statement, node, empty, columns) for node in found)
    condition = Condition(name, sql, tuple(sorted(columns)), calls, duck.sql_of(statement, rest))
    types = _types(_with_values(condition, [None] * len(calls)), {})
    if types[0] not in ("BOOLEAN", '"NULL"'):
        raise duck.ExpressionError(f"found a value of type {types[0]}, expected a condition")
    return condition


def merged_value(call: Call, pieces: Sequence[Piece]) -> Any:
    """Returns the value of an aggregate over chunks; ``None`` is null.

    Args:
      call: the aggregate.
      pieces: of all chunks, in order.
    """
    values = _present(pieces)
    if call.name in ("min", "max"):
        return _extreme(call, values)
    if call.name in ("bool_and", "bool_or"):
        return (all if call.name == "bool_and" else any)(values) if values else None
    return _average(pieces) if call.name == "avg" else _add(values)


def holds(condition: Condition, values: Sequence[Any]) -> bool | None:
    """Whether a condition is true, or ``None`` if it is null.

    Args:
      condition: from ``parse_condition``.
      values: of its aggregates.

    Raises:
      ExpressionError: it has no value.
    """
    ((found,),) = _rows(_with_values(condition, values), {})
    return None if found is None else bool(found)


def select_values(batch: pa.RecordBatch, columns: Sequence[str], sql: Sequence[str]) -> Piece:
    """Returns the values of SQL aggregates over a batch.

    Numbers stay numbers and booleans booleans; decimals, dates and times are texts.

    Raises:
      ExpressionError: one of them has no value.
    """
    inputs = {name: batch.column(name) for name in columns}
    (row,) = _rows(_query(sql), inputs, batch.num_rows)
    return tuple(map(plain_value, row))


def _rows(query: str, inputs: Mapping[str, pa.Array], num_rows: int = 0) -> list[tuple[Any, ...]]:
    # A table without columns has no rows.
    table = pa.table(inputs or {"": pa.nulls(num_rows, pa.int8())})
    with duck.registered(table) as database:
        found: list[tuple[Any, ...]] = database.execute(query).fetchall()
        return found


def _types(query: str, inputs: Mapping[str, pa.Array]) -> list[str]:
    """Returns DuckDB's types of the columns of a query."""
    with duck.registered(pa.table(inputs or {"": pa.nulls(0, pa.int8())})) as database:
        return [str(type_) for type_ in database.sql(query).types]


def _query(sql: Sequence[str]) -> str:
    return f"SELECT {', '.join(sql)} FROM {duck.TABLE}"  # noqa: S608 - SQL is what it is for


def plain_value(value: Any) -> Any:
    """Returns a value of DuckDB or Arrow as JSON data."""
    # DuckDB gives texts for dates that Python has not.
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value) if isinstance(value, decimal.Decimal) else value.isoformat()


def _cut(tree: Any, found: list[dict[str, Any]]) -> Any:
    """Returns a tree with names in place of its aggregates.

    It appends the aggregates to ``found``.
    """
    if isinstance(tree, list):
        return [_cut(item, found) for item in tree]
    if not isinstance(tree, dict):
        return tree
    name = _function(tree) if tree.get("class") == "FUNCTION" else ""
    if name in _PIECES or is_aggregate(name):
        found.append(tree)
        return {
            "class": "COLUMN_REF",
            "type": "COLUMN_REF",
            "alias": "",
            "column_names": [f"{_VALUE}{len(found) - 1}"],
        }
    return {key: _cut(item, found) for key, item in tree.items()}


_VALUE = "\ufdd0value"  # no column's name has this character


def _function(node: Mapping[str, Any]) -> str:
    name = str(node["function_name"]).lower()
    return _SAME.get(name, name)


def _call(
    statement: Mapping[str, Any], node: dict[str, Any], empty: pa.RecordBatch, columns: set[str]
) -> Call:
    name, arguments, sql = _function(node), duck.arguments_of(node), duck.sql_of(statement, node)
    if name not in _PIECES:
        raise duck.ExpressionError(
            f"found the aggregate '{name}', which cannot be merged from parts of the rows, "
            f"expected one of {_KNOWN}"
        )
    if node["distinct"] or (node["order_bys"] or {}).get("orders"):
        raise duck.ExpressionError(
            f"found DISTINCT or ORDER BY in {sql}, which cannot be merged from parts of the rows; "
            "'duplicates: {by: x, action: error}' says whether every value is another one"
        )
    if name != "count_star" and len(arguments) != 1:
        raise duck.ExpressionError(f"found {len(arguments)} arguments of {name}, expected 1")
    inner = [*arguments, *([] if node["filter"] is None else [node["filter"]])]
    parsed_inner = [
        parse_expression(name, duck.sql_of(statement, each), empty.schema.names) for each in inner
    ]
    columns.update(column for each in parsed_inner for column in each.columns)
    pieces = tuple(duck.sql_of(statement, _renamed(node, function)) for function in _PIECES[name])
    return Call(
        name,
        sql.replace("count_star()", "count(*)"),
        pieces,
        _type(name, sql, pieces, parsed_inner, empty),
    )


def _type(
    name: str, sql: str, pieces: Sequence[str], inner: Sequence[Expression], empty: pa.RecordBatch
) -> str:
    """Returns DuckDB's type of an aggregate's value."""
    inputs = {column: empty.column(column) for each in inner for column in each.columns}
    types = _types(_query(pieces), inputs)
    if name in ("min", "max") and (
        types[0] in ("VARCHAR", "BLOB", "INTERVAL", "UUID", "BIT")
        or (types[0].endswith(("]", ")")) and not types[0].startswith("DECIMAL"))
    ):
        raise duck.ExpressionError(
            f"found {sql} of type {types[0]}, expected a number, date, time or boolean"
        )
    return "DOUBLE" if name == "avg" else types[0]


def _renamed(node: Mapping[str, Any], function: str) -> dict[str, Any]:
    """Returns a call with another function."""
    new = copy.deepcopy(dict(node)) | {"function_name": function}
    if "qualified_name" in new:
        new["qualified_name"]["path"][-1] = function
    return new


def _with_values(condition: Condition, values: Sequence[Any]) -> str:
    """Returns a query of the condition on values."""
    made = ", ".join(
        f'CAST({_literal(value)} AS {call.type}) AS "{_VALUE}{number}"'
        for number, (call, value) in enumerate(zip(condition.calls, values, strict=True))
    )
    return f"SELECT {condition.rest} FROM (SELECT {made})"  # noqa: S608 - SQL is what it is for


def _literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'"


def _present(pieces: Sequence[Piece]) -> list[Any]:
    return [piece[0] for piece in pieces if piece[0] is not None]


def _add(values: Sequence[Any]) -> Any:
    """Returns a sum, rounded once; ``None`` of no values."""
    if not values:
        return None
    if isinstance(values[0], str):
        return str(sum(map(decimal.Decimal, values)))
    if isinstance(values[0], float):
        finite = all(map(math.isfinite, values))
        return math.fsum(values) if finite else sum(values)
    return sum(values)


def _average(pieces: Sequence[Piece]) -> float | None:
    count = sum(piece[1] for piece in pieces)
    total = _add(_present(pieces))
    if isinstance(total, str):
        return float(decimal.Decimal(total) / count)
    return None if total is None or not count else total / count


def _extreme(call: Call, values: Sequence[Any]) -> Any:
    """Returns the least or the largest value; ``None`` of no values."""
    # Texts of dates, and NaN, have another order than DuckDB's.
    texts = pa.array(list(map(str, values)), pa.string())
    query = f"SELECT {call.name}(CAST(x AS {call.type})) FROM {duck.TABLE}"  # noqa: S608
    ((found,),) = _rows(query, {"x": texts})
    return plain_value(found)
