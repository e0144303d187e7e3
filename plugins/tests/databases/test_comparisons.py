"""Comparisons of columns with constants, which a condition implies."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings

from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines_plugins.databases.comparisons import Comparison, comparisons_of
from tests.sql.test_conjuncts import CONDITIONS, DAY, NOON, ROWS, TYPES


def found(condition: str) -> list[Comparison]:
    """The comparisons of a condition."""
    return comparisons_of(parse_expression("filter", condition, list(TYPES)), TYPES)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i > 5", [("i", ">", (5,))]),
        ("5 >= I", [("i", "<=", (5,))]),
        ("i = -5 AND (x < 2 AND x < 2)", [("i", "=", (-5,)), ("x", "<", (2.0,))]),
        ("x BETWEEN 0.1 AND 2.50", [("x", ">=", (0.1,)), ("x", "<=", (2.5,))]),
        ("t IN ('a', 'b')", [("t", "IN", ("a", "b"))]),
        ("t IS NOT NULL", [("t", "IS NOT NULL", ())]),
        ("d < DATE '2024-02-29'", [("d", "<", (DAY,))]),
        ("d < '2024-02-29'", [("d", "<", (DAY,))]),
        ("s >= TIMESTAMP '2024-02-29 12:00:00'", [("s", ">=", (NOON,))]),
        ("s >= '2024-02-29T12:00'", [("s", ">=", (NOON,))]),
    ],
)
def test_comparisons(condition: str, expected: list[tuple[str, str, tuple[object, ...]]]) -> None:
    """Each part between AND that is a comparison is found."""
    assert [tuple(each) for each in found(condition)] == expected


def test_a_negated_comparison() -> None:
    """DuckDB's parser turns it around until 1.4, as it may."""
    assert [tuple(each) for each in found("NOT (i > 5)")] in ([], [("i", "<=", (5,))])


@pytest.mark.parametrize(
    "condition",
    [
        "i > 5 OR x > 5",
        "i <> 5",
        "i IS NULL",
        "i NOT IN (5, 6)",
        "i IN (5, NULL)",
        "i > x",
        "i + 1 > 5",
        "i > 9223372036854775808",
        "i > 5.0",
        "i > '5'",
        "i = 5::BIGINT",
        "x > 0.1234567890123456",
        "x > 1e3",
        "x > 9007199254740993",
        "f > 5",
        "t > 'a'",
        "t = 'it''s'",
        "t = 'a\\b'",
        "t = 'a' COLLATE NOCASE",
        "d < '2024-02-30'",
        "d < '2024-2-9'",
        "d < TIMESTAMP '2024-02-29 12:00:00'",
        "d < 'infinity'",
        "s < '2024-02-29 12:00:00+02'",
        "s < '2024-02-29 12:00:00.1234567'",
        "TRY_CAST('2024-02-29' AS DATE) > d",
        "list_contains([5], i)",
    ],
)
def test_others_are_left(condition: str) -> None:
    """Servers may evaluate these otherwise, so none is sent."""
    assert found(condition) == []


@given(CONDITIONS)
@settings(max_examples=120, deadline=None)
def test_a_condition_implies_its_comparisons(condition: str) -> None:
    """Each row that a condition takes has all of the comparisons."""
    # NULL alone is no boolean.
    taken_by = parse_expression("filter", f"{condition} AND TRUE", list(TYPES))
    taken = ROWS.filter(evaluate(ROWS, taken_by))
    for column, operator, values in found(condition):
        constants = ", ".join(
            f"'{each}'" if isinstance(each, str | datetime.date) else repr(each) for each in values
        )
        right = f" ({constants})" if operator == "IN" else f" {constants}"
        sql = f"{column} {operator}{right if values else ''}"
        comparison = parse_expression("filter", sql, list(TYPES))
        assert all(evaluate(taken, comparison).to_pylist()), (condition, sql)
