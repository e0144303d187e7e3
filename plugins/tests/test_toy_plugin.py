"""Another package adds a format, check, encoding and command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import cli
from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.core.process import plugins
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.normal_form import from_normalised, normalised
from beam_pipelines.sources.plan import cut_ranges
from beam_pipelines_plugins.schemas.recipe_schema import recipe_schema

TOY = Path(__file__).parent / "toy"
RECIPE = """
name: d
sources: {d: {path: d.pairs, mark: ":"}}
no_zeros: n
encode: {n: {times: {by: 3}}}
split: {a: 0.5, b: 0.5}
on_error: {reject: 3}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Rows in several ranges, two of them bad, and the package."""
    monkeypatch.setattr(cut_ranges, "__defaults__", (500,))
    lines = [f"id:{row} n:{'x' if row in (7, 300) else row % 5}" for row in range(400)]
    (tmp_path / "d.pairs").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setenv("PYTHONPATH", str(TOY))
    plugins._points.cache_clear()
    yield tmp_path
    plugins._points.cache_clear()


def plan_of(folder: Path, text: str = RECIPE) -> Plan:
    return make_plan(parse_recipe(text, "r.yaml", str(folder)))


@pytest.mark.end_to_end
def test_rows_are_the_same_on_two_workers(folder: Path) -> None:
    """Bytes do not depend on workers; bad rows have their place."""
    found = []
    for workers in (1, 2):
        out = folder / f"out{workers}"
        options = (f"--direct_num_workers={workers}",)
        manifest = convert.convert(plan_of(folder), str(out), beam_options=options, quiet=True)
        shards = {path.name: path.read_bytes() for path in sorted(out.glob("examples/*/*.gz"))}
        found.append([shards, manifest.findings, manifest.counts])
        listed = (out / "rejected/d.jsonl").read_text().splitlines()
        assert {json.loads(row)["position"] for row in listed} == {"line 8", "line 301"}
    assert found[0] == found[1]
    assert found[0][0]
    assert [entry["line"] for entry in found[0][1]] == ["n: 79 zeros"]
    with bp.open(out).batches("a", epochs=1) as batches:
        assert {value for batch in batches for value in batch["n"].tolist()} == {0, 3, 6, 9, 12}


def test_a_recipe_knows_the_keys(folder: Path) -> None:
    """Options have a schema, survive the manifest, and belong to a format."""
    schema = recipe_schema()["properties"]
    sources = str(schema["sources"])
    assert "'mark'" in sources
    assert "'pairs'" in sources
    assert "'times'" in str(schema["encode"])
    assert "no_zeros" in schema
    recipe = plan_of(folder).recipe
    assert from_normalised(normalised(recipe), "").sources["d"].options == {"mark": ":"}
    (folder / "d.csv").write_text("id,n\n1,2\n")
    with pytest.raises(RecipeProblems, match=r"mark.*'csv', expected it with pairs only"):
        plan_of(folder, RECIPE.replace("d.pairs", "d.csv"))
    with pytest.raises(RecipeError, match=r"unknown key 'marc'.*'mark'"):
        plan_of(folder, RECIPE.replace("mark", "marc"))


def test_help_lists_the_command(folder: Path) -> None:
    """A command of the package is in ``--help``."""
    assert folder.exists()
    assert "hello" in cli.list_commands(None)
    assert cli.get_command(None, "hello").help == "Greet."
