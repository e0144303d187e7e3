"""Columns that SQL expressions make of others, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import (
    Expression,
    evaluate,
    failing_rows,
    failures,
    parse_expression,
)

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

    expressions: tuple[Expression, ...]
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
    rows = pa.RecordBatch.from_pylist([], schema=schema)
    expressions, broken, sizes = [], set[str](), dict[str, int]()
    for name, sql in derive.items():
        try:
            expression, array = _planned(name, sql, rows, sizes)
        except ExpressionError as error:
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
) -> tuple[Expression, pa.Array]:
    clashes = [column for column in rows.schema.names if column.lower() == name.lower()]
    if clashes:
        raise ExpressionError(
            f"found '{name}', but the rows have a column '{clashes[0]}'. Choose a new name, "
            "and 'drop' the old column."
        )
    try:
        expression = parse_expression(name, sql, rows.schema.names, sizes=sizes)
        return expression, evaluate(rows, expression)
    except ExpressionError as error:
        raise ExpressionError(f"'{shorten(sql)}': {error}") from error


def errors_of_rows(batch: pa.RecordBatch, expression: Expression) -> dict[int, str]:
    """Returns row -> the error of an expression, ascending.

    Equal rows are evaluated once.

    Raises:
      ExpressionError: DuckDB's TRY does not take the expression, or a row fails only together with
        others.
    """
    failing = failing_rows(batch, expression)
    inputs = batch.filter(pa.array(failing)).select(expression.columns)
    first, same = _distinct(inputs)
    messages = failures(inputs.take(pa.array(first)), expression)
    found = [message for message in messages if message is not None]
    if len(found) < len(messages):
        raise ExpressionError("a value")
    return dict(zip(np.flatnonzero(failing).tolist(), (found[kind] for kind in same), strict=True))


def _distinct(batch: pa.RecordBatch) -> tuple[Numbers, Sequence[int]]:
    """Returns the first row of each kind, and each row's kind.

    Rows of one kind have the same values, bit by bit.
    """
    rows = np.arange(batch.num_rows)
    if not batch.num_columns or any(pa.types.is_list(column.type) for column in batch.columns):
        return rows, rows.tolist()
    kinds = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        # Compare bits: -0.0 and 0.0 are different values to an expression.
        bits = (
            column.view(f"int{column.type.bit_width}")
            if pa.types.is_floating(column.type)
            else column
        )
        values = bits.dictionary_encode(null_encoding="encode").indices.to_numpy()
        kinds = np.unique(kinds * (len(values) + 1) + values, return_inverse=True)[1]
    _, first, same = np.unique(kinds, return_index=True, return_inverse=True)
    return first, same.tolist()
