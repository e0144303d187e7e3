"""SQL expressions over batches, evaluated by DuckDB.

An expression describes one row. The plan refuses expressions that depend on other rows (and so on
the cut into batches), on the clock, on chance, or on files, by walking DuckDB's own parse tree.
"""

from __future__ import annotations

import itertools
import re
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import missing_column
from beam_pipelines.core.limits import MIB
from beam_pipelines.sql import database as duck
from beam_pipelines.sql.functions import is_decided, refused_call, refused_cast, refused_name
from beam_pipelines.sql.sizes import size_of

if TYPE_CHECKING:
    import duckdb

_REFUSED_CLASSES = {
    "SUBQUERY": "a subquery, which would see one batch only",
    "WINDOW": "a window function, which would see one batch only",
    "STAR": "'*', which is not one value",
    "PARAMETER": "a parameter, which has no value",
    "POSITIONAL_REFERENCE": "a column by its position",
    "DEFAULT": "DEFAULT",
}
_ALLOWED_CLASSES = """
BETWEEN CASE COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT LAMBDA LAMBDA_REF OPERATOR TYPE
"""

# Bytes that the values of an expression may become at a time, by the sizes of its parts.
_PIECE_BYTES, _WORD_BYTES = 256 * MIB, 8

# DuckDB exports these types to Arrow with other values: a time without zone, packed bits.
_REFUSED_TYPES = frozenset({"bit", "time with time zone"})

_PLACE = "\ufdd0place"  # no column's name has this character
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


class Expression(NamedTuple):
    """A checked expression.

    Attributes:
      name: of its column, or ``filter``.
      sql: its text.
      columns: the columns that it needs, under their own names.
      size: how many times larger than a source's value its values may be.
      largest: the same of the largest of its parts.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    size: int = 1
    largest: int = 1


def parse_expression(
    name: str, sql: str, known: Sequence[str], sizes: Mapping[str, int] = types.MappingProxyType({})
) -> Expression:
    """Checks an expression without evaluating it.

    Args:
      name: of its column.
      sql: one SQL expression.
      known: the columns it may use.
      sizes: name of a derived column in lower case -> its expression's size.

    Raises:
      ExpressionError: it cannot be parsed, is not one expression of one row, names an unknown
        column, or may have a value that is too large.
    """
    try:
        return _parse(name, sql, known, sizes)
    except duck.ExpressionError as error:
        hint = _unquoted(sql, known, str(error))
        raise duck.ExpressionError(f"{error}. {hint}" if hint else str(error)) from error


def _unquoted(sql: str, known: Sequence[str], error: str) -> str:
    """Returns a hint on a column whose name needs quotes."""
    for name in known:
        is_bare = re.search(rf'(?<![\w"]){re.escape(name)}(?![\w"])', sql)
        # DuckDB may name the word after a keyword.
        is_broken = "syntax error" in error and duck.is_keyword(name)
        if is_bare and (is_broken or not _PLAIN_NAME.fullmatch(name)):
            return f'Write the column as "{name}", in double quotes'
    return ""


def _parse(name: str, sql: str, known: Sequence[str], sizes: Mapping[str, int]) -> Expression:
    tree = statement_of(sql)["statements"][0]["node"]["select_list"][0]
    nodes = list(duck.walk(tree))
    for node in nodes:
        if refused := refused_part(node):
            raise duck.ExpressionError(
                f"found {refused}; expected an expression over the columns of one row"
            )
    parameters = {
        reference["column_names"][0]
        for node in nodes
        if node.get("class") == "LAMBDA"
        for reference in duck.walk(node["lhs"])
        if reference.get("class") == "COLUMN_REF"
    }
    found = {
        _resolve(node["column_names"], known, parameters)
        for node in nodes
        if node.get("class") == "COLUMN_REF"
    }
    needed = tuple(sorted(column for column in found if column is not None))
    for first, second in itertools.combinations(needed, 2):
        if first.lower() == second.lower():
            raise duck.ExpressionError(
                f"found '{first}' and '{second}', which SQL cannot tell apart; rename one of them"
            )
    return Expression(name, sql, needed, *size_of(tree, sizes))


class NoValueError(ValueError):
    """An expression has no value for a row; the message shows why.

    Attributes:
      expression: the first one that failed.
      batch: the rows that it failed on.
      where: the expression in words.
    """

    def __init__(
        self, found: str, expression: Expression, batch: pa.RecordBatch, where: str
    ) -> None:
        super().__init__(found)
        self.expression, self.batch, self.where = expression, batch, where


def evaluate(batch: pa.RecordBatch, expression: Expression, most: int | None = None) -> pa.Array:
    """Evaluates an expression on all rows of a batch, in their order.

    Where the values may be far larger than the columns, some rows are evaluated at a time.

    Args:
      batch, expression: what to evaluate.
      most: bytes of all values together.

    Returns:
      n values of a column type (decimals and huge integers become the nearest float64).

    Raises:
      LargeColumnError: there are more bytes than ``most``.
      ExpressionError: with DuckDB's message.
    """
    known = sum(batch.column(name).nbytes for name in expression.columns)
    worst = expression.largest * max(known, _WORD_BYTES * batch.num_rows)
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, worst))
    found, size_bytes = [], 0
    for start in range(0, max(1, batch.num_rows), rows):
        piece = batch.slice(start, rows)
        found.append(_evaluate(piece, expression))
        size_bytes += found[-1].nbytes
        if most is not None and size_bytes > most:
            raise duck.LargeColumnError(start + piece.num_rows - 1, size_bytes)
    return pa.concat_arrays(found) if len(found) > 1 else found[0]


def _evaluate(batch: pa.RecordBatch, expression: Expression) -> pa.Array:
    # Without a column to be evaluated over, a constant would have one value for all rows.
    inputs = {name: batch.column(name) for name in expression.columns} or {
        "": np.zeros(batch.num_rows, np.int8)
    }
    result = _run(f"SELECT (\n{expression.sql}\n) FROM {duck.TABLE}", pa.table(inputs))  # noqa: S608 - SQL is what it is for
    if len(result) != batch.num_rows:
        raise duck.ExpressionError(
            f"found {len(result)} values for {batch.num_rows} rows, expected one for each row"
        )
    return _normalise(result.column(0).combine_chunks())


def failing_rows(batch: pa.RecordBatch, expression: Expression) -> npt.NDArray[np.bool_]:
    """Returns bool[n]: the rows on which an expression fails.

    Raises:
      ExpressionError: DuckDB's TRY does not take the expression.
    """
    flags = evaluate(batch, expression._replace(sql=f"TRY([(\n{expression.sql}\n)]) IS NULL"))
    failing: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
    return failing


def failures(batch: pa.RecordBatch, expression: Expression) -> list[str | None]:
    """Evaluates an expression on each row alone.

    It is prepared once, so that it costs a fraction of ``evaluate`` on each row.

    Returns:
      For each row the error of ``evaluate``; ``None`` if there is none, or if no column type holds
        the value.

    Raises:
      ExpressionError: the expression cannot be prepared.
    """
    place = duck.quote(_PLACE)
    inputs = {name: batch.column(name) for name in expression.columns} | {
        _PLACE: np.arange(batch.num_rows)
    }
    with duck.registered(pa.table(inputs)) as database:
        database.execute(
            f"PREPARE one AS SELECT (\n{expression.sql}\n) FROM {duck.TABLE} WHERE {place} = $1"  # noqa: S608
        )
        found = [_failure(database, row) for row in range(batch.num_rows)]
        database.execute("DEALLOCATE one")
    return found


def _failure(database: duckdb.DuckDBPyConnection, row: int) -> str | None:
    import duckdb

    try:
        database.execute(f"EXECUTE one({row})").fetchall()
    except duckdb.Error as error:
        return duck.clean(str(error))
    return None


def _normalise(array: pa.Array) -> pa.Array:
    """Casts to the column type.

    The values of a list are called ``item``; DuckDB may call them otherwise.
    """
    target = columns.column_type(array.type)
    if target is None or columns.has_lists_as_steps(target):
        raise duck.ExpressionError(
            f"found a value of type {array.type}, expected a scalar or a list of scalars"
        )
    try:
        array = columns.normalise(array)
        _check_finite(array)
        return (
            array.cast(pa.list_(array.type.value_type)) if pa.types.is_list(array.type) else array
        )
    except pa.ArrowInvalid as error:
        raise duck.ExpressionError(f"{error}, expected values of type {target}") from error


def _check_finite(array: pa.Array) -> None:
    """Raises ``ExpressionError`` if a date or timestamp is infinite."""
    values = pc.list_flatten(array) if pa.types.is_list(array.type) else array
    if columns.is_date(values.type):
        # DuckDB's infinite dates (days) and timestamps (microseconds) have the largest number.
        bits = values.type.bit_width
        counts, most = values.view(f"int{bits}"), (1 << (bits - 1)) - 1
        if pc.any(pc.or_(pc.equal(counts, most), pc.equal(counts, -most))).as_py():
            raise duck.ExpressionError("an infinite date or timestamp, expected one of a calendar")


def find_row(batch: pa.RecordBatch, expression: Expression) -> int | None:
    """Returns a row on which the expression fails alone, or ``None``.

    It is slow; for errors only.
    """
    start, end = 0, batch.num_rows
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (
            (start, middle)
            if _fails(batch.slice(start, middle - start), expression)
            else (middle, end)
        )
    return start if _fails(batch.slice(start, end - start), expression) else None


def _fails(batch: pa.RecordBatch, expression: Expression) -> bool:
    try:
        evaluate(batch, expression)
    except duck.ExpressionError:
        return True
    return False


def _run(query: str, table: pa.Table) -> pa.Table:
    with duck.registered(table) as database:
        found = database.sql(query)
        kind = found.types[0]
        while kind.id in ("list", "array"):
            kind = kind.children[0][1]
        if kind.id in _REFUSED_TYPES:
            raise duck.ExpressionError(
                f"found a value of type {found.types[0]}, expected one that a column can hold. "
                "Cast it, for example to VARCHAR"
            )
        return found.to_arrow_table()


def statement_of(sql: str) -> dict[str, Any]:
    """Returns DuckDB's parse tree of a statement that selects one expression.

    Raises:
      ExpressionError: the text is not one expression.
    """
    try:
        tree = duck.parsed(f"SELECT (\n{sql}\n)")
    except duck.ExpressionError as error:
        if str(error).endswith('near ")"') and sql.count("(") >= sql.count(")"):  # our bracket
            raise duck.ExpressionError("syntax error at the end of the expression") from error
        raise
    statements = tree["statements"]
    select = statements[0]["node"] if len(statements) == 1 else {}
    # A text such as "1) FROM t WHERE (true" closes our bracket: then there is more than one
    # selected value.
    simple = (
        select.get("type") == "SELECT_NODE"
        and len(select["select_list"]) == 1
        and select["from_table"]["type"] == "EMPTY"
        and not any(
            select.get(part)
            for part in ("modifiers", "where_clause", "group_expressions", "having", "qualify")
        )
    )
    if not simple:
        raise duck.ExpressionError(
            "found a whole statement or several values, expected one expression"
        )
    duck.parsed(
        f"SELECT {sql}"
    )  # a text such as "true) OR (true" is an expression only within our brackets
    return tree


def refused_part(node: Mapping[str, Any]) -> str | None:
    """Returns why one node of a parse tree is refused, or ``None``."""
    kind = node.get("class")
    if kind == "FUNCTION":
        reason = refused_call(node)
        return None if reason is None else f"the function '{node['function_name']}', {reason}"
    if kind == "CAST":
        return refused_cast(node)
    if kind is None or kind in _ALLOWED_CLASSES.split():
        return None
    return _REFUSED_CLASSES.get(kind, f"an SQL expression of the class {kind}")


def _resolve(names: Sequence[str], known: Sequence[str], parameters: set[str]) -> str | None:
    """Returns the column of a reference; ``None`` for a lambda's parameter.

    An exact match comes first, then one that ignores case.
    """
    name = names[0]
    matches = (
        [name] if name in known else [column for column in known if column.lower() == name.lower()]
    )
    if len(names) == 1 and len(matches) == 1:
        return matches[0]
    dotted = ".".join(names)
    if dotted in known:
        raise duck.ExpressionError(
            f"found {dotted}, expected a column name with a dot in quotes: {duck.quote(dotted)}"
        )
    if name in parameters:
        return None
    if len(matches) > 1:
        raise duck.ExpressionError(
            f"found '{name}', which may be any of {matches}; write it exactly, in quotes"
        )
    # Some functions are called without brackets.
    if is_decided(name.lower()) and (reason := refused_name(name.lower())):
        raise duck.ExpressionError(
            f"found '{name}', {reason}; expected an expression over the columns of one row"
        )
    raise duck.ExpressionError(f"{missing_column(dotted, known)} (Texts stand in 'single quotes'.)")
