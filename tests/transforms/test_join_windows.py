"""Tests windows of rows against DuckDB's aggregates, and against a loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.joins.index import build_index, join_batch, table_batch
from beam_pipelines.recipe.joins import Join, Window
from beam_pipelines.transforms.join.plan import plan_join
from tests.transforms.test_join_times import (
    HOURS,
    SEEDS,
    TYPES,
    asked,
    hours_of,
    joined,
    plan_of,
    rows,
    step_of,
    table_of,
)

# Feature -> aggregate of DuckDB over the rows of a window, which are ordered by time and place.
FEATURES = {
    "count()": "count(s.b)",
    "count(b_value)": "count(b_value)",
    "sum(b)": "sum(s.b)::BIGINT",
    "sum(b_value)": "fsum(b_value)",
    "mean(b)": "avg(s.b)",
    "mean(b_value)": "favg(b_value)",
    "min(b_value)": "min(b_value)",
    "max(b_value)": "max(b_value)",
    "min(t)": "min(s.t)",
    "max(t)": "max(s.t)",
    "std(b)": "stddev_samp(s.b)",
    "count_distinct(b_code)": "count(DISTINCT b_code)",
    "count_distinct(b_value)": "count(DISTINCT b_value)",
    "first(b_code)": "first(b_code ORDER BY s.t, s.b)",
    "last(b_code)": "last(b_code ORDER BY s.t, s.b)",
    "last(b, 3)": "(list(s.b ORDER BY s.t, s.b) FILTER (s.t IS NOT NULL))[-3:]",
    "last(b_code, 2)": "(list(b_code ORDER BY s.t, s.b) FILTER (s.t IS NOT NULL))[-2:]",
}


def agree(found: Any, expected: Any) -> bool:
    """Whether values are equal, but for the order of sums."""
    if isinstance(found, list):
        return found == (expected or [])
    if isinstance(found, float) and expected is not None:
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_features_are_duckdbs(seed: int) -> None:
    """Windows of several lengths in one join have DuckDB's values."""
    random = np.random.default_rng(seed)
    type_ = TYPES[seed % 3]
    left = table_of(random, int(random.integers(1, 30)), type_, "a")
    right = table_of(random, int(random.integers(0, 120)), type_, "b")
    over = None if seed % 3 else int(random.integers(1, 60)) * HOURS
    window = Window("t", "t", over=over, exact=bool(seed % 2))
    features = {f"f{place}": text for place, text in enumerate(FEATURES)}
    features |= {"short": "count() over 5h", "list": "last(b, 2) over 30h"}
    join = Join("b", (("k", "k"),), prefix="b_", window=window, features=features)
    found = joined(left, right, join)
    wanted = [*((text, over) for text in FEATURES.values())]
    wanted += [
        ("count(s.b)", 5 * HOURS),
        ("(list(s.b ORDER BY s.t, s.b) FILTER (s.t IS NOT NULL))[-2:]", 30 * HOURS),
    ]
    connection_sql = """
        SELECT {} FROM a LEFT JOIN b s ON a.k = s.k AND s.t {} a.t
            AND ({} IS NULL OR epoch_us(a.t::TIMESTAMP) - epoch_us(s.t::TIMESTAMP) <= {})
        GROUP BY a ORDER BY a"""
    for name, (sql, own) in zip(features, wanted, strict=True):
        limit = "NULL" if own is None else own
        sign = "<=" if window.exact else "<"
        expected = asked(connection_sql.format(sql, sign, limit, limit), a=left, b=right)
        values = found[f"b_{name}"].to_pylist()
        wrong = [
            (value, other)
            for value, (other,) in zip(values, expected, strict=True)
            if not agree(value, other)
        ]
        assert not wrong, (name, sql)


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_features_are_those_of_a_loop(seed: int) -> None:
    """Deviations, lists and kinds of joins are those of a loop."""
    random = np.random.default_rng(seed)
    left = table_of(random, int(random.integers(1, 30)), TYPES[0], "a")
    right = table_of(random, int(random.integers(0, 90)), TYPES[0], "b")
    over = int(random.integers(1, 30))
    window = Window("t", "t", "b", over=over * HOURS)
    features = {"std": "std(b_value)", "last": "last(b, 4)", "n": "count()", "sum": "sum(b)"}
    join = Join("b", (("k", "k"),), prefix="b_", window=window, features=features)
    rights = list(zip(right["k"].to_pylist(), hours_of(right), right.to_pylist(), strict=True))
    windows = []
    for key, time in zip(left["k"].to_pylist(), hours_of(left), strict=True):
        seen = [
            (other, row["b"], row["b_value"])
            for same, other, row in rights
            if None not in (key, time, other) and key == same and 0 < time - other <= over
        ]
        windows.append(sorted(seen, key=lambda each: each[:2]))
    found = joined(left, right, join)
    for row, seen in zip(found.to_pylist(), windows, strict=True):
        values = [value for *_, value in seen if value is not None]
        assert row["b_n"] == len(seen)
        assert row["b_last"] == [number for _, number, _ in seen[-4:]]
        assert row["b_sum"] == (sum(number for _, number, _ in seen) if seen else None)
        expected = np.std(values, ddof=1) if len(values) > 1 else None
        assert agree(row["b_std"], expected), (row, expected)
    for how in ("inner", "semi", "anti"):
        own = features if how == "inner" else {}
        join = Join("b", (("k", "k"),), how, "b_", window=window, features=own)
        kept = joined(left, right, join)
        mask = [bool(seen) != (how == "anti") for seen in windows]
        assert kept.equals(found.select(kept.schema.names).filter(pa.array(mask)))


def test_a_sum_depends_on_the_rows_of_its_key_alone() -> None:
    """Other keys in the index do not change a bit of it."""
    random = np.random.default_rng(0)
    alone = rows(range(1, 200), v=random.normal(size=199).tolist())
    other = pa.table({"k": ["a"] * 77, "t": alone["t"][:77], "v": (random.normal(size=77) * 1e18)})
    features = {"sum": "sum(v)", "mean": "mean(v)", "std": "std(v)"}
    join = Join("b", (("k", "k"),), window=Window("t", "t"), features=features)
    left = rows(range(0, 250, 7), a=list(range(36)))
    assert joined(left, alone, join).equals(joined(left, pa.concat_tables([other, alone]), join))


def joined_once(left: pa.Table, right: pa.Table, join: Join) -> pa.RecordBatch:
    """Joins in one piece."""
    index = build_index(right, join, step_of(left, right, join).added)
    return join_batch(table_batch(left), index, join)[0]


def test_extremes_of_nan_are_duckdbs() -> None:
    """NaN is the largest number; infinities are numbers."""
    values = [float("nan"), 1.0, float("inf"), float("nan"), float("nan"), -float("inf")]
    right = rows(range(6), v=pa.array(values))
    features = {"low": "min(v)", "high": "max(v)"}
    join = Join("b", (("k", "k"),), window=Window("t", "t", over=HOURS * 2), features=features)
    left = rows(range(1, 8), a=list(range(7)))
    found = joined_once(left, right, join).select(["low", "high"]).to_pylist()
    sql = "SELECT min(v) low, max(v) high FROM a LEFT JOIN b ON b.t < a.t AND a.t - b.t <= INTERVAL 2 HOUR GROUP BY a.t ORDER BY a.t"
    assert [repr(tuple(row.values())) for row in found] == [
        repr(row) for row in asked(sql, a=left, b=right)
    ]


def test_sums_that_do_not_fit_are_an_error() -> None:
    """No sum of whole numbers wraps around."""
    right = rows([1, 2], v=[2**62, 2**62])
    join = Join("b", (("k", "k"),), window=Window("t", "t"), features={"n": "sum(v)"})
    with pytest.raises(DataError, match="may not fit in an int64"):
        joined(rows([5]), right, join)
    join = Join("b", (("k", "k"),), window=Window("t", "t"), features={"n": "max(v)"})
    assert joined(rows([5]), right, join)["n"].to_pylist() == [2**62]


def test_a_key_with_many_rows_costs_little() -> None:
    """Long windows are not looked at row by row."""
    number = 200_000
    right = pa.table(
        {
            "k": pa.array([1] * number),
            "t": pa.array(range(number), pa.timestamp("us")),
            "v": pa.array(range(number)),
            "c": pa.array([each % 1000 for each in range(number)]),
        }
    )
    features = {"high": "max(v)", "kinds": "count_distinct(c)", "sum": "sum(v)"}
    join = Join("b", (("k", "k"),), window=Window("t", "t"), features=features)
    left = right.select(["k", "t"])
    found = joined_once(left, right, join)
    places = np.arange(number)
    assert np.array_equal(found["kinds"].to_numpy(), np.minimum(places, 1000))
    assert np.array_equal(found["sum"].fill_null(0).to_numpy(), places * (places - 1) // 2)
    assert np.array_equal(found["high"].fill_null(-1).to_numpy(), places - 1)


def test_columns_of_features_are_checked() -> None:
    """Unknown columns and those of wrong types are errors."""
    right = rows([1], name=["x"], tags=[["a"]])
    features = {
        "a": "sum(name)",
        "b": "max(name)",
        "c": "last(tags, 2)",
        "d": "count_distinct(tags)",
        "e": "mean(nam)",
    }
    join = Join("b", (("k", "k"),), window=Window("t", "t"), features=features)
    with pytest.raises(RecipeProblems) as caught:
        step_of(rows([1]), right, join)
    found = {problem.path[-1]: problem.message for problem in caught.value.problems}
    assert found == {
        "a": "column 'name' is text, expected a number.",
        "b": "column 'name' is text, expected a number, a date or a time.",
        "c": "column 'tags' is list<text>, expected one value in a row.",
        "d": "column 'tags' is list<text>, expected one value in a row.",
        "e": "found 'nam', expected a column of 'b'. Did you mean 'name'?",
    }


def test_a_later_join_is_on_a_feature() -> None:
    """A key of another type is an error with a remedy."""
    schemas = {
        "a": pa.schema({"k": pa.string(), "t": TYPES[0]}),
        "b": pa.schema({"k": pa.string(), "t": TYPES[0], "item": pa.string()}),
        "c": pa.schema({"item": pa.string(), "price": pa.int64()}),
    }
    plans = {name: plan_of(name, schema) for name, schema in schemas.items()}
    features = {"item": "last(item)", "n": "count()"}
    window = Join("b", (("k", "k"),), window=Window("t", "t"), features=features)
    plan = plan_join((window, Join("c", (("item", "item"),))), plans["a"], plans)
    assert plan.schema.names == ["k", "t", "item", "n", "price"]
    with pytest.raises(RecipeProblems) as caught:
        plan_join((window, Join("c", (("n", "item"),))), plans["a"], plans)
    [problem] = caught.value.problems
    assert problem.path == ("join", 1, "on")
    assert "'n' is int64 and 'item' of source 'c' is text" in problem.message
    assert "TRY_CAST(item AS BIGINT)\"}' to source 'c'" in problem.message
