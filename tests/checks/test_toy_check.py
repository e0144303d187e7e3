"""A check of another package needs one module and one entry point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import FindingsError, RecipeProblems
from beam_pipelines.core.process import plugins
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.normal_form import recipe_hash
from beam_pipelines_plugins.schemas.recipe_schema import recipe_schema
from tests.support.findings import found_by
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

TOY = Path(__file__).parent / "toy"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table in several ranges, and the package."""
    short_ranges(monkeypatch, 500)
    lines = [f"{row},{'' if row % 100 == 7 else row % 50}" for row in range(400)]
    (tmp_path / "d.csv").write_text("id,n\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setenv("PYTHONPATH", str(TOY))
    plugins._points.cache_clear()
    yield tmp_path
    plugins._points.cache_clear()


def plan_of(folder: Path, more: str) -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\nsplit: {{a: 0.5, b: 0.5}}\n{more}"
    return plan_in(folder, text)


@pytest.mark.end_to_end
def test_a_sum_of_each_chunk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in manifest and summary, whatever the workers."""
    manifest = of_workers(folder, plan_of(folder, "most_nulls: n\n"), lambda one: one.findings)
    line = "n: 4 of 400 rows have none; the first is ['d.csv, line 9']"
    assert found_by(manifest, "most_nulls")[0]["line"] == line
    print_summary(manifest, "out")
    assert f"warning  most_nulls: {line}" in capsys.readouterr().out


@pytest.mark.end_to_end
def test_rows_that_meet(folder: Path) -> None:
    """Those of several splits stop the run, also with private columns."""
    found = r"1 finding; nothing was written:\n  one_split: n: .* split 1 found in .*\nLeave"
    plan = plan_of(folder, "one_split: n\npii: {allow: id}\n")
    with pytest.raises(FindingsError, match=found):
        convert_in(folder, plan)


def test_the_key_is_in_the_schema_and_checked(folder: Path) -> None:
    """Its problems have their place."""
    assert "most_nulls" in recipe_schema()["properties"]
    with pytest.raises(RecipeProblems, match="column 'm'"):
        plan_of(folder, "most_nulls: m\n")


@pytest.mark.end_to_end
def test_rows_that_a_check_leaves_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are counted under its name, also after those of another check."""
    out = str(folder / "out")
    recipe = "derive: {tens: id // 10}\nduplicates: {by: tens, action: drop}\nno_twins: n\n"
    manifest = convert.convert(plan_of(folder, recipe), out, quiet=True)
    counts = manifest.counts
    assert (counts.left_out_by["duplicates"], counts.left_out_by["no_twins"]) == (360, 35)
    assert (counts.read, counts.written) == (400, 5)
    listed = (folder / "out/rejected/d.jsonl").read_text().splitlines()
    lines = {int(json.loads(row)["position"].split()[-1]) for row in listed}
    assert set(range(2, 402)) - lines == {2, 12, 22, 32, 42}
    verify_dataset(out)
    print_summary(manifest, out)
    assert (
        "360 left out as duplicates, 35 left out as no_twins, 5 written" in capsys.readouterr().out
    )
    assert "rows left out as no_twins" in (folder / "out" / "report.html").read_text()


def test_a_key_that_changes_rows_is_in_the_hash(folder: Path) -> None:
    """A resumed run keeps no shard with rows that are left out."""
    hashes = [
        recipe_hash(plan_of(folder, more).recipe)
        for more in ("", "no_twins: n\n", "no_twins: id\n", "one_split: n\n", "most_nulls: n\n")
    ]
    assert hashes[0] == hashes[3] == hashes[4]
    assert len(set(hashes)) == 3


def test_a_check_that_hides_that_it_changes_rows_is_refused(folder, monkeypatch):
    """Its author sees what is missing."""
    kind = plugins.load(plugins.CHECKS, "no_twins")
    monkeypatch.setattr(kind, "changes_rows", False)
    with pytest.raises(TypeError, match="expected 'changes_rows = True' of NoTwins"):
        plan_of(folder, "no_twins: n\n")


def test_what_a_check_cannot_do_is_a_problem(folder: Path) -> None:
    """Grouped rows with splits are refused while planning."""
    with pytest.raises(RecipeProblems, match=r"one_split.*found it with 'group_by'"):
        plan_of(folder, "one_split: n\nsequence: {group_by: n}\n")
