"""Runs find columns with personal data, and show none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.sources import plan as plan_module
from tests.support.findings import found_by

pytestmark = pytest.mark.end_to_end

LINES = [
    f"{row},{f'ask guest{row}@mail.example.org' if row % 100 == 7 else 'thanks'},+49 170 {10**6 + row}"
    for row in range(400)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges."""
    monkeypatch.setattr(plan_module, "RANGE_BYTES", 2_000)
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (2_000,))
    (tmp_path / "d.csv").write_text("n,comment,number\n" + "\n".join(LINES) + "\n")
    return tmp_path


def plan_of(folder: Path, pii: str, more: str = "") -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\n{pii and f'pii: {pii}'}\n{more}"
    return make_plan(parse_recipe(text, "r.yaml", str(folder)))


@pytest.mark.parametrize("more", ["", "on_error: {reject: 3}\n", "filter: n <> 7\n"])
def test_workers_find_the_same(folder: Path, more: str) -> None:
    """Both columns have their lines."""
    entries = []
    for workers in (1, 4):
        options = (f"--direct_num_workers={workers}",)
        out = str(folder / f"out{workers}")
        plan = plan_of(folder, "warn", more)
        entries.append(
            found_by(convert.convert(plan, out, beam_options=options, quiet=True), "pii")
        )
    assert entries[0] == entries[1]
    comment, number = entries[0]
    is_filtered = "filter" in more
    line = 109 if is_filtered else 9
    assert (comment["kind"], comment["found"]) == ("email", 4 - is_filtered)
    assert (comment["rows"], comment["first"]) == (400 - is_filtered, f"d.csv, line {line}")
    assert (number["kind"], number["found"]) == ("phone", 400 - is_filtered)


def test_an_error_stops_before_anything_is_written(folder: Path) -> None:
    """Describe goes on and validate stops; no message has a value."""
    plan = plan_of(folder, "{action: error, allow: [number]}")
    found = (
        r"^1 finding; nothing was written:\n  pii: column 'comment' has e-mail addresses in 4 of "
        r"400 rows \(1.0%\); the first is in d.csv, line 9\nLeave the columns out"
    )
    with pytest.raises(DataError, match=found) as error:
        convert.convert(plan, str(folder / "out"), quiet=True)
    assert "guest" not in str(error.value)
    assert not [path for path in (folder / "out").rglob("*") if path.is_file()]
    seen = RunOptions(str(folder / "seen"), quiet=True)
    assert len(found_by(convert.describe(plan, seen), "pii")) == 1
    with pytest.raises(DataError, match="1 finding; the data do not pass"):
        convert.validate(plan, seen)


def test_a_warning_changes_no_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shards are those of a recipe without the key."""
    before = convert.convert(plan_of(folder, ""), str(folder / "plain"), quiet=True)
    manifest = convert.convert(plan_of(folder, "warn"), str(folder / "out"), quiet=True)
    assert manifest.splits == before.splits
    assert not before.findings
    print_summary(manifest, str(folder / "out"))
    assert (
        "warning  pii: column 'comment' has e-mail addresses in 4 of 400" in capsys.readouterr().out
    )
    assert "has phone numbers in 400 of" in (folder / "out" / "report.html").read_text()


def test_allowed_and_dropped_columns_are_not_looked_at(folder: Path) -> None:
    """Then nothing is found."""
    plan = plan_of(folder, "{action: error, allow: comment}", "drop: number\n")
    assert found_by(convert.convert(plan, str(folder / "out"), quiet=True), "pii") == []


def test_values_of_a_joined_source(folder: Path) -> None:
    """The place is the row's, and says which source has the value."""
    (folder / "rows.csv").write_text("k\n" + "".join(f"{row}\n" for row in range(60)))
    text = (
        "name: d\nsources: {r: rows.csv, d: {path: d.csv, key: n}}\nfrom: r\n"
        "join: [{source: d, on: {k: n}, prefix: d_}]\nrename: {d_comment: text}\npii: warn\n"
    )
    plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
    assert [plan.joined_words(name) for name in ("k", "text")] == ["", ", joined from 'd'"]
    number, comment = found_by(convert.convert(plan, str(folder / "out"), quiet=True), "pii")
    assert (number["column"], comment["column"]) == ("d_number", "text")
    assert comment["first"] == "rows.csv, line 9, joined from 'd'"


def test_wrong_keys(folder: Path) -> None:
    """An unknown column and another word are errors."""
    with pytest.raises(RecipeProblems, match=r"found column 'coment', .*Did you mean 'comment'"):
        plan_of(folder, "{allow: coment}")
    with pytest.raises(RecipeError, match="found 'drop', expected warn or error"):
        plan_of(folder, "drop")
