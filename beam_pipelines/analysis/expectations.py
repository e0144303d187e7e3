"""Judges expectations by the pieces of all chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.core.budgets import allowed_rows, show_budget
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten, show_number, show_share
from beam_pipelines.recipe.expectations import Expectation
from beam_pipelines.sql.aggregates import (
    MONOTONE,
    UNIQUE,
    Condition,
    Piece,
    fall_of,
    holds,
    merged_value,
)
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import Expression

# Places of failing rows that a chunk notes, and that are shown.
MOST_PLACES = 10
_SHOWN_SQL = 60


class Expected(NamedTuple):
    """An expectation with its checked condition."""

    rule: Expectation
    condition: Expression | Condition


class Place(NamedTuple):
    """The range, chunk and number of a selected row."""

    range_number: int
    part: int
    row: int


class Repeats(NamedTuple):
    """Rows with values that an earlier row has.

    Attributes:
      rows: their number.
      pairs: of the first of them, the earlier row and the row itself.
    """

    rows: int = 0
    pairs: tuple[tuple[Place, Place], ...] = ()


class Judged(NamedTuple):
    """An expectation, and what was found.

    Attributes:
      rule: the expectation.
      rows: rows that were checked.
      failed: rows that fail; ``None`` of a condition of columns.
      values: aggregate -> value, of a condition of columns.
      holds: whether it is met.
      places: of the first offending rows.
      first: where these rows are, in files.
    """

    rule: Expectation
    rows: int
    failed: int | None
    values: Mapping[str, Any]
    holds: bool
    places: tuple[Place, ...]
    first: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        rule = self.rule
        kind = "row" if rule.row is not None else "column"
        found: dict[str, Any] = (
            {"budget": rule.budget, "failed": self.failed}
            if kind == "row"
            else {"values": {name: _finite(value) for name, value in self.values.items()}}
        )
        return {
            "name": rule.name,
            kind: rule.sql,
            "severity": rule.severity,
            "rows": self.rows,
            **found,
            "holds": self.holds,
            "first": list(self.first),
        }


def judge(
    expected: Sequence[Expected],
    chunks: Sequence[tuple[tuple[int, int], Sequence[Piece]]],
    rows: int,
    repeats: Sequence[Repeats],
) -> tuple[Judged, ...]:
    """Judges expectations.

    Args:
      expected: in the recipe's order.
      chunks: address and pieces of each chunk, ordered by address.
      rows: number of rows that were checked.
      repeats: of each ``unique``, in order.

    Raises:
      DataError: a condition has no value.
    """
    of_unique = iter(repeats)
    return tuple(
        _judge_rows(each, number, chunks, rows)
        if isinstance(each.condition, Expression)
        else _judge_columns(each.rule, each.condition, number, chunks, rows, of_unique)
        for number, each in enumerate(expected)
    )


def _judge_rows(
    expected: Expected,
    number: int,
    chunks: Sequence[tuple[tuple[int, int], Sequence[Piece]]],
    rows: int,
) -> Judged:
    failed = sum(pieces[number][0] for _, pieces in chunks)
    places = (Place(*address, row) for address, pieces in chunks for row in pieces[number][1:])
    first = tuple(place for place, _ in zip(places, range(MOST_PLACES), strict=False))
    holds_ = failed <= allowed_rows(expected.rule.budget, rows)
    return Judged(expected.rule, rows, failed, {}, holds_, first)


def _judge_columns(
    rule: Expectation,
    condition: Condition,
    number: int,
    chunks: Sequence[tuple[tuple[int, int], Sequence[Piece]]],
    rows: int,
    repeats: Iterator[Repeats],
) -> Judged:
    values: list[Any] = []
    places: list[Place] = []
    for index, call in enumerate(condition.calls):
        if call.name == UNIQUE:
            found = next(repeats)
            values.append(not found.rows)
            places += [row for pair in found.pairs for row in pair]
            continue
        pieces = [own[number][index] for _, own in chunks]
        values.append(merged_value(call, pieces))
        fall = fall_of(pieces) if call.name == MONOTONE else None
        if fall is not None:
            places.append(Place(*chunks[fall[0]][0], fall[1]))
    try:
        is_met = holds(condition, values)
    except ExpressionError as error:
        raise DataError(
            f"expectation '{rule.name}' ({rule.sql}): found {error}, expected a value. Use "
            "TRY_CAST or TRY, which give NULL instead."
        ) from error
    named = {call.sql: value for call, value in zip(condition.calls, values, strict=True)}
    first = tuple(dict.fromkeys(places))[:MOST_PLACES]
    return Judged(rule, rows, None, named, bool(is_met), () if is_met else first)


def _finite(value: Any) -> Any:
    """Returns a text instead of NaN and infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else show_number(value)


def found_of(entry: Mapping[str, Any]) -> str:
    """Returns what was found, of an expectation's entry in the manifest."""
    if "failed" not in entry:
        return ", ".join(f"{name} is {_shown(value)}" for name, value in entry["values"].items())
    failed, rows = entry["failed"], entry["rows"]
    share = f" ({show_share(failed, rows)})" if failed else ""
    return f"{failed:,} of {rows:,} rows fail{share}"


def described(entry: Mapping[str, Any]) -> str:
    """Returns an expectation that is not met in a line."""
    where = f"; the first is {entry['first'][0]}" if entry["first"] else ""
    return f"expectation '{entry['name']}', {show_condition(entry)}: {found_of(entry)}{where}"


def show_condition(entry: Mapping[str, Any]) -> str:
    """Returns the condition of an expectation's entry, and its budget."""
    sql = " ".join((entry.get("row") or entry["column"]).split())
    budget = f" (budget {show_budget(entry['budget'])})" if entry.get("budget") else ""
    return f"{shorten(sql, _SHOWN_SQL)}{budget}"


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yields the expectations of a dataset that are not met."""
    for entry in manifest.get("expectations", ()):
        if not entry["holds"]:
            yield described(entry)
