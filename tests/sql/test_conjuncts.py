"""Parts of a condition that AND joins."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.sql.conjuncts import conjuncts_of
from beam_pipelines.sql.expressions import evaluate, parse_expression

TYPES = {
    "i": pa.int64(), "x": pa.float64(), "f": pa.float32(), "t": pa.string(), "d": pa.date32(),
    "s": pa.timestamp("us"),
}  # fmt: skip
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime.fromisoformat("2024-02-29T12:00")
ATOMS = [
    *(f"i {operator} {value}" for operator in ("<", ">=", "=", "<>") for value in (-1, 0, 2)),
    *("i IN (0, 2)", "i BETWEEN 0 AND 1", "2 > i", "i IS NULL", "i IS NOT NULL", "x > 0.1"),
    *(
        "list_filter([i], lambda k: k > 1) = [2]",
        "t COLLATE NOCASE = 'A'",
        "x > 1e-3",
        "CASE WHEN i > 0 AND x > 0 THEN TRUE END",
    ),
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


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a", ["a"]),
        ("a > 5 AND b BETWEEN 1 AND 3 and NOT c", ["(a > 5)", "(b BETWEEN 1 AND 3)", "(NOT c)"]),
        ("(a AND b) AND c = 'x;--'", ["a", "b", "(c = 'x;--')"]),
        ("a AND ((b AND (c OR d AND e)) AND f)", ["a", "b", "(c OR (d AND e))", "f"]),
        ("((a\nAND\nb))", ["a", "b"]),
        ("a OR b AND c", ["a OR b AND c"]),
        ("NOT (a AND b) AND c", ["(NOT (a AND b))", "c"]),
        ("\"y and z\" AND x = 'p AND q'", ['"y and z"', "(x = 'p AND q')"]),
        ("a -- not b AND c\nAND b", ["a", "b"]),
        ("ö = 'é' AND b", ["(\"ö\" = 'é')", "b"]),
    ],
)
def test_parts(condition: str, expected: list[str]) -> None:
    """Only outer ANDs cut; one part stays as it is."""
    assert conjuncts_of(condition) == expected


@given(st.lists(CONDITIONS, min_size=1, max_size=4))
def test_a_row_fulfils_a_condition_if_it_fulfils_its_parts(conditions: list[str]) -> None:
    """This holds for nulls too, whatever the order of the parts."""
    whole = " AND ".join([*conditions, "TRUE"])
    parts = conjuncts_of(whole)
    assert len(parts) >= len(conditions)
    first, others = parts[::2], [*parts[1::2], "TRUE"]
    left = ROWS
    for sql in (" AND ".join([*first, "TRUE"]), " AND ".join(others)):
        taken = evaluate(left, parse_expression("filter", sql, list(TYPES)))
        left = left.filter(pc.fill_null(taken, False))
    expected = ROWS.filter(evaluate(ROWS, parse_expression("filter", whole, list(TYPES))))
    assert str(left.to_pydict()) == str(expected.to_pydict())


def test_long_conditions_are_divided() -> None:
    """Hundreds of parts in brackets are found."""
    names = [f"(a{number} > {number})" for number in range(300)]
    assert conjuncts_of(f"({' AND '.join(names)}) AND b") == [*names, "b"]
    nested = " OR ".join(f"({name} AND c)" for name in names)
    assert len(conjuncts_of(f"b AND ({nested})")) == 2
