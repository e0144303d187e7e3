"""Runs find rows of one split that are also in another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.run_options import RunOptions
from tests.support.findings import found_by
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

# Rows 0 to 299 are of the first day and train; 20 of the others repeat rows of the first ones.
LINES = [f"u{row % 320},{row % 300 if row < 320 else row},{1 + row // 300}" for row in range(400)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges."""
    short_ranges(monkeypatch, 1_000)
    (tmp_path / "d.csv").write_text("user,n,day\n" + "\n".join(LINES) + "\n")
    return tmp_path


SPLIT = "split: {column: day, train: {before: 2}, eval: {after: 2}}\n"


def plan_of(folder: Path, leaks: str, more: str = "", split: str = SPLIT) -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\nleaks: {leaks}\n{split}{more}"
    return plan_in(folder, text)


@pytest.mark.parametrize(
    "more", ["", "duplicates: {by: [user, n], action: drop}\n", "on_error: {reject: 3}\n"]
)
def test_workers_find_the_same(folder: Path, more: str) -> None:
    """Equal rows and users on both sides have their lines."""
    plan = plan_of(folder, "{entity: user}", f"{more}drop: [day, user]\n")
    rows, users = found_by(of_workers(folder, plan, lambda one: one.findings), "leaks")
    # Rows 300 to 319 have the n of rows 0 to 19; rows 320 to 399 the users of rows 0 to 79.
    assert (rows["what"], rows["found"], rows["rows"]) == ("rows", 20, 100)
    assert rows["first"][0] == ["d.csv, line 2", "d.csv, line 302"]
    assert (users["what"], users["found"]) == (["user"], 80)
    assert users["first"][0] == ["d.csv, line 2", "d.csv, line 322"]
    assert (users["also_in"], users["split"]) == ("train", "eval")


def test_an_error_stops_before_anything_is_written(folder: Path) -> None:
    """Describe goes on and validate stops."""
    plan = plan_of(folder, "error", "keep: n\n")
    found = (
        r"1 finding; nothing was written:\n  leaks: 20 of 100 rows of 'eval' \(20.0%\) are "
        r"also in 'train'; the first is d.csv, line 302, as d.csv, line 2\n"
    )
    with pytest.raises(DataError, match=found):
        convert_in(folder, plan)
    (path,) = [path for path in (folder / "out").rglob("*") if path.is_file()]
    first = json.loads(path.read_text().splitlines()[0])
    assert first["reason"] == "the values of d.csv, line 2, in 'train'"
    assert (first["text"], first["first_text"]) == ("u300,0,2", "u0,0,1")
    seen = RunOptions(str(folder / "seen"), quiet=True)
    assert len(found_by(convert.describe(plan, seen), "leaks")) == 1
    with pytest.raises(DataError, match="the data do not pass"):
        convert.validate(plan, seen)


def test_a_warning_changes_no_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shards are those of a recipe without the key."""
    text = f"name: d\nsources: {{d: d.csv}}\n{SPLIT}keep: n\n"
    before = convert_in(folder, plan_in(folder, text), "plain")
    manifest = convert_in(folder, plan_of(folder, "warn", "keep: n\n"))
    assert manifest.splits == before.splits
    print_summary(manifest, str(folder / "out"))
    assert "warning  leaks: 20 of 100 rows of 'eval' (20.0%) are also in" in capsys.readouterr().out
    assert "rows of &#39;eval&#39;" in (folder / "out" / "report.html").read_text()


def test_clean_splits_have_none(folder: Path) -> None:
    """A split by the entity has each of its values once."""
    split = "split: {a: 0.5, b: 0.5, by: user}\n"
    plan = plan_of(folder, "{entity: user, action: error}", split=split)
    assert found_by(convert_in(folder, plan), "leaks") == []
    plan = plan_of(folder, "{entity: user, action: error}", split="")
    assert found_by(convert_in(folder, plan, "one"), "leaks") == []


def test_wrong_keys(folder: Path) -> None:
    """An unknown column, another word and groups are errors."""
    with pytest.raises(RecipeProblems, match=r"found column 'usr', .*Did you mean 'user'"):
        plan_of(folder, "{entity: usr}")
    with pytest.raises(RecipeError, match="found 'drop', expected warn or error"):
        plan_of(folder, "drop")
    with pytest.raises(RecipeProblems, match="found it with 'group_by'"):
        plan_of(folder, "warn", "sequence: {group_by: user}\n")
    with pytest.raises(RecipeError, match=r"found '0\.5', expected a number above 0"):
        plan_of(folder, "{bound: 0.5}")


def test_features_that_give_the_label_away(folder: Path) -> None:
    """Columns that are not written, or only as the label, are none."""
    lines = [f"{row % 7},{row},{row * 31 % 400}" for row in range(400)]
    (folder / "d.csv").write_text("kind,n,noise\n" + "\n".join(lines) + "\n")
    text = "name: d\nsources: {d: d.csv}\nderive: {late: n > 270}\nlabel: late\nleaks: error\n"
    plan = plan_in(folder, text)
    found = (
        r"1 finding; nothing was written:\n  leaks: column 'n' alone predicts the "
        r"label 'late': AUC 1.000 in 400 sampled rows\nLeave such columns out"
    )
    with pytest.raises(DataError, match=found):
        convert_in(folder, plan)
    plan = plan_in(folder, f"{text}drop: n\n")
    assert found_by(convert_in(folder, plan, "clean"), "leaks") == []
    text = (
        "name: d\nsources: {d: d.csv}\nlabel: late\nleaks: warn\n"
        "encode: {late: [{column: n}, {bucketize: 2}], n: drop, copy: [{column: kind}, cast]}\n"
    )
    plan = plan_in(folder, text.replace("cast]", "{cast: int64}]"))
    assert found_by(convert_in(folder, plan, "hidden"), "leaks") == []
    plan = plan_in(folder, text.replace("n: drop, copy", "copy").replace("kind}, cast]", "n}, {cast: float32}]"))  # fmt: skip
    (entry,) = found_by(convert_in(folder, plan, "seen"), "leaks")
    assert (entry["column"], entry["measure"], entry["value"]) == ("n", "AUC", 1.0)
