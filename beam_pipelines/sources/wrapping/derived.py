"""Columns that a source derives from others, before the joins.

Every row of a source is read here: by the source's format, and then with its derived columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.limits import exceeded
from beam_pipelines.core.private import hide_row
from beam_pipelines.sources import format_of
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.source_format import Position, Rows
from beam_pipelines.sql.database import ExpressionError, LargeColumnError
from beam_pipelines.sql.derive import errors_of_rows, plan_derived
from beam_pipelines.sql.expressions import Expression, evaluate

_CURE = "Use TRY_CAST or TRY, which give NULL instead."


def with_derived(plan: SourcePlan, derive: Mapping[str, str]) -> SourcePlan:
    """Returns the plan with the columns that its source derives.

    Args:
      plan: of the columns that are read.
      derive: of the source.

    Raises:
      RecipeProblems: as ``plan_derived`` notes them.
    """
    if not derive:
        return plan
    problems: list[Problem] = []
    path = ("sources", plan.source.name, "derive")
    derived = plan_derived(derive, plan.schema, path, problems)
    if problems:
        raise RecipeProblems(problems)
    return dataclasses.replace(plan, derive=derived.expressions, schema=derived.rows.schema)


def read_rows(
    plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
) -> Iterator[Rows]:
    """Reads one range of a source; see ``Format.read``."""
    if not plan.derive:
        yield from format_of(plan).read(plan, byte_range, quote_states, reject)
        return
    inner, before = plan.as_read, 0
    left_out: list[Rejected] = []
    for rows in format_of(plan).read(inner, byte_range, quote_states, reject):
        left_out += rows.rejected
        try:
            batch, bad = _derived(plan, rows.batch)
        except LargeColumnError as error:
            row = before + error.row
            [place] = format_of(plan).positions(inner, byte_range, quote_states, left_out, [row])
            found = exceeded(plan.source.limits, "derived_bytes", str(error))
            raise DataError(f"{place.file}, {place.place}: {found}") from error
        if bad:
            places = format_of(plan).positions(
                inner, byte_range, quote_states, left_out, [before + row for row in bad]
            )
            places = [
                place
                if place.text or not place.place
                else place._replace(text=bad_rows.shown_row(rows.batch.slice(row, 1)))
                for place, row in zip(places, bad, strict=True)
            ]
            more = reject_rows(plan, places, bad.values(), reject)
            yield rows._replace(batch=batch, rejected=(*rows.rejected, *more))
        else:
            yield rows._replace(batch=batch)
        before += rows.batch.num_rows


def read_together(
    plan: SourcePlan, some: Sequence[FileInfo]
) -> tuple[pa.RecordBatch, list[int]] | None:
    """Reads small files in one go; see ``Format``."""
    together = format_of(plan).read_together(plan.as_read, some)
    if together is None or not plan.derive:
        return together
    try:
        batch, bad = _derived(plan, together[0])
    except LargeColumnError:
        return None
    return None if bad else (batch, together[1])


def reject_rows(
    plan: SourcePlan, places: Sequence[Position], errors: Iterable[tuple[str, str]], reject: bool
) -> list[Rejected]:
    """Returns the bad rows of a source, as it lists them.

    Args:
      plan: of the source.
      places: of the rows.
      errors: column and error of each.
      reject: whether to list the rows, rather than to raise at the first one.

    Raises:
      DataError: names the first row.
    """
    found: list[Rejected] = []
    for place, (column, error) in zip(places, errors, strict=True):
        row = Rejected(plan.source.name, place.file, place.place, column, error, place.text)
        bad_rows.reject_or_raise(hide_row(row, plan.private), found, reject)
    return found


def _derived(
    plan: SourcePlan, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, dict[int, tuple[str, str]]]:
    """Returns the good rows, and row -> column and error.

    Raises:
      LargeColumnError: the values of a column have too many bytes.
    """
    bad: dict[int, tuple[str, str]] = {}
    numbers = np.arange(batch.num_rows)
    for expression in plan.derive:
        try:
            values = evaluate(batch, expression, plan.source.limits.derived_bytes)
        except LargeColumnError:
            raise
        except ExpressionError:
            errors = _errors(batch, expression)
            reason = f"in '{expression.sql}', expected a value. {_CURE}"
            # An expression of any column may see private values.
            name = "" if plan.private else expression.name
            bad |= {
                int(numbers[row]): (name, f"found {error} {reason}")
                for row, error in errors.items()
            }
            is_good = ~np.isin(np.arange(batch.num_rows), list(errors))
            batch, numbers = batch.filter(pa.array(is_good)), numbers[is_good]
            values = evaluate(batch, expression, plan.source.limits.derived_bytes)
        batch = batch.append_column(expression.name, values)
    return batch.select(plan.schema.names), dict(sorted(bad.items()))


def _errors(batch: pa.RecordBatch, expression: Expression) -> dict[int, str]:
    """Returns row -> the error of an expression."""

    def attempt(start: int, end: int) -> None:
        try:
            evaluate(batch.slice(start, end - start), expression)
        except ExpressionError as error:
            raise ValueError(str(error)) from error

    try:
        return errors_of_rows(batch, expression)
    except ExpressionError:  # not allowed in TRY, or no column type holds a value
        tried = bad_rows.sift(attempt, 0, batch.num_rows)
        return {one.number: str(one.error) for one in tried if one is not None}
