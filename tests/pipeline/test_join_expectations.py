"""Runs hold joins to what the recipe expects of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import PipelineError
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.run_options import RunOptions

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: e
sources: {{events: events.csv, users: users.csv}}
from: events
join: [{{source: users, on: {{user: id}}, how: {how}{expected}}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events.csv").write_text("user,n\n" + "".join(f"{i},{i}\n" for i in range(20)))
    (tmp_path / "users.csv").write_text("id,city\n1,a\n2,b\n2,c\n90,d\n")
    return tmp_path


@pytest.mark.parametrize("how", ["left", "inner"])
def test_too_few_matches_stop_a_run(folder: Path, how: str) -> None:
    """Nothing is written; describe goes on, and validate stops."""
    text = RECIPE.format(how=how, expected=", require_match: 95%, max_fanout: 1.2")
    plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
    found = r"'users': found a match for 2 of 20 rows \(10.0%\), expected at least 95% .*\n.*rows of 2 with a match, 1.5 each"
    with pytest.raises(PipelineError, match=found):
        convert.convert(plan, str(folder / "out"), quiet=True)
    assert not (folder / "out" / "dataset.json").exists()
    with pytest.raises(PipelineError, match=found):
        convert.validate(plan, RunOptions(str(folder / "seen"), quiet=True))
    convert.describe(plan, RunOptions(str(folder / "seen"), quiet=True))


def test_added_rows_are_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary shows it, unless the recipe allows them."""
    for expected, lines in (("", 1), (", max_fanout: 1.5", 0)):
        text = RECIPE.format(how="left", expected=expected)
        plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
        out = str(folder / f"out{lines}")
        print_summary(convert.convert(plan, out, quiet=True), out)
        assert (
            capsys.readouterr().out.count(
                "warning  join with 'users': 2 rows with a match became 3"
            )
            == lines
        )


@pytest.mark.parametrize(
    ("expected", "message"),
    [("", "none of 20 rows has a match"), (", require_match: 0", "no values")],
)
def test_a_join_without_a_match_comes_before_what_follows(folder, expected, message):
    """The error of the join, not that of the empty column.

    Stops the run.
    """
    (folder / "events.csv").write_text("user,n\nzz,0\n" + "".join(f"u{i},1\n" for i in range(19)))
    (folder / "users.csv").write_text("id,age\n" + "".join(f"U{i},{i}\n" for i in range(19)))
    text = RECIPE.format(how="left", expected=expected) + "encode: {age: {fill: median}}\n"
    plan = make_plan(parse_recipe(text, "r.yaml", str(folder)))
    with pytest.raises(PipelineError, match=message):
        convert.convert(plan, str(folder / "out"), quiet=True)
    assert not (folder / "out" / "dataset.json").exists()
