"""Tests of what is said of key columns whose types differ."""

from __future__ import annotations

import datetime
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from beam_pipelines.core.arrow.columns import column_type
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.joins.index import build_index, find_matches
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join.plan import plan_join
from tests.support.made_source import made_source

DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
MIDNIGHTS = [datetime.datetime(2024, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001
# Written as CSV (texts) or Parquet (arrays): left keys, right keys, matches after the remedy.
PAIRS: list[tuple[Any, Any, int]] = [
    (["7", "8"], pa.array(["7", "8"]), 2),
    (["7", "8"], pa.array(["007", "008"]), 2),
    (pa.array(["007", "008"]), ["7", "8"], 2),
    (["007", "8x"], pa.array([7, 8]), 1),
    (["1.0", "2.5"], ["1", "2"], 1),
    (["1", "2"], ["1.0", "2.5"], 1),
    (["1", "2"], pa.array([1.0, 2.0]), 2),
    (pa.array([1.0, 2.0]), ["1", "2"], 2),
    (pa.array([1, 2]), pa.array(["1", "2"]), 2),
    (pa.array([1, 0]), pa.array([True, False]), 2),
    (pa.array([True, False]), pa.array([1, 0]), 2),
    (["true", "false"], pa.array([1, 0]), 2),
    (pa.array(["a", "b"]), pa.array([b"a", b"b"]), 2),
    (pa.array([b"a", b"b"]), ["a", "b"], 2),
    (pa.array(DAYS), pa.array(MIDNIGHTS, pa.timestamp("us")), 3),
    (pa.array(MIDNIGHTS, pa.timestamp("ms")), pa.array(DAYS), 3),
    (["2024-01-01", "2024-01-02"], pa.array(MIDNIGHTS, pa.timestamp("us")), 2),
    (["2024-01-01", "2024-01-02"], pa.array(["2024-01-01", "x"]), 1),
    (pa.array([1.5, 2.0], pa.float32()), pa.array([1.5, 2.0]), 2),
    (["7.0", "8.5"], ["7", "8"], 1),
    (pa.array([7.0, 8.5]), pa.array(["007", "08"]), 1),
    (pa.array(["x", "7.5"]), pa.array([7.5, None]), 1),
    (pa.array([1, 2], pa.time64("us")), ["x", "y"], 0),
    (["1", "2"], pa.array([3.5, 4.5]), 0),
]


def put(folder: Path, name: str, keys: Any) -> Source:
    """Writes a table with the keys, and returns its source."""
    if isinstance(keys, pa.Array):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"k": keys, name: range(len(keys))}), path)
    else:
        path = folder / f"{name}.csv"
        path.write_text("\n".join([f"k,{name}", *(f"{key},1" for key in keys)]) + "\n")
    return Source(name, (str(path),))


def planned(folder: Path, left: Any, right: Any) -> dict[str, SourcePlan]:
    """Returns the plans of two tables with the keys."""
    sources = {"a": put(folder, "a", left), "b": put(folder, "b", right)}
    return {name: plan_source(source, "") for name, source in sources.items()}


def matches_after(plans: dict[str, SourcePlan], message: str) -> tuple[int, Join]:
    """Returns matched rows, and the join, of a message's lines."""
    for name, line in re.findall(r"dd to source '(\w+)' derive: (\{\w+: \".*?\"\})", message):
        plans[name] = with_derived(plans[name], yaml.safe_load(line))
    on = re.search(r"join on: (\{.*?\})", message)
    prefix = re.search(r"set prefix: (\w+)", message)
    pairs = tuple(yaml.safe_load(on[1]).items()) if on else (("k", "k"),)
    join = Join("b", pairs, prefix=prefix[1] if prefix else "")
    [step] = plan_join((join,), plans["a"], plans).steps
    tables = [read.read_table(plans[each], reject=False)[0] for each in ("a", "b")]
    index = build_index(tables[1], step.join, step.added)
    [batch] = tables[0].combine_chunks().to_batches()
    return int(np.count_nonzero(np.subtract(*find_matches(batch, index, step.join)[:2]))), join


@pytest.mark.parametrize(("left", "right", "matches"), PAIRS)
def test_a_remedy_joins_as_it_is_written(tmp_path, left, right, matches):
    """The lines of the message give the matches that it names."""
    plans = planned(tmp_path, left, right)
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    [problem] = caught.value.problems
    if not matches:
        assert "No key of the sample matches" in problem.message
        return
    assert f"{matches} of {len(left)} keys of the sample match" in problem.message
    assert matches_after(plans, problem.message)[0] == matches


@pytest.mark.parametrize("zone", ["UTC", "America/Chicago"])
@pytest.mark.parametrize("is_left", [True, False])
def test_times_with_and_without_a_zone_are_not_joined(tmp_path, zone, is_left):
    """The message names the zone of the files."""
    hours = pa.array([datetime.datetime(2024, 3, 10, hour) for hour in range(12)])  # noqa: DTZ001
    zoned = hours.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    naive = pc.local_timestamp(zoned)
    plans = planned(tmp_path, *((naive, zoned) if is_left else (zoned, naive)))
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    [problem] = caught.value.problems
    assert re.search("timestamp.* is timestamp", problem.message)
    assert f"12 of 12 keys of the sample match if the zone is {zone}" in problem.message
    assert matches_after(plans, problem.message)[0] == 12


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_zone_is_a_part_of_a_type(zone: str | None) -> None:
    """Any zone becomes UTC, and none stays none."""
    assert column_type(pa.timestamp("ms", zone)) == pa.timestamp("us", zone and "UTC")


TEN = [datetime.datetime(2024, 1, day, 10) for day in (1, 2, 3)]  # noqa: DTZ001
# Left keys, right keys, what is said of them; empty: nothing.
NEAR: list[tuple[Any, Any, str]] = [
    (["C0", "C1", "x"], ["C0   ", "C1"], "1 of 2 keys of 'k' .* without blanks around them"),
    ([" a"], ["a"], "1 of 1 .* without blanks .* source 'a' derive: {k_key: \"trim\\(k\\)\"} and"),
    (["ab", "CD", "ef"], ["AB", "cd", "ef"], "2 of 2 .* in lower case. .*, add .* set prefix: b_"),
    (["A42", "7"], ["A42", "A007"], ""),
    (["00A"], ["A"], "1 of 1 .* without leading zeros. Add to source 'a'"),
    (["42", "007"], ["0042", "7"], "2 of 2 .* without leading zeros. Add to source"),
    (["a1"], ["00A1 "], "1 of 1 .* around them, in lower case, without leading zeros"),
    (["a", None], ["b", ""], ""),
    (["a", "b"], ["a", "b"], ""),
    (["0"], ["00"], "without leading zeros"),
    (["2024-01-02"], ["2024-01-02 10:00:00"], "1 of 1 .* by their day"),
    (["2024-01-02T00:00:00"], ["2024-01-02"], "1 of 1 .* by their day. Add to source 'a'"),
    (TEN, MIDNIGHTS, "3 of 3 .* by their day. Add to source 'a'"),
    (MIDNIGHTS[:1], TEN, "1 of 1 .* by their day"),
    (TEN, [time + datetime.timedelta(hours=1) for time in TEN], ""),
]


@pytest.mark.parametrize(("left", "right", "said"), NEAR)
def test_keys_that_nearly_match(tmp_path: Path, left: Any, right: Any, said: str) -> None:
    """The lines that a plan names give the matches that it tells."""
    type_ = pa.timestamp("us") if isinstance(right[0], datetime.datetime) else pa.string()
    plans = planned(tmp_path, pa.array(left, type_), pa.array(right, type_))
    join = Join("b", (("k", "k"),))
    [step] = plan_join((join,), plans["a"], plans).steps
    assert len(step.near_misses) == bool(said)
    if not said:
        return
    [message] = step.near_misses
    assert re.search(said, message)
    exact = len({*left} & {*right})
    matched, join = matches_after(plans, message)
    assert matched == exact + int(message.split(" ")[0])
    assert not plan_join((join,), plans["a"], plans).steps[0].near_misses


def test_names_of_remedies_are_new(tmp_path: Path) -> None:
    """A derived key has a new name, also behind a prefix."""
    pq.write_table(pa.table({"i": [1], "x_k_key": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": [1], "K_KEY0": [1], "k": ["A"]}), tmp_path / "c.parquet")
    sources = [put(tmp_path, "b", pa.array(["a "])), Source("a", (str(tmp_path / "a.parquet"),))]
    sources.append(Source("c", (str(tmp_path / "c.parquet"),)))
    plans = {source.name: plan_source(source, "") for source in sources}
    joins = (
        Join("c", (("i", "i"),), prefix="x_"),
        Join("b", (("i", "b"), ("x_k", "k")), prefix="b_"),
    )
    [message] = plan_join(joins, plans["a"], plans).steps[1].near_misses
    assert "source 'c' derive: {k_key1: " in message
    assert "source 'b' derive: {k_key: " in message
    assert "on: {i: b, x_k_key1: k_key}" in message


def test_days_and_times_of_two_types(tmp_path: Path) -> None:
    """The error tells that the day of the times would match."""
    plans = {
        "a": plan_source(put(tmp_path, "a", pa.array(TEN, pa.timestamp("us"))), ""),
        "b": plan_source(put(tmp_path, "b", pa.array(DAYS)), ""),
    }
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    [problem] = caught.value.problems
    assert "3 of 3 keys of the sample match by their day." in problem.message
    assert matches_after(plans, problem.message)[0] == 3


TABLES: list[tuple[list[Any], str, list[Any], int]] = [
    (["7", "8"], "INTEGER", [7, 9], 1),
    ([7, 8], "TEXT", ["7", "x"], 1),
    ([7, 8], "TEXT", ["007", "x"], 1),
    ([7, 8], "REAL", [7.0, 8.5], 1),
    (["a", "b"], "INTEGER", [1, 2], 0),
]


@pytest.mark.parametrize(("left", "type_", "right", "matches"), TABLES)
def test_keys_of_a_database_are_cast(tmp_path, left, type_, right, matches):
    """A database takes no types: an expression makes its keys match."""
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute(f"CREATE TABLE t (k {type_}, b INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, 2)", [(key,) for key in right])
    source = made_source("b", url=str(tmp_path / "d.db"), table="t")
    plans = {"a": plan_source(put(tmp_path, "a", pa.array(left)), ""), "b": plan_source(source, "")}
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    [problem] = caught.value.problems
    said = f"{matches} of 2 keys" if matches else "No key of the sample matches"
    assert said in problem.message
    assert not matches or matches_after(plans, problem.message)[0] == matches
