"""Expectations on chunks: what fails, where, and how chunks are merged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.checks.expect import check_rows, judge_columns, judge_rows, plan_expectations
from beam_pipelines.checks.expectations import Expectation
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.places import Place
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sql.aggregates import Condition
from beam_pipelines.transforms.select.select import plan_select, select_chunk

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("N", pa.int64())])


def judged(rule: Expectation, batch: pa.RecordBatch, size: int) -> tuple[Any, ...]:
    problems: list[Problem] = []
    [expected] = plan_expectations([rule], batch.slice(0, 0), problems)
    assert not problems
    chunks = [
        ((start // size, 0), check_rows([expected], batch.slice(start, size))[0])
        for start in range(0, batch.num_rows, size)
    ]
    if isinstance(expected.condition, Condition):
        return judge_columns(rule, expected.condition, chunks)
    return judge_rows(rule, chunks, batch.num_rows)


NUMBERS = st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=20)


@given(NUMBERS, st.integers(1, 7), st.integers(0, 5))
def test_rows_against_a_loop(numbers: list[int | None], size: int, budget: int) -> None:
    """False fails; true and null pass."""
    batch = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    rule = Expectation("e", row="n > 0", budget=budget)
    is_met, places, entry, _ = judged(rule, batch, size)
    failing = [row for row, number in enumerate(numbers) if number is not None and number <= 0]
    assert entry["failed"] == len(failing)
    assert is_met == (len(failing) <= budget)
    assert list(places) == [Place(row // size, 0, row % size) for row in failing[:10]]


def test_a_share_is_of_all_rows() -> None:
    """Ten percent of 20 rows are two."""
    for bad, holds in ((2, True), (3, False)):
        batch = pa.record_batch({"n": [0] * bad + [1] * (20 - bad)})
        rule = Expectation("e", row="n > 0", budget=0.1)
        assert judged(rule, batch, 6)[0] is holds


def test_a_condition_of_no_values_is_not_met() -> None:
    """The average of nulls is null."""
    batch = pa.record_batch({"n": pa.array([None, None], pa.int64())})
    assert not judged(Expectation("e", column="avg(n) < 5"), batch, 1)[0]


def test_names_that_differ_by_case() -> None:
    """Conditions on both are evaluated one by one."""
    batch = pa.record_batch([pa.array([1]), pa.array([2.0]), pa.array([3])], schema=SCHEMA)
    problems: list[Problem] = []
    rules = [Expectation("a", row='"n" = 1'), Expectation("b", row='"N" = 1')]
    assert check_rows(plan_expectations(rules, batch, problems), batch) == ((0,), (1, 0))


def recipe(*rules: Expectation, **keys: object) -> Recipe:
    return Recipe("test", {}, "flights", checks={"expect": rules}, **keys)


def test_conditions_see_dropped_and_derived_columns() -> None:
    """They are evaluated after filter and derive, before drop."""
    rules = [Expectation("a", row="y > 20"), Expectation("b", column="count(n) = 2")]
    made = recipe(*rules, filter="n > 0", derive={"y": "n * 10"}, drop=("n", "y"))
    plan = plan_select(made, SCHEMA)
    batch = pa.record_batch(
        [pa.array([0, 2, 3]), pa.array([1.0] * 3), pa.array([1] * 3)], schema=SCHEMA
    )
    chunk = select_chunk(Chunk(0, 0, batch, {}), plan)
    assert chunk.batch.schema.names == ["x", "N"]
    assert chunk.pieces == (((1, 0), ((2,),)),)


LISTS = pa.list_(pa.int64())
COLUMNS = pa.schema([("i", LISTS), ("j j", LISTS), ("v", LISTS), ("one", pa.float64())])
CELL = st.none() | st.lists(st.just(1), max_size=3)
COMPOSED = text_format.Parse(
    """
    sparse_feature {
      name: "s" value_feature { name: "v" } index_feature { name: "j j" } index_feature { name: "i" }
    }
    sparse_feature { name: "t" value_feature { name: "v" } index_feature { name: "absent" } }
    sparse_feature {
      name: "u" value_feature { name: "v" } index_feature { name: "i" } lifecycle_stage: DEPRECATED
    }
    weighted_feature { name: "w" feature { step: "v" } weight_feature { step: "one" } }
    """,
    schema_pb2.Schema(),
)


@given(
    st.lists(
        st.fixed_dictionaries({"i": CELL, "j j": CELL, "v": CELL, "one": st.none() | st.just(0.5)}),
        min_size=1,
        max_size=12,
    )
)
def test_sparse_and_weighted_features_of_a_schema(rows: list[dict[str, Any]]) -> None:
    """Rows fail whose columns have other numbers of values."""

    def failing(*names: str) -> int:
        sizes = [
            {len(cell) if isinstance(cell, list) else cell and 1 for cell in map(row.get, names)}
            for row in rows
        ]
        return sum(len(own) > 1 for own in sizes)

    plan = plan_select(Recipe("test", {}, "d"), COLUMNS, contract=COMPOSED.SerializeToString())
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    [[sparse, weighted]] = select_chunk(Chunk(0, 0, batch, {}), plan).pieces
    assert sparse[0] == failing("v", "i", "j j")
    assert weighted[0] == failing("v", "one")


@pytest.mark.parametrize(
    ("rule", "path", "found"),
    [
        (Expectation("a", row="m > 0"), ("expect", 0, "row"), "column 'm'"),
        (Expectation("a", row="n + 1"), ("expect", 0, "row"), "a value of type int64"),
        (Expectation("a", row="avg(n) > 0"), ("expect", 0, "row"), "the function 'avg'"),
        (Expectation("a", column="n > 0"), ("expect", 0, "column"), "outside of an aggregate"),
    ],
)
def test_wrong_conditions(rule: Expectation, path: tuple[str | int, ...], found: str) -> None:
    """They are found before data are read."""
    with pytest.raises(RecipeProblems) as raised:
        plan_select(recipe(rule), SCHEMA)
    (problem,) = raised.value.problems
    assert problem.path == path
    assert found in problem.message


@pytest.mark.parametrize(
    "rule",
    [
        Expectation("bad", row="CAST('x' || n AS BIGINT) > 0"),
        Expectation("bad", column="sum(CAST('x' || n AS BIGINT)) > 0"),
    ],
)
def test_a_condition_without_a_value_is_an_error(rule: Expectation) -> None:
    """The message names the expectation and the file."""
    plan = plan_select(recipe(Expectation("good", row="n > 0"), rule), SCHEMA)
    batch = pa.record_batch([pa.array([7]), pa.array([1.0]), pa.array([1])], schema=SCHEMA)
    with pytest.raises(DataError, match=r"d.csv, expectation 'bad' .*Could not convert"):
        select_chunk(Chunk(0, 0, batch, {}, path="d.csv"), plan)
