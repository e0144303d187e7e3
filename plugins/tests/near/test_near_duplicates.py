"""Runs find rows with similar texts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources import plan as plan_module
from tests.support.findings import found_by

pytestmark = pytest.mark.end_to_end

NOUNS = ["harbour", "station", "museum", "market", "theatre", "garden", "bridge", "stadium"]


def line(row: int) -> str:
    """A row's text; rows from 300 on resemble the first ones."""
    own = row % 300
    names = " ".join(NOUNS[(own * factor + own // 8) % 8] for factor in (3, 5, 7))
    text = f"ride number {own * 7919} to the {names} at {own * 31 % 24} o'clock"
    return f"{row},{text}{' !' if row >= 300 else ''}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges."""
    monkeypatch.setattr(plan_module, "RANGE_BYTES", 4_000)
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (4_000,))
    (tmp_path / "d.csv").write_text("id,text\n" + "\n".join(map(line, range(400))) + "\n")
    return tmp_path


NEAR = "near: {column: text, similarity: 0.9}"


def plan_of(folder: Path, duplicates: str, more: str = "") -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\nduplicates: {duplicates}\n{more}"
    return make_plan(parse_recipe(text, "r.yaml", str(folder)))


@pytest.mark.parametrize(
    "more",
    [
        "split: {a: 0.5, b: 0.5, by: id}\nleaks: {entity: text}\n",
        "expect: [{name: ids, column: unique(id)}]\non_error: {reject: 3}\ndrop: text\n",
    ],
)
def test_workers_leave_out_the_same_rows(folder: Path, more: str) -> None:
    """One worker and four write the same bytes, and list each row."""
    plan = plan_of(folder, f"{{{NEAR}, action: drop}}", more)
    found = []
    for workers in (1, 4):
        out = folder / f"out{workers}"
        options = (f"--direct_num_workers={workers}",)
        manifest = convert.convert(plan, str(out), beam_options=options, quiet=True)
        found.append([manifest.splits, found_by(manifest, "duplicates")[0], manifest.counts])
        assert verify_dataset(str(out)).rows == 300
    assert found[0] == found[1]
    assert (
        manifest.counts.left_out_by["duplicates"]
        == found_by(manifest, "duplicates")[0]["found"]
        == 100
    )
    assert found_by(manifest, "duplicates")[0]["first"][0] == ["d.csv, line 2", "d.csv, line 302"]
    rows = [json.loads(row) for row in (out / "rejected" / "d.jsonl").read_text().splitlines()]
    assert [row["position"] for row in rows] == [f"line {302 + row}" for row in range(100)]
    assert rows[0]["column"] == "text"
    assert rows[0]["reason"].startswith("a near duplicate: text is 0.9")


def test_an_error_shows_both_rows_and_a_warning_changes_no_byte(folder: Path) -> None:
    """The shards are those of a recipe without the key."""
    plan = plan_of(folder, f"{{{NEAR}, action: error}}")
    found = (
        r"nothing was written:\n  duplicates: 100 of 400 rows \(25.0%\) have a text that is 0.9 "
        r"similar or more to that of an earlier row; the first is d.csv, line 302, as d.csv, line 2\n"
    )
    with pytest.raises(DataError, match=found):
        convert.convert(plan, str(folder / "out"), quiet=True)
    (path,) = [path for path in (folder / "out").rglob("*") if path.is_file()]
    first = json.loads(path.read_text().splitlines()[0])
    assert first["reason"] == "a near duplicate of d.csv, line 2"
    assert first["text"] == f"{first['first_text']} !".replace("0,ride", "300,ride")
    before = make_plan(parse_recipe("name: d\nsources: {d: d.csv}\n", "r.yaml", str(folder)))
    plain = convert.convert(before, str(folder / "plain"), quiet=True)
    manifest = convert.convert(plan_of(folder, f"{{{NEAR}}}"), str(folder / "out"), quiet=True)
    assert manifest.splits == plain.splits
    text = io.StringIO()
    print_summary(manifest, str(folder / "out"), text)
    assert "100 of 400 rows (25.0%) have a text that is 0.9 similar" in text.getvalue()


def test_wrong_keys(folder: Path) -> None:
    """Unknown columns, numbers, and a similarity out of range are errors."""
    with pytest.raises(RecipeProblems, match=r"found column 'txt', .*Did you mean 'text'"):
        plan_of(folder, "{near: {column: txt}}")
    with pytest.raises(RecipeProblems, match="column 'id' is int64, expected text"):
        plan_of(folder, "{near: {column: id}}")
    with pytest.raises(RecipeError, match=r"found '0\.3', expected a similarity from 0\.5 to 1"):
        plan_of(folder, "{near: {column: text, similarity: 0.3}}")
    with pytest.raises(RecipeError, match="found both 'by' and 'near'"):
        plan_of(folder, "{by: id, near: {column: text}}")
    with pytest.raises(RecipeError, match="found no 'column', expected one"):
        plan_of(folder, "{near: {similarity: 0.9}}")


def test_similar_rows_of_several_splits(folder: Path) -> None:
    """Workers find the same, also after rows are left out."""
    leaks = f"leaks: {{{NEAR}, action: error}}\n"
    split = "split: {train: {before: 300}, eval: {after: 300}, column: id}\n"
    text = f"name: d\nsources: {{d: d.csv}}\n{leaks}{split}drop: [text, id]\n"
    with (folder / "d.csv").open("a") as file:
        file.write("7,same\n8,same\n400,same\n")
    text = text.replace("drop:", "derive: {n: id}\nfilter: id > 2\ndrop:")
    plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
    found = (
        r"1 finding; nothing was written:\n  leaks: 98 of 101 rows of 'eval' \(97.0%\) have "
        r"a text that is 0.9 similar or more to that of a row in 'train'; the first is d.csv, line "
        r"305, as d.csv, line 5\n"
    )
    with pytest.raises(DataError, match=found):
        convert.convert(plan, str(folder / "out"), quiet=True)
    (path,) = [path for path in (folder / "out").rglob("*") if path.is_file()]
    first = json.loads(path.read_text().splitlines()[0])
    assert first["reason"] == "a text similar to that of d.csv, line 5, in 'train'"
    text = text.replace("action: error", "action: warn").replace(
        "drop:", "duplicates: {by: text, action: drop}\ndrop:"
    )
    entries = []
    for workers in (1, 4):
        plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
        options = (f"--direct_num_workers={workers}",)
        out = str(folder / f"out{workers}")
        entries.append(
            found_by(convert.convert(plan, out, beam_options=options, quiet=True), "leaks")
        )
    assert entries[0] == entries[1]
    (leak,) = entries[0]
    assert (leak["what"], leak["found"], leak["rows"]) == ("near", 97, 100)
    assert leak["first"][0] == ["d.csv, line 5", "d.csv, line 305"]
