"""Tests of the columns that new data lack."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning.lacking import check_features, find_lacking
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan

COLUMNS = {"a": "int64", "b": "int64", "c": "int64", "k": "text", "Größe": "int64", "y": "int64"}
RECIPE = """
name: n
sources:
  s: {path: s.csv, derive: {ab: a + b}}
  t: {path: t.csv, key: k}
from: s
join: [{source: t, on: k, how: left}]
filter: c > 0 AND a > 0
derive: {d: ab * 2, e: c + 1, ü: Größe + 1}
drop: [b, c, e]
rename: {a: first}
encode: {d: z_score, ü: z_score}
label: y
"""
# Feature -> the columns that it needs.
NEEDS = {
    "first": "a", "ab": "ab", "d": "ab", "k": "k", "v": "k", "Größe": ["Größe"], "ü": ["Größe"],
}  # fmt: skip


def plan_without(folder: Path, absent: tuple[str, ...]) -> Plan:
    """Plans a recipe with new data that lack some columns."""
    names = [name for name in COLUMNS if name not in absent]
    rows = "".join(",".join("12"[row % 2] for _ in names) + "\n" for row in range(4))
    (folder / "s.csv").write_text(",".join(names) + "\n" + rows)
    (folder / "t.csv").write_text("k,v\n1,2\n2,3\n")
    text = RECIPE.replace("a > 0", "first > 0").replace(
        "path: t.csv", "path: t.csv, types: {k: text}"
    )
    recipe = parse_recipe(text, "r.yaml", str(folder))
    source = recipe.sources["s"]
    planning = source.planning._replace(may_lack=COLUMNS)
    source = dataclasses.replace(source, planning=planning, types={"k": "text"})
    return make_plan(dataclasses.replace(recipe, sources={**recipe.sources, "s": source}))


@pytest.mark.parametrize(
    "absent",
    [*itertools.combinations(COLUMNS, 1), ("b", "y"), ("c", "y"), ("a", "c", "Größe"), ("c", "k")],
)
def test_the_message_names_what_features_need(tmp_path: Path, absent: tuple[str, ...]) -> None:
    """Columns of filter and label, and dropped ones, are not needed."""
    plan = plan_without(tmp_path, absent)
    lacking = find_lacking(plan)
    made = {name for name, needs in NEEDS.items() if {*absent} & {*needs}}
    assert lacking.features - {"y"} == made
    needed = {name for needs in NEEDS.values() for name in needs} & {*absent}
    if not needed:
        check_features(plan, lacking, "out")
        return
    with pytest.raises(RecipeError) as caught:
        check_features(plan, lacking, "out")
    shown = ", ".join(f"'{name}'" for name in COLUMNS if name in needed)
    assert f"source 's': found no column {shown}. It has" in str(caught.value)
