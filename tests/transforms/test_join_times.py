"""Tests joins over time against DuckDB, and against a loop over rows."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.joins.index import build_index, join_batch, table_batch
from beam_pipelines.recipe.joins import AsOf, Join
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms.join import hash_join
from beam_pipelines.transforms.join.plan import JoinStep, plan_join
from beam_pipelines.transforms.meet import send_counts
from tests.transforms.test_join import exchange

HOURS = 3_600_000_000
TYPES = [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()]

# The oracle's tables; `make test-slow` has those from the 200th on.
SEEDS = [*range(200), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(200, 1000))]


def times_of(random: np.random.Generator, rows: int, type_: pa.DataType) -> pa.Array:
    """Draws few times, so that many are equal; some are null."""
    times = pa.array(random.integers(-20, 20, rows), mask=random.random(rows) < 0.1)
    if pa.types.is_date(type_):
        return times.cast(pa.int32()).cast(type_)
    return pc.multiply(times, HOURS).cast(type_)


def hours_of(table: pa.Table) -> list[int | None]:
    """Returns the times in hours."""
    times = table["t"]
    if pa.types.is_date(times.type):
        return [None if day is None else 24 * day for day in times.cast(pa.int32()).to_pylist()]
    return [hour if hour is None else hour // HOURS for hour in times.cast(pa.int64()).to_pylist()]


def table_of(random: np.random.Generator, rows: int, type_: pa.DataType, name: str) -> pa.Table:
    """Draws keys, times and values; a row's number is ``name``."""
    keys = [None if each == 0 else f"k{each}" for each in random.integers(0, 5, rows)]
    values = random.choice([None, 0.5, -2.0, 1e17, 3.0], rows).tolist()
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "t": times_of(random, rows, type_),
            name: pa.array(range(rows), pa.int64()),
            f"{name}_value": pa.array(values, pa.float64()),
            f"{name}_code": pa.array(
                random.choice([None, "a", "b", "c"], rows).tolist(), pa.string()
            ),
        }
    )


def plan_of(name: str, schema: pa.Schema) -> SourcePlan:
    """Plans a source that has no files."""
    return SourcePlan(Source(name, (name,)), "csv", (FileInfo(name, 1),), schema, schema, ())


def step_of(left: pa.Table, right: pa.Table, join: Join) -> JoinStep:
    """Plans a join of tables, by hash, in three partitions."""
    plans = {"a": plan_of("a", left.schema), "b": plan_of("b", right.schema)}
    [step] = plan_join((join,), plans["a"], plans).steps
    return dataclasses.replace(step, partitions=3, strategy="hash")


def joined(left: pa.Table, right: pa.Table, join: Join) -> pa.Table:
    """Joins in one piece, and by partitions of pieces; both are equal."""
    step = step_of(left, right, join)
    index = build_index(right, join, step.added)
    whole, counts = join_batch(table_batch(left), index, join)
    assert whole.schema == step.schema

    def chunks(table: pa.Table) -> list[Chunk]:
        batches = table.to_batches(max_chunksize=7)
        return [Chunk(number, 0, batch, {}) for number, batch in enumerate(batches)]

    sent = [hash_join.send_left(chunk, step) for chunk in chunks(left)]
    sent += [hash_join.send_right(chunk, step) for chunk in chunks(right)]
    returned = [send_counts(chunk) for chunk in chunks(left)]
    for received in exchange(sent, 1):
        returned += hash_join.join_partition(received, step, 100, 50)
    restored = [
        chunk
        for received in sorted(exchange(returned), key=lambda each: each.partition)
        for chunk in hash_join.restore_range(received, step)
    ]
    total: collections.Counter[str] = collections.Counter()
    for chunk in restored:
        total.update(chunk.counts)
    assert pa.Table.from_batches([chunk.batch for chunk in restored], step.schema).equals(
        pa.Table.from_batches([whole])
    )
    assert total == counts
    return pa.Table.from_batches([whole])


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """Returns a connection in UTC."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def asked(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the rows of a query of tables."""
    connection = database().cursor()
    for name, table in tables.items():
        connection.register(name, table)
    return connection.execute(sql).fetchall()


def newest(left: pa.Table, right: pa.Table, as_of: AsOf) -> list[int | None]:
    """Finds the newest row of each left row by a loop."""
    reach = float("inf") if as_of.tolerance is None else as_of.tolerance / HOURS
    rights = list(zip(right["k"].to_pylist(), hours_of(right), right["b"].to_pylist(), strict=True))
    found = []
    for key, time in zip(left["k"].to_pylist(), hours_of(left), strict=True):
        seen = [
            (other, row)
            for same, other, row in rights
            if None not in (key, time, other)
            and key == same
            and 0 <= time - other <= reach
            and (as_of.exact or time != other)
        ]
        found.append(max(seen)[1] if seen else None)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_as_of_is_duckdbs_and_that_of_a_loop(seed: int) -> None:
    """Each left row gets the newest row at its time."""
    random = np.random.default_rng(seed)
    type_ = TYPES[seed % 3]
    left = table_of(random, int(random.integers(1, 40)), type_, "a")
    right = table_of(random, int(random.integers(0, 40)), type_, "b")
    tolerance = None if seed % 2 else int(random.integers(1, 60)) * HOURS
    as_of = AsOf("t", "t", "b", tolerance, exact=bool(seed % 5))
    expected = newest(left, right, as_of)
    # DuckDB takes any of several newest rows, and knows no tolerance.
    sign = ">=" if as_of.exact else ">"
    reach = 10**6 if tolerance is None else tolerance // HOURS
    rows = asked(
        f"""WITH single AS
            (FROM b QUALIFY row_number() OVER (PARTITION BY k, t ORDER BY b DESC) = 1)
        SELECT a, b, date_diff('hour', s.t::TIMESTAMP, a.t::TIMESTAMP)
        FROM a ASOF LEFT JOIN single s ON a.k = s.k AND a.t {sign} s.t ORDER BY a""",  # noqa: S608
        a=left,
        b=right,
    )
    assert [row if row is not None and age <= reach else None for _, row, age in rows] == expected
    join = Join("b", (("k", "k"),), prefix="b_", as_of=as_of)
    assert joined(left, right, join)["b_b"].to_pylist() == expected
    for how, kept in (("inner", True), ("semi", True), ("anti", False)):
        found = joined(left, right, Join("b", (("k", "k"),), how, "b_", as_of=as_of))
        assert found["a"].to_pylist() == [
            row for row, other in enumerate(expected) if (other is not None) == kept
        ]
        if how == "inner":
            assert found["b_b"].to_pylist() == [other for other in expected if other is not None]
        else:
            assert found.schema.names == left.schema.names


@pytest.mark.parametrize("seed", range(40))
def test_semi_and_anti_joins_are_duckdbs(seed: int) -> None:
    """Without times, each left row is kept once or not at all."""
    random = np.random.default_rng(seed)
    left = table_of(random, int(random.integers(1, 40)), TYPES[0], "a")
    right = table_of(random, int(random.integers(0, 6)), TYPES[0], "b")
    for how in ("semi", "anti"):
        found = joined(left, right, Join("b", (("k", "k"),), how))
        expected = asked(
            f"SELECT a FROM a {how.upper()} JOIN b USING (k) ORDER BY a",  # noqa: S608
            a=left,
            b=right,
        )
        assert found["a"].to_pylist() == [row for (row,) in expected]


def rows(times: Sequence[int], **more: list[Any]) -> pa.Table:
    """Returns rows of one key at some hours."""
    moments = pa.array([hour * HOURS for hour in times], pa.timestamp("us"))
    return pa.table({"k": ["x"] * len(times), "t": moments, **more})


def test_several_newest_rows_are_an_error_that_names_them() -> None:
    """Equal times are told, with the line that orders them, which works."""
    left, right = rows([0, 5]), rows([1, 1, 3, 3], b=[1, 2, 3, 4], c=[7, 7, 8, 7])
    with pytest.raises(
        DataError, match=r"'b': found several rows with k='x', 't' 1970-01-01T03"
    ) as e:
        joined(left, right, Join("b", (("k", "k"),), prefix="b_", as_of=AsOf("t", "t")))
    assert "'tie: version' in 'as_of'" in str(e.value)
    as_of = AsOf("t", "t", "c")
    found = joined(left, right, Join("b", (("k", "k"),), prefix="b_", as_of=as_of))
    assert found["b_b"].to_pylist() == [None, 3]
    # Rows that are the newest for no row may be tied, and so may rows that are only counted.
    joined(
        rows([4]),
        rows([1, 1, 3], b=[1, 2, 3]),
        Join("b", (("k", "k"),), as_of=AsOf("t", "t"), prefix="b_"),
    )
    joined(left, right, Join("b", (("k", "k"),), "semi", as_of=AsOf("t", "t")))


def test_equal_newest_rows_count_as_one() -> None:
    """A row that is logged twice is no tie."""
    join = Join("b", (("k", "k"),), prefix="b_", as_of=AsOf("t", "t"))
    left = rows([1, 2, 5])
    right = rows([1, 1, 1, 2, 4, 4], b=[[1, None]] * 3 + [None] * 3, c=[0.5] * 6)
    found = joined(left, right, join)
    assert found["b_b"].to_pylist() == [[1, None], None, None]
    for place in range(3):
        values = [0 if each == place else 7 for each in range(6)]
        with pytest.raises(DataError, match="found several rows"):
            joined(left, right.set_column(2, "b", pa.array(values)), join)


def test_a_row_of_the_future_is_an_error() -> None:
    """The check sees an index that is out of order."""
    join = Join("b", (("k", "k"),), prefix="b_", as_of=AsOf("t", "t"))
    index = build_index(rows([1, 2, 3]), join, [])
    assert index.order is not None
    index.order.rows[:] = index.order.rows[::-1].copy()
    with pytest.raises(DataError, match=r"a row of the future was found for 1 rows"):
        join_batch(table_batch(rows([1])), index, join)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("timestamptz", "timestamp", "A time without a zone is neither"),
        ("timestamp", "timestamptz", "A time without a zone is neither"),
        ("date", "timestamptz", "A time without a zone is neither"),
        ("date", "timestamp", "'t' is date and 't' is timestamp of source 'b'"),
        ("int64", "timestamp", "column 't' is int64, expected a date or"),
        ("date", "int64", "column 't' is int64, expected a date or"),
        ("text", "timestamp", "column 't' is text, expected a date or"),
    ],
)
def test_remedies_of_times_work(tmp_path: Path, left: str, right: str, message: str) -> None:
    """The lines of the messages make the join plannable."""
    types, as_of, plans, told = {"a": left, "b": right}, AsOf("t", "t"), {}, []
    for name, type_ in types.items():
        path = tmp_path / f"{name}.csv"
        plain = {"text": "01.01.2024", "int64": "17", "date": "2024-01-01"}
        value = plain.get(type_, "2024-01-01T00:00:00Z")
        path.write_text(f"k,t\nx,{value.removesuffix('' if type_[-1] == 'z' else 'Z')}\n")
        plans[name] = plan_source(Source(name, (str(path),), types={"t": type_}), "")
    while len(told) < 3:
        try:
            plan_join((Join("b", (("k", "k"),), prefix="b_", as_of=as_of),), plans["a"], plans)
            break
        except RecipeProblems as error:
            [problem] = error.problems
        told.append(problem.message)
        line = re.search(r"derive: (\{.*?\})'", problem.message)
        assert line is not None
        # The message names the column, which both sides call t: the side whose type it speaks of.
        weak = next((each for each in ("int64", "text") if each in problem.message), "date")
        weak = weak if weak in types.values() else "timestamp"
        side = next(name for name, type_ in types.items() if type_ == weak)
        plans[side] = with_derived(plans[side], yaml.safe_load(line[1]))
        as_of = dataclasses.replace(as_of, **{"left" if side == "a" else "right": "t_time"})
        types[side] = "timestamp"
    assert message in told[0]
    assert len(told) < 3


def test_unknown_columns_are_named() -> None:
    """A wrong time or tie is an error at its own key."""
    left, right = rows([1]), rows([1], tags=[["a"]])
    with pytest.raises(RecipeProblems) as caught:
        step_of(left, right, Join("b", (("k", "k"),), prefix="b_", as_of=AsOf("u", "v", "tags")))
    assert {problem.path[3] for problem in caught.value.problems} == {"left", "right", "tie"}
