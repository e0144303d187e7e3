"""Tests of what is said of key columns whose types differ."""

from __future__ import annotations

import dataclasses
import datetime
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beam_pipelines.core.columns import column_type
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.recipe.model import Join, Source
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join.index import build_index, count_matches
from beam_pipelines.transforms.join.plan import plan_join

DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
MIDNIGHTS = [datetime.datetime(2024, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001
# Written as CSV (texts) or Parquet (arrays): left keys, right keys, matches after the remedy.
PAIRS: list[tuple[Any, Any, int]] = [
    (["7", "8"], pa.array(["7", "8"]), 2),
    (["7", "8"], pa.array(["007", "008"]), 2),
    (pa.array(["007", "008"]), ["7", "8"], 2),
    (["007", "8x"], pa.array([7, 8]), 0),
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
    (["x", "y"], pa.array([1, 2]), 0),
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


@pytest.mark.parametrize(("left", "right", "matches"), PAIRS)
def test_a_remedy_joins_as_it_is_written(
    tmp_path: Path, left: Any, right: Any, matches: int
) -> None:
    """The line of the message gives the matches that it names."""
    sources = {"a": put(tmp_path, "a", left), "b": put(tmp_path, "b", right)}
    plans = {name: plan_source(source, "") for name, source in sources.items()}
    joins = (Join("b", (("k", "k"),)),)
    with pytest.raises(RecipeProblems) as caught:
        plan_join(joins, plans["a"], plans)
    [problem] = caught.value.problems
    if not matches:
        assert "no key of the sample matches" in problem.message
        return
    line = problem.message.split("'types: ")[1].split("'")[0]
    name = problem.message.split("' to source '")[1].split("'")[0]
    changed = dataclasses.replace(sources[name], types=yaml.safe_load(line))
    plans[name] = plan_source(changed, "")
    plan_join(joins, plans["a"], plans)
    tables = [read.read_table(plans[each], reject=False)[0] for each in ("a", "b")]
    index = build_index(tables[1], ["k"], [])
    [batch] = tables[0].combine_chunks().to_batches()
    assert (count_matches(batch, index, ["k"]) > 0).sum() == matches
    assert f"{matches} of {len(left)} keys of the sample match" in problem.message


def test_times_with_and_without_a_zone_are_not_joined(tmp_path: Path) -> None:
    """Neither is taken for the other."""
    zoned = pa.array(MIDNIGHTS, pa.timestamp("us", "America/Chicago"))
    plans = {
        "a": plan_source(put(tmp_path, "a", zoned), ""),
        "b": plan_source(put(tmp_path, "b", pa.array(MIDNIGHTS, pa.timestamp("us"))), ""),
    }
    with pytest.raises(RecipeProblems, match=r"timestamptz and .* is timestamp"):
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_a_zone_is_a_part_of_a_type(zone: str | None) -> None:
    """Any zone becomes UTC, and none stays none."""
    assert column_type(pa.timestamp("ms", zone)) == pa.timestamp("us", zone and "UTC")


TEN = [datetime.datetime(2024, 1, day, 10) for day in (1, 2, 3)]  # noqa: DTZ001
# Left keys, right keys, what is said of them; empty: nothing.
NEAR: list[tuple[Any, Any, str]] = [
    (["C0", "C1", "x"], ["C0   ", "C1"], "1 of 2 keys of 'k' .* without blanks around them"),
    ([" a"], ["a"], "1 of 1 .* without blanks"),
    (["ab", "CD", "ef"], ["AB", "cd", "ef"], "2 of 2 .* in lower case. Write them alike"),
    (["A42", "7"], ["A42", "A007"], ""),
    (["00A"], ["A"], "1 of 1 .* without leading zeros. Write them alike"),
    (["42", "007"], ["0042", "7"], "2 of 2 .* without leading zeros. Add 'types: {k: int64}'"),
    (["a1"], ["00A1 "], "1 of 1 .* around them, in lower case, without leading zeros"),
    (["a", None], ["b", ""], ""),
    (["a", "b"], ["a", "b"], ""),
    (["0"], ["00"], "without leading zeros"),
    (["Zo\u00eb", "a"], ["Zoe\u0308", "a"], "1 of 1 .* in Unicode's form NFC"),
    (["ab-1", "ab-2"], ["AB1", "AB 3"], "1 of 2 .* by their letters and digits"),
    (["1", "2"], ["id_1", "id_2"], "2 of 2 .* without what is before their digits"),
    (["id_1", "B2"], ["id_1", "A2"], ""),
    (["2024-01-02"], ["2024-01-02 10:00:00"], "1 of 1 .* by their day"),
    (["2024-01-02T00:00:00"], ["2024-01-02"], "1 of 1 .* by their day"),
    (TEN, MIDNIGHTS, "3 of 3 .* by their day. Write them alike"),
    (MIDNIGHTS[:1], TEN, "1 of 1 .* by their day"),
    (TEN, [time + datetime.timedelta(hours=1) for time in TEN], ""),
]


@pytest.mark.parametrize(("left", "right", "said"), NEAR)
def test_keys_that_nearly_match(tmp_path: Path, left: Any, right: Any, said: str) -> None:
    """The types that a plan names match as many keys."""
    type_ = pa.timestamp("us") if isinstance(right[0], datetime.datetime) else pa.string()
    sources = {
        "a": put(tmp_path, "a", pa.array(left, type_)),
        "b": put(tmp_path, "b", pa.array(right, type_)),
    }
    plans = {name: plan_source(source, "") for name, source in sources.items()}
    joins = (Join("b", (("k", "k"),)),)
    [step] = plan_join(joins, plans["a"], plans).steps
    assert len(step.near_misses) == bool(said)
    assert re.search(said, " ".join(step.near_misses))
    if "'types" in said:
        types = {"k": "int64"}
        plans = {
            name: plan_source(dataclasses.replace(source, types=types), "")
            for name, source in sources.items()
        }
        keys = [
            set(read.read_table(plan, reject=False)[0]["k"].to_pylist()) for plan in plans.values()
        ]
        assert keys[0] == keys[1]


def test_days_and_times_of_two_types(tmp_path: Path) -> None:
    """The error tells that the day of the times would match."""
    plans = {
        "a": plan_source(put(tmp_path, "a", pa.array(TEN, pa.timestamp("us"))), ""),
        "b": plan_source(put(tmp_path, "b", pa.array(DAYS)), ""),
    }
    with pytest.raises(
        RecipeProblems, match=r"no key of the sample matches\. 3 of 3 .* by their day"
    ):
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)


def test_untried_types_are_not_said_to_match_nothing(tmp_path: Path) -> None:
    """A database takes no types, and the message says so."""
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("CREATE TABLE t (k INTEGER, b INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 2)")
    source = Source("b", url=str(tmp_path / "d.db"), table="t")
    plans = {
        "a": plan_source(put(tmp_path, "a", pa.array(["x"])), ""),
        "b": plan_source(source, ""),
    }
    with pytest.raises(RecipeProblems) as caught:
        plan_join((Join("b", (("k", "k"),)),), plans["a"], plans)
    assert "No type was tried for 'b'" in str(caught.value)
    assert "no key of the sample" not in str(caught.value)
