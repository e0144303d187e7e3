"""``expect``: conditions that the selected rows have to meet."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.checks import check
from beam_pipelines.checks.expectations import Expectation, read_expectations
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.errors import DataError, Problem, mask
from beam_pipelines.core.formatting import shorten, show_number, show_share
from beam_pipelines.core.limits import allowed_rows, show_budget
from beam_pipelines.core.places import MOST_PLACES, Place
from beam_pipelines.core.private import HIDDEN
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sql import aggregates
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import Expression, evaluate, parse_expression

_SHOWN_SQL = 60
_HINT = (
    "Mend the data, the recipe or its schema; or give an expectation a 'budget' or "
    "'severity: warn'."
)
_SHOWN_VALUE = 100
# Aggregates whose result is a value of a row.
_VALUES = ("min", "max")


class Expected(NamedTuple):
    """An expectation with its checked condition."""

    rule: Expectation
    condition: Expression | aggregates.Condition


# Whether an expectation is met; first rows that are not; entry of the manifest; what was found.
_Judged: TypeAlias = tuple[bool, tuple[Place, ...], dict[str, Any], str]
_Chunks: TypeAlias = Sequence[tuple[tuple[int, int], Sequence[Any]]]


@dataclasses.dataclass(frozen=True)
class Expect(check.Check):
    """The expectations of a recipe."""

    name, reader = "expect", read_expectations
    help = "Conditions that the selected rows have to meet."
    expected: tuple[Expected, ...]

    @classmethod
    def plan(
        cls,
        rules: tuple[Expectation, ...],
        recipe: Recipe,  # noqa: ARG003
        known: check.SelectedColumns,
    ) -> Expect | None:
        if not rules or known.broken:
            return None
        empty = empty_batch(known.schema)
        return cls(plan_expectations(rules, empty, known.problems, known.sizes))

    @property
    def sees(self) -> tuple[str, ...]:
        return tuple(name for each in self.expected for name in each.condition.columns)

    def piece(self, rows: pa.RecordBatch) -> Any:
        return check_rows(self.expected, rows)

    def explained(self, rows: pa.RecordBatch, error: Exception) -> check.CheckError:
        failing = failing_expectation(self.expected, rows)
        expected, found = failing or (self.expected[0], str(error))
        is_row = isinstance(expected.condition, Expression)
        columns = expected.condition.columns if is_row else ()
        expression = Expression(expected.rule.name, expected.rule.sql, columns)
        return check.CheckError(found, expression, rows, f"expectation '{expression.name}'")

    def revealing(self, private: Collection[str]) -> Iterator[Problem]:
        for index, (_, condition) in enumerate(self.expected):
            if isinstance(condition, aggregates.Condition) and set(private) & set(
                condition.columns
            ):
                for call in condition.calls:
                    if call.name in _VALUES:
                        message = (
                            f"found {call.name} with a column that 'pii: {{allow: …}}' names: its "
                            "value would be shown. Write a condition of rows"
                        )
                        yield Problem(("expect", index, "column"), message)

    def judge(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        for number, (rule, condition) in enumerate(self.expected):
            chunks = [(address, pieces[number]) for address, pieces in facts.pieces]
            is_met, places, entry, found = (
                judge_rows(rule, chunks, facts.rows)
                if isinstance(condition, Expression)
                else judge_columns(rule, condition, chunks)
            )
            failing = () if is_met else rows.rows_of(places, condition.columns)
            first = [row.where for row in failing]
            kind = "column" if rule.row is None else "row"
            data = {"name": rule.name, kind: rule.sql, "rows": facts.rows, **entry, "first": first}
            listed = tuple(
                {
                    "expectation": rule.name,
                    "source": rows.source,
                    "file": mask(row.position.file),
                    "position": row.position.place,
                    "reason": f"found {_values(row.values, rows.private)}, expected {rule.sql}",
                    "text": row.position.text,
                }
                for row in failing
            )
            severity = "ok" if is_met else rule.severity
            budget = f" (budget {show_budget(rule.budget)})" if rule.budget else ""
            where = f"; the first is {first[0]}" if first else ""
            sql = shorten(" ".join(rule.sql.split()), _SHOWN_SQL)
            line = f"{rule.name}, {sql}{budget}: {found}{where}"
            yield check.Finding(severity, line, _HINT, data, listed)


def _values(values: Mapping[str, Any], private: Collection[str]) -> str:
    return ", ".join(
        f"{name}: {HIDDEN if name in private else show_value(value)}"
        for name, value in values.items()
    )


def show_value(value: Any) -> str:
    """Returns a value of an offending row, for messages."""
    return "null" if value is None else shorten(repr(value), _SHOWN_VALUE)


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
                aggregates.parse_condition(rule.name, rule.sql, empty, sizes)
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
    values = iter(aggregates.select_values(batch, sorted(columns), flat) if flat else ())
    return tuple(
        _pieces(each.condition, [next(values) for _ in own], batch)
        for each, own in zip(expected, asked, strict=True)
    )


def _asked(condition: Expression | aggregates.Condition) -> list[str]:
    if isinstance(condition, Expression):
        return [f"count(*) FILTER (WHERE NOT (\n{condition.sql}\n))"]
    return [sql for call in condition.calls for sql in call.pieces]


def _pieces(
    condition: Expression | aggregates.Condition, values: list[Any], batch: pa.RecordBatch
) -> tuple[Any, ...]:
    if isinstance(condition, Expression):
        (failed,) = values
        places = _failing(condition, batch) if failed else ()
        return (failed, *places)
    following = iter(values)
    return tuple(tuple(next(following) for _ in call.pieces) for call in condition.calls)


def _failing(condition: Expression, batch: pa.RecordBatch) -> Iterator[int]:
    """Yields the first rows for which a condition is false."""
    met = pc.fill_null(evaluate(batch, condition), True).to_numpy(zero_copy_only=False)
    return map(int, np.flatnonzero(~met)[:MOST_PLACES])


def failing_expectation(
    expected: Sequence[Expected], batch: pa.RecordBatch
) -> tuple[Expected, str] | None:
    """Returns the first expectation without a value, and why."""
    for each in expected:
        try:
            check_rows([each], batch)
        except ExpressionError as error:
            return each, str(error)
    return None


def judge_rows(rule: Expectation, chunks: _Chunks, rows: int) -> _Judged:
    """Judges a condition of rows.

    Args:
      rule: the expectation.
      chunks: address and pieces of each chunk, ordered by address.
      rows: number of rows that were checked.
    """
    failed = sum(pieces[0] for _, pieces in chunks)
    places = (Place(*address, row) for address, pieces in chunks for row in pieces[1:])
    first = tuple(itertools.islice(places, MOST_PLACES))
    share = f" ({show_share(failed, rows)})" if failed else ""
    is_met = failed <= allowed_rows(rule.budget, rows)
    entry = {"budget": rule.budget, "failed": failed}
    return is_met, first, entry, f"{failed:,} of {rows:,} rows fail{share}"


def judge_columns(rule: Expectation, condition: aggregates.Condition, chunks: _Chunks) -> _Judged:
    """Judges a condition of columns.

    Args:
      rule, condition: the expectation.
      chunks: as those of ``judge_rows``.

    Raises:
      DataError: the condition has no value.
    """
    values = [
        aggregates.merged_value(call, [own[index] for _, own in chunks])
        for index, call in enumerate(condition.calls)
    ]
    try:
        is_met = aggregates.holds(condition, values)
    except ExpressionError as error:
        raise DataError(
            f"expectation '{rule.name}' ({rule.sql}): found {error}, expected a value. Use "
            "TRY_CAST or TRY, which give NULL instead."
        ) from error
    # Texts stand for NaN and infinities.
    finite = [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in values]
    named = dict(zip((call.sql for call in condition.calls), finite, strict=True))
    shown = ", ".join(f"{name} is {_shown(value)}" for name, value in named.items())
    return bool(is_met), (), {"values": named}, shown


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else show_number(value)
