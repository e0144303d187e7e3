"""Runs find rows that occur twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.run_options import RunOptions
from tests.support.findings import found_by
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

# Rows 300 to 399 repeat rows 0 to 99, but for the column n.
LINES = [f'{row % 300},{row},"a{row % 300}\nb"' for row in range(400)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges, and one to join."""
    short_ranges(monkeypatch, 1_000)
    (tmp_path / "d.csv").write_text("id,n,note\n" + "\n".join(LINES) + "\n")
    (tmp_path / "e.csv").write_text("key,city\n1,x\n1,x\n2,y\n")
    return tmp_path


def plan_of(folder: Path, duplicates: str, more: str = "") -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\nduplicates: {duplicates}\n{more}"
    return plan_in(folder, text)


def rejected(folder: Path, name: str = "d.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rejected" / name).read_text().splitlines()]


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ("drop: n\n", 300),
        ("filter: n >= 100\ndrop: n\n", 300),
        ("on_error: {reject: 5}\ndrop: n\n", 300),
        ("sequence: {group_by: id}\ndrop: n\n", 300),
        ("drop: n\nsplit: {a: 0.5, b: 0.5}\noutput: {shuffle: false}\n", 300),
        ("", 400),
    ],
)
def test_workers_leave_out_the_same_rows(folder: Path, more: str, written: int) -> None:
    """One worker and four write the same bytes.

    Every row is in the account.
    """
    plan = plan_of(folder, "{action: drop}", more)
    manifest = of_workers(folder, plan, lambda one: (one.findings, one.counts))
    assert manifest.counts.written == written
    counts, (finding,) = manifest.counts, found_by(manifest, "duplicates")
    left_out = counts.read - counts.filtered - written
    assert counts.left_out_by["duplicates"] == left_out == finding["found"]
    if left_out == 100:
        rows = rejected(folder / "out4")
        assert [row["position"] for row in rows[:2]] == ["line 602", "line 604"]
        assert len(rows) == 100
        assert rows[0]["reason"] == "a duplicate: an earlier row has the same values"
        assert finding["first"][0] == ["d.csv, line 2", "d.csv, line 602"]


def test_by_columns_that_are_not_written(folder: Path) -> None:
    """The first row of each id stays."""
    plan = plan_of(folder, "{by: id, action: drop}", "drop: id\noutput: {shuffle: false}\n")
    manifest = convert_in(folder, plan)
    assert manifest.counts.written == 300
    (batch,) = bp.open(str(folder / "out")).batches("train", 300, shuffle=False)
    assert batch["n"].ravel().tolist() == list(range(300))
    assert rejected(folder / "out")[0]["reason"] == "a duplicate: an earlier row has the same id"


def test_rows_that_a_join_made(folder: Path) -> None:
    """Of two matches with equal values one stays."""
    text = (
        "name: d\nsources: {d: d.csv, e: e.csv}\nfrom: d\njoin: [{source: e, on: {id: key}, "
        "how: inner, strategy: hash}]\nduplicates: {action: drop}\n"
    )
    plan = plan_in(folder, text)
    manifest = convert_in(folder, plan)
    counts = manifest.counts
    # Ids 1 and 2 occur twice, with another n; id 1 has two matches.
    assert (counts.written, counts.added, counts.left_out_by["duplicates"]) == (4, 2, 2)
    assert [row["position"] for row in rejected(folder / "out")] == ["line 4", "line 604"]
    assert verify_dataset(str(folder / "out")).rows == 4


def test_an_error_stops_before_anything_is_written(folder: Path) -> None:
    """It shows both rows of the first pairs.

    Describe goes on, validate stops.
    """
    plan = plan_of(folder, "{action: error}", "drop: n\n")
    found = (
        r"1 finding; nothing was written:\n  duplicates: 100 of 400 rows \(25.0%\) have the values "
        r"of an earlier row; the first is d.csv, line 602, as d.csv, line 2\n"
    )
    with pytest.raises(DataError, match=found):
        convert_in(folder, plan)
    (path,) = [path for path in (folder / "out").rglob("*") if path.is_file()]
    pairs = rejected(folder / "out", path.name)
    assert len(pairs) == 10
    assert pairs[0]["position"] == "line 602"
    assert pairs[0]["reason"] == "a duplicate of d.csv, line 2"
    assert pairs[0]["first_text"] == '0,0,"a0\nb"'
    seen = RunOptions(str(folder / "seen"), quiet=True)
    assert found_by(convert.describe(plan, seen), "duplicates")[0]["found"] == 100
    assert len(rejected(folder / "seen", "_duplicates.jsonl")) == 10
    with pytest.raises(DataError, match="the data do not pass"):
        convert.validate(plan, seen)


def test_a_warning_changes_no_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shards are those of a recipe without the key."""
    plain = plan_in(folder, "name: d\nsources: {d: d.csv}\ndrop: n\n")
    warned = plan_of(folder, "{by: rows}", "drop: n\n")
    before = convert_in(folder, plain, "plain")
    manifest = convert_in(folder, warned)
    assert manifest.splits == before.splits
    print_summary(manifest, str(folder / "out"))
    assert (
        "warning  duplicates: 100 of 400 rows (25.0%) have the values of an earlier row; the first "
        "is d.csv, line 602, as d.csv, line 2\n" in capsys.readouterr().out
    )
    assert "earlier row" in (folder / "out" / "report.html").read_text()


def test_wrong_keys(folder: Path) -> None:
    """An unknown column and another word are errors."""
    with pytest.raises(RecipeProblems, match=r"found column 'idd', .*Did you mean 'id'"):
        plan_of(folder, "{by: [idd]}")
    with pytest.raises(RecipeError, match="found 'keep', expected warn, drop or error"):
        plan_of(folder, "{action: keep}")
