"""Conditions of whole columns, chunk by chunk, against DuckDB over all rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.sql import aggregates
from beam_pipelines.sql.database import ExpressionError

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("late", pa.bool_()),
        ("day", pa.date32()),
        ("t", pa.string()),
        ("A b", pa.int64()),
    ]
)
EMPTY = pa.RecordBatch.from_pylist([], schema=SCHEMA)
# Our aggregate -> DuckDB's, where it has another name or needs a cast.
AGGREGATES = {
    "count(*)": "count(*)",
    "count(x)": "count(x)",
    "sum(n)": "sum(n)",
    "sum(0.1 * n)": "sum(0.1 * n)",
    "avg(n)": "avg(n)",
    "avg(x)": "avg(x)",
    "avg(late)": "avg(late::INT)",
    "avg(n) FILTER (WHERE late)": "avg(n) FILTER (WHERE late)",
    "min(x)": "min(x)",
    "max(n)": "max(n)",
    "max(day)": "max(day)",
    "min(-x)": "min(-x)",
    "bool_and(late)": "bool_and(late)",
    "count_if(n > 2)": "count_if(n > 2)",
    'sum("A b")': 'sum("A b")',
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(2**40), 2**40),
            "x": st.none() | st.floats(-1e6, 1e6),
            "late": st.none() | st.booleans(),
            "day": st.none() | st.dates(),
            "t": st.none() | st.text(max_size=3),
            "A b": st.none() | st.integers(0, 3),
        }
    ),
    max_size=12,
)


def value_of(condition: aggregates.Condition, batch: pa.RecordBatch, cuts: list[int]) -> list[Any]:
    bounds = [0, *sorted(cut % (batch.num_rows + 1) for cut in cuts), batch.num_rows]
    chunks = [batch.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    return [
        aggregates.merged_value(
            call,
            [aggregates.select_values(chunk, condition.columns, call.pieces) for chunk in chunks],
        )
        for call in condition.calls
    ]


@given(ROWS, st.lists(st.integers(0, 12), max_size=3), st.sampled_from(sorted(AGGREGATES)))
def test_merged_aggregates_are_those_of_all_rows(rows, cuts, sql):
    """Any cut into chunks gives DuckDB's value."""
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    condition = aggregates.parse_condition("c", f"{sql} IS NOT NULL", EMPTY)
    values = value_of(condition, batch, cuts)
    everything = pa.Table.from_batches([batch])  # noqa: F841 - DuckDB reads it
    query = f"SELECT {AGGREGATES[sql]} FROM everything"  # noqa: S608 - SQL is what it is for
    ((expected,),) = duckdb.sql(query).fetchall()
    (found,) = values
    if isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-4)
    else:
        assert str(found) == str(expected) or float(found) == float(expected)
    assert aggregates.holds(condition, values) is (expected is not None)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("median(n) > 1", "the aggregate 'median', which cannot be merged"),
        ("stddev(x) > 1", "the aggregate 'stddev', which cannot be merged"),
        ("count(DISTINCT n) > 1", r"DISTINCT or ORDER BY in count\(DISTINCT n\)"),
        ("n > 1", "column 'n' outside of an aggregate"),
        ("avg(n) > x", "column 'x' outside of an aggregate"),
        ("avg(m) > 1", "column 'm', which is not there"),
        ("sum(sum(n)) > 1", "the function 'sum', which would see one batch only"),
        ("1 > 0", "no aggregate"),
        ("avg(n)", "a value of type DOUBLE, expected a condition"),
        ("avg(n) > random()", "the function 'random'"),
        ("avg(n) > (SELECT 1)", "a subquery"),
        ("min(t) > 'a'", r"min\(t\) of type VARCHAR"),
        ("avg(t) > 1", r"sum\(VARCHAR\)"),
        ("avg(n) > 1) OR (true", "syntax error|several values"),
        ("avg(n) > 1; SELECT 1", "syntax error|whole statement"),
    ],
)
def test_what_cannot_be_merged_is_refused(sql: str, found: str) -> None:
    """Every refusal says what was found."""
    with pytest.raises(ExpressionError, match=found):
        aggregates.parse_condition("c", sql, EMPTY)


@given(
    st.sampled_from([pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]),
    st.lists(st.none() | st.integers(-900_000, 3_900_000), min_size=1, max_size=8),
    st.lists(st.integers(0, 8), max_size=3),
)
def test_far_dates_are_merged_in_order(kind, days, cuts):
    """Texts of years before 1 and after 9999 have another order."""
    unit = 1 if pa.types.is_date(kind) else 86_400_000_000
    plain = pa.int32() if pa.types.is_date(kind) else pa.int64()
    numbers = pa.array([None if day is None else day * unit for day in days], plain)
    batch = pa.RecordBatch.from_arrays([numbers.cast(kind)], ["day"])
    condition = aggregates.parse_condition("c", "min(day) < max(day)", batch.slice(0, 0))
    values = value_of(condition, batch, cuts)
    assert values == list(aggregates.select_values(batch, ["day"], ("min(day)", "max(day)")))
    present = [day for day in days if day is not None]
    assert aggregates.holds(condition, values) is (min(present) < max(present) if present else None)
