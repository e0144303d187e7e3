"""pipeline/planning/stages.py plans a conversion, and finds all problems at once."""

from __future__ import annotations

import dataclasses
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.reader import bare_recipe
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources import FORMATS

SECTIONS = {
    "name": "name: rows",
    "sources": "sources: {rows: {path: rows.csv}, right: {path: right.csv}}",
    "from": "from: rows",
    "join": "join: [{source: right, on: n}]",
    "rename": "rename: {x: y}",
    "filter": "filter: n >= 0",
    "derive": "derive: {twice: 2 * n, n_x: 3 * n, z: t}",
    "protect": "protect: {z: drop}",
    "drop": "drop: [n_x]",
    "encode": "encode: {twice: z_score, t: vocabulary}",
    "label": "label: y",
    "expect": "expect: [{name: few, row: n >= 0}]",
    "duplicates": "duplicates: {by: rows, action: drop}",
    "leaks": "leaks: error",
    "sample": "sample: {by: m, rates: {1: 1}}",
    "split": "split: {train: 0.5, eval: 0.5}",
    "statistics": "statistics: {weight: n, slice_by: [t]}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with two tables that can be joined."""
    (tmp_path / "rows.csv").write_text("n,m,t\n" + "".join(f"{n},{n},t{n}\n" for n in range(9)))
    (tmp_path / "right.csv").write_text("n,x\n" + "".join(f"{n},{n % 2}\n" for n in range(9)))
    return tmp_path


def recipe_of(folder: Path, **changed: str) -> Recipe:
    text = "\n".join({**SECTIONS, **changed}.values())
    return parse_recipe(text, "recipe", str(folder))


def test_the_recipe_enters_few_modules(folder: Path) -> None:
    """At most 15 modules get the recipe, or a plan with it."""
    entered = set()

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        code, name = frame.f_code, frame.f_globals.get("__name__", "")
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = (frame.f_locals.get(each) for each in (*arguments, *code.co_freevars))
        takes = any(isinstance(value, Recipe | Plan) for value in values)
        if event == "call" and takes and name.startswith("beam_pipelines."):
            entered.add(name)

    recipe = recipe_of(folder)
    sys.setprofile(note)
    try:
        make_plan(recipe)
    finally:
        sys.setprofile(None)
    assert "beam_pipelines.transforms.select.select" in entered
    assert len(entered) <= 15, sorted(entered)


def test_a_plan_has_few_parts() -> None:
    """A plan has at most 12 fields."""
    assert len(dataclasses.fields(Plan)) <= 12


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        # A missing file leaves out what needs its columns.
        ({"sources": "sources: {rows: {path: no.csv}, right: {path: none.csv}}"}, ["sources.rows.path", "sources.right.path"]),
        # What does not need the part that is wrong is looked at, in the order of parts.
        ({"split": "split: {train: 1, by: no}", "label": "label: l"}, ["split.by.0", "label"]),
        ({"encode": "encode: {no: z_score}", "statistics": "statistics: {weight: no}"}, ["encode.no", "statistics.weight"]),
        ({"encode": "sequence: {features: [no]}", "statistics": "schema: no.pbtxt\nallow_anomalies: no"},
         ["schema", "sequence.features", "allow_anomalies"]),
        # The key of protected values does not keep other parts from being planned.
        ({"protect": "protect: {t: {keyed_hash: no}}", "label": "label: l"}, ["protect.t", "label"]),
        ({"rename": "rename: {no: y}", "label": "label: y"}, ["rename.no"]),
        ({"join": "join: [{source: right, on: no}]", "label": "label: l"}, ["join.0.on", "join.0.on", "join.0"]),
        ({"filter": "filter: no", "drop": "drop: [nothing]"}, ["filter", "drop.0"]),
    ],
)  # fmt: skip
def test_one_pass_finds_independent_problems(folder, changed, paths):
    """Parts whose needs are there report, the others do not guess."""
    with pytest.raises(RecipeProblems) as error:
        make_plan(recipe_of(folder, **changed))
    assert [".".join(map(str, each.path)) for each in error.value.problems] == paths


def test_a_prefix_names_the_columns_of_images(folder: Path) -> None:
    """A contract's images are found in joined sources by their joined names."""
    schema = folder / "schema.pbtxt"
    schema.write_text('feature { name: "p_blob" type: BYTES image_domain {} }')
    (folder / "right.jsonl").write_text('{"n": 1, "blob": "AA=="}\n')
    sources = "sources: {rows: {path: rows.csv}, right: {path: right.jsonl, types: {blob: bytes}}}"
    join = "join: [{source: right, on: n, prefix: p_}]"
    bare = dict.fromkeys(set(SECTIONS) - {"name", "from"}, "")
    plan = make_plan(
        recipe_of(folder, **{**bare, "sources": sources, "join": f"{join}\nschema: {schema}"})
    )
    assert plan.sources["right"].images == ("blob",)
    assert plan.base.images == ()


def test_files_named_after_splits_are_pointed_out(tmp_path: Path) -> None:
    """The finding's split divides the files."""
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text(f"a\n{len(name)}\n")
    recipe = bare_recipe(str(tmp_path), FORMATS)
    *_, finding = make_plan(recipe).base.decisions
    assert finding.startswith("split: {train: 1}  # 2 files are named after splits; split: ")
    found = yaml.safe_load(finding.partition("; ")[2].removesuffix(" divides them"))["split"]
    files = {split: one["files"] for split, one in found.items()}
    divided = dataclasses.replace(recipe, split=Split(fractions={}, files=files))
    plan = make_plan(divided)
    assert plan.split.names == ("train", "test")
    assert "named after splits" not in " ".join(plan.base.decisions)
