"""The problems of a recipe that one run lists."""

from __future__ import annotations

import pathlib

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning import plan_recipe

RECIPE = """\
name: a
sources:
  d: {path: d.csv, key: x}
  p: {path: p.csv, key: id}
from: d
join:
  - {source: p, on: {x: id}, prefix: p_}
derive:
  big: x > 1
encode:
  y: vocabulary
label: big
split: {train: 0.8, eval: 0.2, by: y}
output: {num_shards: 2}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two small tables."""
    (tmp_path / "d.csv").write_text("x,y,z\n1,a,1\n2,b,2\n")
    (tmp_path / "p.csv").write_text("id,name\n1,one\n2,two\n")
    return tmp_path


def places(folder: pathlib.Path, *changes: tuple[str, str]) -> list[str]:
    """Returns the places of the problems of the recipe with changes."""
    text = RECIPE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "recipe.yaml").write_text(text)
    try:
        plan_recipe.plan(folder / "recipe.yaml")
    except RecipeError as error:
        return [line.split(": ")[1] for line in str(error).split("\n")]
    return []


SEVEN = [
    ("name: a", "name: my data"),
    ("prefix: p_", "prefix: p_, how: outer"),
    ("x > 1", "nope > 1"),
    ("y: vocabulary", "y: {vocabulary: {top_q: 3}}"),
    ("label: big", "filter: z >\nlabel: bik"),
    ("eval: 0.2", "eval: 0.3"),
    ("num_shards: 2", "num_shards: x"),
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], []),
        # Keys come first, then what planning finds.
        (SEVEN, ["name", "join[0].how", "encode.y.vocabulary", "split", "output.num_shards"]),
        (SEVEN[2:3] + SEVEN[4:5], ["derive.big", "filter"]),
        ([("x > 1", "nope > 1"), ("num_shards: 2", "num_shards: x")], ["output.num_shards"]),
        ([("x > 1", "nope > 1"), ("by: y", "by: w")], ["derive.big"]),
        # A mistake hides those that it explains.
        ([("x > 1", "nope > 1\n  more: big = 2"), ("label: big", "label: more")], ["derive.big"]),
        ([("{x: id}", "{x: ident}"), ("label: big", "label: p_name")], ["join[0].on"]),
        ([("p.csv", "missing.csv"), ("label: big", "label: p_name")], ["sources.p.path"]),
        ([("d.csv", "missing.csv"), ("p.csv", "gone.csv")], ["sources.d.path", "sources.p.path"]),
        ([("d.csv, key: x", 'd.csv, delimter: ";"'), ("label: big", "label: lost")], ["sources.d.delimter"]),
        ([("label: big", "label: lost\nleaks: never\nexpect: [{row: w > 1}]")], ["leaks", "expect[0]"]),
        ([("label: big", "label: lost\nleaks: {entity: w}")], ["leaks.entity[0]"]),
        ([("name: a", "nam: a"), ("eval: 0.2", "eval: 0.3")], ["nam", "split"]),
        ([("by: y", "by: w"), ("label: big", "label: lost"), ("y: voc", "w: voc")], ["encode.w", "label", "split.by[0]"]),
        ([("split: {train: 0.8", "fit: {splits: trian}\nsplit: {train: 0.9")], ["split"]),
        ([("sources:", "source:")], ["source"]),
        ([("d.csv, key: x", "d.csv, header: false, columns: [x, x, z]"), ("label: big", "label: lost")], ["sources.d.columns"]),
        ([("from: d\n", "")], ["found no 'from', expected the source whose rows become examples"]),
    ],
)  # fmt: skip
def test_problems_in_one_run(changes, expected, folder):
    """A run lists problems of keys, or else of independent parts."""
    assert places(folder, *changes) == expected
