"""Evaluates the expectations of a recipe on selected rows, chunk by chunk."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.expectations import MOST_PLACES, Expected
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.expectations import Expectation
from beam_pipelines.sql.aggregates import (
    MONOTONE,
    UNIQUE,
    Condition,
    Piece,
    parse_condition,
    plain_value,
    select_values,
)
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import Expression, evaluate, parse_expression


def plan_expectations(
    rules: Sequence[Expectation],
    empty: pa.RecordBatch,
    problems: list[Problem],
    sizes: Mapping[str, int] = types.MappingProxyType({}),
) -> tuple[Expected, ...]:
    """Checks the conditions of expectations on no rows; notes what is wrong.

    Args:
      rules: of the recipe.
      empty: a batch without rows, of all columns that selected rows have.
      problems: gets those found.
      sizes: name of a derived column in lower case -> its expression's size.
    """
    planned: list[Expected] = []
    for index, rule in enumerate(rules):
        key = "column" if rule.row is None else "row"
        try:
            condition = (
                parse_condition(rule.name, rule.sql, empty, sizes)
                if rule.row is None
                else _row_condition(rule, empty, sizes)
            )
        except ExpressionError as error:
            problems.append(Problem(("expect", index, key), f"'{shorten(rule.sql)}': {error}"))
            continue
        planned.append(Expected(rule, condition))
    return tuple(planned)


def _row_condition(
    rule: Expectation, empty: pa.RecordBatch, sizes: Mapping[str, int]
) -> Expression:
    expression = parse_expression(rule.name, rule.sql, empty.schema.names, sizes=sizes)
    found = evaluate(empty, expression).type
    if not pa.types.is_boolean(found):
        raise ExpressionError(f"found a value of type {found}, expected a condition")
    return expression


def unique_arguments(expected: Sequence[Expected]) -> tuple[tuple[Expression, ...], ...]:
    """Returns the arguments of each ``unique``, in order."""
    return tuple(
        call.arguments
        for each in expected
        if isinstance(each.condition, Condition)
        for call in each.condition.calls
        if call.name == UNIQUE
    )


def check_rows(expected: Sequence[Expected], batch: pa.RecordBatch) -> tuple[Any, ...]:
    """Evaluates expectations on the rows of a chunk.

    Args:
      expected: in the recipe's order.
      batch: with all columns that conditions name.

    Returns:
      For each expectation: of a row condition the number of rows for which it is false (not null),
      and the first of them; of a column condition the pieces of each aggregate.

    Raises:
      ExpressionError: a condition has no value.
    """
    if not expected:
        return ()
    columns = {name for each in expected for name in each.condition.columns}
    if len({name.lower() for name in columns}) < len(columns) and len(expected) > 1:
        # SQL cannot tell them apart in one query.
        return tuple(check_rows([each], batch)[0] for each in expected)
    asked = [_asked(each.condition) for each in expected]
    flat = [sql for own in asked for sql in own]
    values = iter(select_values(batch, sorted(columns), flat) if flat else ())
    return tuple(
        _pieces(each.condition, [next(values) for _ in own], batch)
        for each, own in zip(expected, asked, strict=True)
    )


def _asked(condition: Expression | Condition) -> list[str]:
    if isinstance(condition, Expression):
        return [f"count(*) FILTER (WHERE NOT (\n{condition.sql}\n))"]
    return [sql for call in condition.calls for sql in call.pieces]


def _pieces(
    condition: Expression | Condition, values: list[Any], batch: pa.RecordBatch
) -> tuple[Any, ...]:
    if isinstance(condition, Expression):
        (failed,) = values
        places = _failing(condition, batch) if failed else ()
        return (failed, *places)
    following = iter(values)
    return tuple(
        _steps(call.arguments[0], batch)
        if call.name == MONOTONE
        else tuple(next(following) for _ in call.pieces)
        for call in condition.calls
    )


def _failing(condition: Expression, batch: pa.RecordBatch) -> Iterator[int]:
    """Yields the first rows for which a condition is false."""
    met = pc.fill_null(evaluate(batch, condition), True).to_numpy(zero_copy_only=False)
    return map(int, np.flatnonzero(~met)[:MOST_PLACES])


def _steps(argument: Expression, batch: pa.RecordBatch) -> Piece:
    """Returns the piece of ``monotone``; nulls and NaN are left out."""
    array = evaluate(batch, argument)
    is_value = array.is_valid()
    if pa.types.is_floating(array.type):
        is_value = pc.and_not(is_value, pc.fill_null(pc.is_nan(array), False))
    rows = np.flatnonzero(is_value.to_numpy(zero_copy_only=False))
    if not len(rows):
        return None, None, 0, -1
    values = array.take(pa.array(rows))
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_temporal(values.type):
        # Numbers have the order of times, and no limits of Python's.
        values = values.cast(f"int{values.type.bit_width}")
    falls = np.flatnonzero(pc.less(values[1:], values[:-1]).to_numpy(zero_copy_only=False))
    first, last = (plain_value(values[place].as_py()) for place in (0, len(values) - 1))
    return first, last, int(rows[0]), int(rows[falls[0] + 1]) if len(falls) else -1


def failing_expectation(
    expected: Sequence[Expected], batch: pa.RecordBatch
) -> tuple[Expected, str] | None:
    """Returns the first expectation without a value, and why."""
    for each in expected:
        try:
            check_rows([each], batch)
            for argument in itertools.chain.from_iterable(unique_arguments([each])):
                evaluate(batch, argument)
        except ExpressionError as error:
            return each, str(error)
    return None
