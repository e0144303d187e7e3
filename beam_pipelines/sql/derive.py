"""Columns that SQL expressions make of others, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sql import database as duck
from beam_pipelines.sql import expressions as sql_expressions

Numbers = npt.NDArray[np.int64]


class Derived(NamedTuple):
    """Planned columns.

    Attributes:
      expressions: of the columns that can be derived, in order.
      rows: a batch without rows, with these columns.
      broken: names of the other ones.
      sizes: name in lower case -> the size of the column's values, as ``parse_expression`` takes
        it.
    """

    expressions: tuple[sql_expressions.Expression, ...]
    rows: pa.RecordBatch
    broken: set[str]
    sizes: dict[str, int]


def plan_derived(
    derive: Mapping[str, str], schema: pa.Schema, path: tuple[str, ...], problems: list[Problem]
) -> Derived:
    """Plans new columns by evaluating their expressions on no rows.

    Args:
      derive: column -> expression, which sees the columns above it.
      schema: of the rows.
      path: of ``derive`` in the recipe.
      problems: gets expressions that are not allowed, unknown columns, names that rows have.
    """
    rows = empty_batch(schema)
    expressions, broken, sizes = [], set[str](), dict[str, int]()
    for name, sql in derive.items():
        try:
            expression, array = _planned(name, sql, rows, sizes)
        except duck.ExpressionError as error:
            # It may be right but for a column that could not be derived.
            if not any(f"column '{other}'" in str(error) for other in broken):
                problems.append(Problem((*path, name), str(error)))
            broken.add(name)
            continue
        expressions.append(expression)
        sizes[name.lower()] = 1 if pa.types.is_primitive(array.type) else expression.size
        rows = rows.append_column(name, array)
    return Derived(tuple(expressions), rows, broken, sizes)


def _planned(
    name: str, sql: str, rows: pa.RecordBatch, sizes: Mapping[str, int]
) -> tuple[sql_expressions.Expression, pa.Array]:
    clashes = [column for column in rows.schema.names if column.lower() == name.lower()]
    if clashes:
        raise duck.ExpressionError(
            f"found '{name}', but the rows have a column '{clashes[0]}'. Choose a new name, "
            "and 'drop' the old column."
        )
    try:
        expression = sql_expressions.parse_expression(name, sql, rows.schema.names, sizes=sizes)
        return expression, sql_expressions.evaluate(rows, expression)
    except duck.ExpressionError as error:
        raise duck.ExpressionError(f"'{shorten(sql)}': {error}") from error


def errors_of_rows(batch: pa.RecordBatch, expression: sql_expressions.Expression) -> dict[int, str]:
    """Returns row -> the error of an expression, ascending.

    Equal rows are evaluated once.

    Raises:
      ExpressionError: DuckDB's TRY does not take the expression, or a row fails only together with
        others.
    """
    failing = sql_expressions.failing_rows(batch, expression)
    inputs = batch.filter(pa.array(failing)).select(expression.columns)
    first, same = _distinct(inputs)
    messages = sql_expressions.failures(inputs.take(pa.array(first)), expression)
    found = [message for message in messages if message is not None]
    if len(found) < len(messages):
        raise duck.ExpressionError("a value")
    return dict(zip(np.flatnonzero(failing).tolist(), (found[kind] for kind in same), strict=True))


def _distinct(batch: pa.RecordBatch) -> tuple[Numbers, Sequence[int]]:
    """Returns the first row of each kind, and each row's kind.

    Rows of one kind have the same values, bit by bit.
    """
    if not batch.num_columns:
        return np.arange(batch.num_rows), range(batch.num_rows)
    # Compare bits: -0.0 and 0.0 are different values to an expression.
    bits = [
        column.view(f"int{column.type.bit_width}") if pa.types.is_floating(column.type) else column
        for column in batch.columns
    ]
    _, first, same = np.unique(_native.hash_rows(bits), return_index=True, return_inverse=True)
    return first, same.tolist()


# Column type -> how SQL makes it of a parameter, which is a Python value or an int64.
_PARAMETERS = {
    pa.int64(): "{}::BIGINT",
    pa.float64(): "{}::DOUBLE",
    pa.float32(): "{}::FLOAT",
    pa.bool_(): "{}::BOOLEAN",
    pa.string(): "{}::VARCHAR",
    pa.date32(): "DATE '1970-01-01' + {}::INTEGER",
    pa.timestamp("us"): "make_timestamp({}::BIGINT)",
}
# DuckDB's type of a result whose Python value is the value of a column -> its SQL, and that type.
_RESULTS = {
    **dict.fromkeys(("bigint", "integer", "smallint", "tinyint"), ("BIGINT", pa.int64())),
    "double": ("DOUBLE", pa.float64()),
    "float": ("FLOAT", pa.float32()),
    "boolean": ("BOOLEAN", pa.bool_()),
    "varchar": ("VARCHAR", pa.string()),
}
# Above this size of a value, in words, ``evaluate`` bounds the memory.
_LARGEST = 64


class DerivedColumn(NamedTuple):
    """A column that an expression makes of others.

    Attributes:
      name: of the column.
      expression: its columns have names of their own.
      inputs: the column of a row for each column of the expression.
    """

    name: str
    expression: sql_expressions.Expression
    inputs: tuple[str, ...]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows that the expression sees."""
        names = list(self.expression.columns)
        if not names:
            return batch
        return pa.RecordBatch.from_arrays([batch.column(name) for name in self.inputs], names)


class _Statement(NamedTuple):
    """Columns that are derived together.

    Attributes:
      columns: in order.
      sql: derives them of a row's parameters; "" for a column that ``evaluate`` makes.
      parameters: columns of the row.
      types: of the values.
    """

    columns: tuple[DerivedColumn, ...]
    sql: str = ""
    parameters: tuple[str, ...] = ()
    types: tuple[pa.DataType, ...] = ()


class Deriver:
    """Derives columns of rows; several threads may call it at once.

    Args:
      columns: to derive, in order; each may see those before it.
      rows: types of the columns of a row.
      most: bytes of all values of a column together.
    """

    def __init__(self, columns: Sequence[DerivedColumn], rows: pa.Schema, most: int) -> None:
        """Plans the statements."""
        self._most = most
        self._statements = tuple(_statements(columns, rows))
        self._local = threading.local()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with the derived columns.

        Raises:
          NoValueError: an expression has no value for a row.
        """
        for number, statement in enumerate(self._statements):
            arrays = self._values(number, statement, batch)
            if arrays:
                names = [*batch.schema.names, *(column.name for column in statement.columns)]
                batch = pa.RecordBatch.from_arrays([*batch.columns, *arrays], names)
                continue
            for column in statement.columns:
                batch = batch.append_column(column.name, self._evaluated(column, batch))
        return batch

    def _values(self, number: int, statement: _Statement, batch: pa.RecordBatch) -> list[pa.Array]:
        """Returns the values of a single row.

        There are none where ``evaluate`` makes them, or says why they fail.
        """
        import duckdb

        if not statement.sql or batch.num_rows != 1:
            return []
        database = duck.connection(optimizes=False)
        kept = self._local.__dict__.setdefault("statements", {})
        if number not in kept:
            (kept[number],) = database.extract_statements(statement.sql)
        values = [_parameter(batch.column(name)) for name in statement.parameters]
        try:
            (row,) = database.execute(kept[number], values).fetchall()
        except duckdb.Error:
            return []
        return [pa.array([value], type_) for value, type_ in zip(row, statement.types, strict=True)]

    def _evaluated(self, column: DerivedColumn, batch: pa.RecordBatch) -> pa.Array:
        rows = column.rows(batch)
        try:
            return sql_expressions.evaluate(rows, column.expression, self._most)
        except duck.ExpressionError as error:
            where = f"derived column '{column.name}'"
            raise sql_expressions.NoValueError(
                str(error), column.expression, rows, where
            ) from error


def _parameter(column: pa.Array) -> Any:
    """Returns the value of the one row as a parameter."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return column[0].as_py()


def _statements(columns: Sequence[DerivedColumn], rows: pa.Schema) -> Iterator[_Statement]:
    """Yields the statements that derive columns, in order."""
    empty = empty_batch(rows)
    group = _Group()
    for column in columns:
        seen = column.rows(empty)
        result = _plain_result(column.expression, seen)
        if group.columns and (result is None or not group.takes(column)):
            yield group.statement()
            group = _Group()
        if result is None:
            yield _Statement((column,))
        else:
            group.add(column, seen.schema, *result)
        empty = empty.append_column(column.name, sql_expressions.evaluate(seen, column.expression))
    if group.columns:
        yield group.statement()


def _plain_result(
    expression: sql_expressions.Expression, rows: pa.RecordBatch
) -> tuple[str, pa.DataType] | None:
    """Returns the type of values that Python's values equal.

    Returns:
      Its name in SQL, and in Arrow; ``None`` for another type.
    """
    is_plain = all(field.type in _PARAMETERS for field in rows.schema)
    if not expression.columns or not is_plain or expression.largest > _LARGEST:
        return None
    with duck.registered(pa.Table.from_batches([rows])) as database:
        found = database.sql(f"SELECT (\n{expression.sql}\n) FROM {duck.TABLE}").types[0]  # noqa: S608 - SQL is what it is for
    return _RESULTS.get(found.id)


class _Group:
    """Columns of one statement; each sees those before it."""

    def __init__(self) -> None:
        self.columns: list[DerivedColumn] = []
        self._types: list[pa.DataType] = []
        self._parameters: list[str] = []
        self._first: list[str] = []  # SQL of the parameters
        self._levels: list[tuple[list[str], set[str]]] = []  # SQL of values, names of the columns
        self._names: dict[str, tuple[str, str]] = {}  # in lower case -> name, column

    def takes(self, column: DerivedColumn) -> bool:
        """Whether its names mean the same columns here; SQL ignores case."""
        return all(
            self._names.get(name.lower(), (name, own)) == (name, own)
            for name, own in self._named(column)
        )

    def add(
        self, column: DerivedColumn, seen: pa.Schema, type_sql: str, type_: pa.DataType
    ) -> None:
        """Adds a column that the group takes."""
        for name, own in zip(column.expression.columns, column.inputs, strict=True):
            if name.lower() not in self._names:
                self._parameters.append(own)
                value = _PARAMETERS[seen.field(name).type].format(f"${len(self._parameters)}")
                self._first.append(f"{value} AS {duck.quote(name)}")
        if not self._levels or self._levels[-1][1].intersection(column.inputs):
            self._levels.append(([], set()))
        values, made = self._levels[-1]
        made.add(column.name)
        for name in {column.expression.name: 0, column.name: 0}:
            values.append(f"(\n{column.expression.sql}\n)::{type_sql} AS {duck.quote(name)}")
        self._names |= {name.lower(): (name, own) for name, own in self._named(column)}
        self.columns.append(column)
        self._types.append(type_)

    def statement(self) -> _Statement:
        """Returns the statement that derives the columns."""
        sql = f"SELECT {', '.join(self._first)}"
        for values, _ in self._levels:
            sql = f"SELECT *, {', '.join(values)} FROM ({sql})"  # noqa: S608
        names = ", ".join(duck.quote(column.name) for column in self.columns)
        return _Statement(
            tuple(self.columns),
            f"SELECT {names} FROM ({sql})",  # noqa: S608
            tuple(self._parameters),
            tuple(self._types),
        )

    @staticmethod
    def _named(column: DerivedColumn) -> list[tuple[str, str]]:
        inputs = zip(column.expression.columns, column.inputs, strict=True)
        return [*inputs, (column.expression.name, column.name), (column.name, column.name)]
