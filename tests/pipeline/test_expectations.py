"""Runs hold rows to the expectations of their recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.run_options import RunOptions
from tests.support.findings import found_by
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

ROWS = 400


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges.

    Its cells have two lines, and two distances are below zero.
    """
    short_ranges(monkeypatch, 2_000)
    lines = [
        f'{row},{-5 if row in (150, 390) else row % 50},{row % 4 == 0},"a{row % 199}\nb"'
        for row in range(ROWS)
    ]
    (tmp_path / "d.csv").write_text("id,distance,late,note\n" + "\n".join(lines) + "\n")
    return tmp_path


def plan_of(folder: Path, expect: str, more: str = "") -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\nexpect:\n{expect}{more}"
    return plan_in(folder, text)


FAILING = """\
  - {name: far, row: distance >= 0}
  - {name: rate, column: "avg(late) > 0.5"}
  - {name: early, column: max(id) < 9, severity: warn}
  - {name: fine, row: distance < 40, budget: 21%}
"""


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_failed_expectation_stops_a_run(folder: Path) -> None:
    """Nothing is written but the list of rows, with their lines."""
    plan = plan_of(folder, FAILING, "drop: distance\n")
    found = (
        r"2 findings; nothing was written:\n"
        r"  expect: far, distance >= 0: 2 of 400 rows fail \(0.5%\); the first is d.csv, line 302\n"
        r"  expect: rate, avg\(late\) > 0.5: avg\(late\) is 0.25\n"
    )
    with pytest.raises(DataError, match=found):
        convert_in(folder, plan)
    path = folder / "out" / "rejected" / "_stopped_run.jsonl"
    assert [file for file in (folder / "out").rglob("*") if file.is_file()] == [path]
    rows = lines_of(path)
    assert [row["position"] for row in rows if row["expectation"] == "far"] == [
        "line 302",
        "line 782",
    ]
    assert rows[0]["reason"] == "found distance: -5, expected distance >= 0"


def test_describe_goes_on_and_validate_stops(folder: Path) -> None:
    """Both list the rows in a description that stays."""
    plan = plan_of(folder, FAILING)
    seen = folder / "seen"
    manifest = convert.describe(plan, RunOptions(str(seen), quiet=True))
    assert [entry["severity"] for entry in found_by(manifest, "expect")] == [
        "error",
        "error",
        "warn",
        "ok",
    ]
    assert len(lines_of(seen / "rejected" / "_expect.jsonl")) == 2
    with pytest.raises(DataError, match="the data do not pass"):
        convert.validate(plan, RunOptions(str(seen), quiet=True))


WARNED = FAILING.replace("}", ", severity: warn}").replace("warn, severity: warn", "warn")


@pytest.mark.parametrize(
    "more",
    [
        "",
        "on_error: {reject: 10}\n",
        "sequence: {group_by: late}\n",
        "filter: id < 300\nsplit: {train: 0.5, eval: 0.5}\n",
    ],
)
def test_workers_find_the_same(folder: Path, more: str) -> None:
    """One worker and four write the same entries."""
    found = of_workers(folder, plan_of(folder, WARNED, more), lambda one: one.findings)
    far, rate, _, _ = found_by(found, "expect")
    assert far["failed"] == (1 if "filter" in more else 2)
    assert far["first"][0] == "d.csv, line 302"
    assert rate["values"] == {"avg(late)": 0.25}


def test_warnings_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary, its JSON form and the report have them."""
    plan, out = plan_of(folder, WARNED), str(folder / "out")
    manifest = convert.convert(plan, out, quiet=True)
    print_summary(manifest, out)
    text = capsys.readouterr().out
    print_summary(manifest, out, "json")
    assert "checks   1 of 4 findings are good\n" in text
    assert (
        "warning  expect: far, distance >= 0: 2 of 400 rows fail (0.5%); the first is "
        "d.csv, line 302\n" in text
    )
    assert json.loads(capsys.readouterr().out)["findings"] == list(manifest.findings)
    report = (folder / "out" / "report.html").read_text()
    assert "Checks" in report
    assert "avg(late) is 0.25" in report
