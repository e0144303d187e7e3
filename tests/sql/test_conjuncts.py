"""Parts of a condition that AND joins."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.sql.conjuncts import conjunction, conjuncts_of
from beam_pipelines.sql.expressions import evaluate, parse_expression
from tests.sql.test_comparisons import CONDITIONS, ROWS, TYPES


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a", ["a"]),
        ("a > 5 AND b BETWEEN 1 AND 3 and NOT c", ["a > 5", "b BETWEEN 1 AND 3", "NOT c"]),
        ("x NOT BETWEEN 1 AND 2 AND y", ["x NOT BETWEEN 1 AND 2", "y"]),
        ("(a AND b) AND c = 'x;--'", ["a", "b", "c = 'x;--'"]),
        ("a AND ((b AND (c OR d AND e)) AND f)", ["a", "b", "(c OR d AND e)", "f"]),
        ("((a\nAND\nb))", ["a", "b"]),
        ("a AND (b) AND c IN ('(', ')')", ["a", "(b)", "c IN ('(', ')')"]),
        ("a OR b AND c", ["a OR b AND c"]),
        ("NOT (a AND b) AND c", ["NOT (a AND b)", "c"]),
        ("x = 'p AND q' AND \"y and z\"", ["x = 'p AND q'", '"y and z"']),
        ("CASE WHEN a AND b THEN c END AND d", ["CASE WHEN a AND b THEN c END", "d"]),
        (
            "list_filter(l, lambda x: x > 1 AND x < 3) = [] AND d",
            ["list_filter(l, lambda x: x > 1 AND x < 3) = []", "d"],
        ),
        ("a -- not b AND c\nAND b", ["a -- not b AND c\nAND b"]),
        ("a -- note\nAND b", ["a -- note", "b"]),
        ("a AND /* b AND */ c", ["a", "/* b AND */ c"]),
        ("ö = 'é' AND b", ["ö = 'é'", "b"]),
    ],
)
def test_parts(condition: str, expected: list[str]) -> None:
    """Only outer ANDs cut; a text that cannot be cut stays whole."""
    assert conjuncts_of(condition) == expected


def test_a_comment_ends_before_the_next_part() -> None:
    """The condition of the parts is evaluated as the whole one."""
    parts = conjuncts_of("i > 0 -- note\nAND x > 0.1")
    found = evaluate(ROWS, parse_expression("filter", conjunction(parts), list(TYPES)))
    both = evaluate(ROWS, parse_expression("filter", "i > 0 AND x > 0.1", list(TYPES)))
    assert found.equals(both)


@given(st.lists(CONDITIONS, min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_a_row_fulfils_a_condition_if_it_fulfils_its_parts(conditions: list[str]) -> None:
    """This holds for nulls too, whatever the order of the parts."""
    whole = " AND ".join([*conditions, "TRUE"])
    parts = conjuncts_of(whole)
    assert len(parts) >= len(conditions)
    first, others = parts[::2], [*parts[1::2], "TRUE"]
    left = ROWS
    for sql in (f"{conjunction(first)} AND TRUE", f"{conjunction(others)} AND TRUE"):
        taken = evaluate(left, parse_expression("filter", sql, list(TYPES)))
        left = left.filter(pc.fill_null(taken, False))
    expected = ROWS.filter(evaluate(ROWS, parse_expression("filter", whole, list(TYPES))))
    assert str(left.to_pydict()) == str(expected.to_pydict())


def test_long_conditions_are_divided() -> None:
    """Hundreds of parts in brackets are found."""
    names = [f"a{number} > {number}" for number in range(300)]
    assert conjuncts_of(f"({' AND '.join(names)}) AND b") == [*names, "b"]
    nested = " OR ".join(f"({name} AND c)" for name in names)
    assert len(conjuncts_of(f"b AND ({nested})")) == 2
