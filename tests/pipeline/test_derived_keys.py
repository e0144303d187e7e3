"""Runs join by keys that sources derive."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.previews.first_rows import first_rows
from tests.support.runs import short_ranges

RECIPE: dict[str, Any] = {
    "name": "t",
    "sources": {"a": {"path": "a*.csv", "derive": {"day": "time::DATE", "low": "lower(k)"}},
                "days": {"path": "days.csv", "key": "date", "types": {"date": "date"}},
                "b": {"path": "b.csv", "key": "low", "types": {"size": "text"}, "derive": {"low": "lower(name)", "number": "size::INT"}}},
    "from": "a",
    "join": [{"source": "days", "on": {"day": "date"}, "prefix": "day_"}, {"source": "b", "on": "low", "prefix": "b_", "strategy": "hash"}],
    "drop": ["day", "low", "time", "b_name", "b_size"],
    "on_error": {"reject": 5},
    "encode": {"day_temp": "z_score", "b_number": [{"fill": 0}, "z_score"]},
    "split": {"train": 0.5, "eval": 0.5},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three tables, two of them with a bad row."""
    monkeypatch.chdir(tmp_path)
    short_ranges(monkeypatch, 1_000)
    rows = [f"2024-01-0{n % 3 + 1} 10:00:{n % 60:02},{'kK'[n % 2]}{n % 5},{n}" for n in range(200)]
    rows[150] = "never,k1,150"
    (tmp_path / "a.csv").write_text("\n".join(["time,k,n", *rows]) + "\n")
    days = [f"2024-01-0{day},{day}" for day in (1, 2)]
    (tmp_path / "days.csv").write_text("\n".join(["date,temp", *days]) + "\n")
    (tmp_path / "b.csv").write_text("name,size\nK0,10\nK1,11\nk2,12\nK3,many\n")
    return tmp_path


def recipe(**changes: Any) -> dict[str, Any]:
    """Returns the recipe that reads times as texts."""
    sources = {**RECIPE["sources"], "a": {**RECIPE["sources"]["a"], "types": {"time": "text"}}}
    return {**RECIPE, "sources": sources, **changes}


def rows_of(folder: str, *splits: str) -> list[dict[str, Any]]:
    """Returns the examples of a dataset, feature -> its only value."""
    found = [row for split in splits for row in bp.open(folder).head(500, split).to_pylist()]
    return [{name: value and value[0] for name, value in row.items()} for row in found]


@pytest.mark.end_to_end
def test_a_dataset_and_its_further_rows(folder: Path) -> None:
    """Two workers write the bytes of one; transform derives alike."""
    for workers in (1, 2):
        bp.convert(recipe(), f"out{workers}", beam_options=[f"--direct_num_workers={workers}"])
    manifests = [json.loads((folder / f"out{n}/dataset.json").read_text()) for n in (1, 2)]
    assert manifests[0]["splits"] == manifests[1]["splits"]
    assert [manifests[0]["sources"][name]["rejected"] for name in ("a", "days", "b")] == [1, 0, 1]
    assert set(manifests[0]["columns"]) == {"k", "n", "day_temp", "b_number"}
    sizes = {0: 10, 1: 11, 2: 12}
    mean = sum(sizes.get(n % 5, 0) for n in range(200) if n != 150) / 199
    rows = rows_of("out1", "train", "eval")
    assert sorted(row["n"] for row in rows) == [n for n in range(200) if n != 150]
    assert all((row["b_number"] > 0) == (sizes.get(row["n"] % 5, 0) > mean) for row in rows)
    assert all((row["day_temp"] is None) == (row["n"] % 3 == 2) for row in rows)
    old = {row["n"]: row for row in rows}
    (folder / "new.csv").write_text("time,k\n2024-01-02 23:00:00,K1\n2024-01-09 23:00:00,k0\n")
    with pytest.raises(RecipeError, match=r"no column 'n'\. It has 'time', 'k'\."):
        bp.transform("out2", "new.csv", "new")
    (folder / "new.csv").write_text(
        "k,n,time\nK1,1,2024-01-02 23:00:00\nk0,2,2024-01-09 23:00:00\n"
    )
    bp.transform("out2", "new.csv", "new")
    new = {row["n"]: row for row in rows_of("new", "test")}
    assert new[1]["b_number"] == old[1]["b_number"]
    assert new[1]["day_temp"] == old[1]["day_temp"]
    assert new[2]["day_temp"] is None


def test_previews_and_parts(folder: Path) -> None:
    """A preview derives, and a plan shows the expressions."""
    plan = bp.plan(recipe())
    [first, *_] = first_rows(plan, 3).rows
    assert (first.raw["k"], first.raw["b_number"], first.raw["day_temp"]) == ("k0", 10, 1)
    assert "derives day: time::DATE" in plan.describe()


def test_splits_are_those_without_derived_columns(folder: Path) -> None:
    """Columns that sources derive move no row to another split."""
    sources = {"a": {"path": "a.csv", "types": {"time": "text"}}}
    plain = bp.plan({"name": "t", "sources": sources, "split": RECIPE["split"], "drop": ["k"]})
    sources = {"a": {"path": "a.csv", "types": {"time": "text"}, "derive": {"low": "lower(k)"}}}
    with_key = bp.plan({"name": "t", "sources": sources, "split": RECIPE["split"]})
    found = [
        {row.raw["n"]: row.split for row in first_rows(plan, 200).rows}
        for plan in (plain, with_key)
    ]
    assert found[0] == found[1]
    assert len({*found[0].values()}) == 2


def test_a_wrong_expression_is_named_before_what_needs_it(folder: Path) -> None:
    """The next run names what was behind it."""
    wrong = recipe(drop=["nothing", "b_number"])
    wrong["sources"]["b"] = {**wrong["sources"]["b"], "derive": {"low": "lower(", "number": "1"}}
    with pytest.raises(RecipeError) as caught:
        bp.plan(wrong)
    assert "sources.b.derive.low: 'lower(': syntax error" in str(caught.value)
    wrong["sources"]["b"]["derive"]["low"] = "lower('x')"
    with pytest.raises(RecipeError, match="'nothing'"):
        bp.plan(wrong)


@pytest.mark.end_to_end
def test_tables_of_a_database(folder: Path) -> None:
    """A server's filter has its own columns alone."""
    with sqlite3.connect("d.db") as connection:
        connection.execute("CREATE TABLE t (k TEXT, n INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [("A ", 1), ("b", 2), ("C", 3)])
    (folder / "c.csv").write_text("k,v\na,10\nc,30\n")
    bp.convert(
        {
            "name": "t",
            "sources": {
                "t": {"url": "d.db", "table": "t", "derive": {"key": "lower(trim(k))"}},
                "c": "c.csv",
            },
            "from": "t",
            "join": [{"source": "c", "on": {"key": "k"}, "prefix": "c_"}],
            "filter": "n > 1 AND key <> 'x'",
            "output": {"shuffle": False},
        },
        "out",
    )
    found = [(row["key"], row["c_v"]) for row in rows_of("out", "train")]
    assert found == [(b"b", None), (b"c", 30)]
