"""Comparisons of columns with constants, which a condition implies."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.sql.comparisons import Comparison, comparisons_of
from beam_pipelines.sql.expressions import evaluate, parse_expression

TYPES = {
    "i": pa.int64(),
    "x": pa.float64(),
    "f": pa.float32(),
    "t": pa.string(),
    "d": pa.date32(),
    "s": pa.timestamp("us"),
}
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime.fromisoformat("2024-02-29T12:00")


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


ATOMS = [
    *(f"i {operator} {value}" for operator in ("<", ">=", "=", "<>") for value in (-1, 0, 2)),
    *("i IN (0, 2)", "i BETWEEN 0 AND 1", "2 > i", "i IS NULL", "i IS NOT NULL", "x > 0.1"),
    *("x <= 0.1", "x = 2", "t = 'a'", "t IN ('a', '')", "t <> 'a'", "t IS NOT NULL"),
    *("d > '2024-02-28'", "d = DATE '2024-02-29'", "s <= '2024-02-29'", "NULL", "TRUE"),
]
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})")
        | inner.map(lambda one: f"(NOT {one})")
    ),
    max_leaves=6,
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "i": [None, -1, 0, 1, 2, 3] * 6,
        "x": [None, 0.1, 0.1, 2.0, float("nan"), -0.0, 0.2] * 5 + [0.1],
        "f": [1.0] * 36,
        "t": [None, "a", "", "b"] * 9,
        "d": [None, DAY, datetime.date(2024, 2, 28)] * 12,
        "s": [None, NOON, datetime.datetime.fromisoformat("2024-02-29")] * 12,
    },
    schema=pa.schema(list(TYPES.items())),
)


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
