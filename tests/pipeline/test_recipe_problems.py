"""All problems of a recipe in one run."""

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
        (SEVEN, ["name", "join[0].how", "derive.big", "encode.y.vocabulary", "filter", "label", "split", "output.num_shards"]),
        # A mistake hides those that it explains, and no others.
        ([("x > 1", "nope > 1"), ("num_shards: 2", "num_shards: x")], ["derive.big", "output.num_shards"]),
        ([("x > 1", "nope > 1"), ("by: y", "by: w")], ["derive.big", "split.by[0]"]),
        ([("x > 1", "nope > 1\n  more: big = 2"), ("label: big", "label: more")], ["derive.big"]),
        ([("{x: id}", "{x: ident}"), ("label: big", "label: p_name")], ["join[0].on"]),
        ([("{x: id}", "{x: ident}"), ("label: big", "label: pname")], ["join[0].on", "label"]),
        ([("p.csv", "missing.csv"), ("label: big", "label: p_name")], ["sources.p.path"]),
        ([("p.csv", "missing.csv"), ("label: big", "label: lost")], ["sources.p.path", "label"]),
        ([("d.csv", "missing.csv"), ("p.csv", "gone.csv")], ["sources.d.path", "sources.p.path"]),
        ([("key: id", "key: ident"), ("by: y", "by: w")], ["sources.p.key", "split.by[0]"]),
        ([("d.csv, key: x", 'd.csv, delimter: ";"'), ("label: big", "label: lost")], ["sources.d.delimter"]),
        ([("derive:", "derrive:")], ["derrive"]),
        ([("label: big", "label: lost\nleaks: never\nexpect: [{row: w > 1}]")], ["label", "leaks", "expect[0]", "expect[0].row"]),
        ([("label: big", "label: lost\nduplicate: {action: drop}\nleaks: {entity: w}")], ["label", "duplicate", "leaks.entity[0]"]),
        ([("name: a", "nam: a"), ("x > 1", "nope > 1"), ("eval: 0.2", "eval: 0.3")],
         ["nam", "derive.big", "split"]),
        ([("name: a", "name: a\nzzz: 1"), ("x > 1", "nope > 1")], ["zzz", "derive.big"]),
        ([("output:", "outputt:"), ("by: y", "by: w")], ["split.by[0]", "outputt"]),
        ([("by: y", "by: w"), ("label: big", "label: lost"), ("y: voc", "w: voc")], ["encode.w", "label", "split.by[0]"]),
        ([("split: {train: 0.8", "fit: {splits: trian}\nsplit: {train: 0.9")], ["split"]),
        ([("sources:", "source:")], ["source"]),
        ([("from: d", "from: e"), ("p.csv", "missing.csv"), ("num_shards: 2", "num_shards: x")],
         ["sources.p.path", "from", "output.num_shards"]),
        ([("d.csv, key: x", "d.csv, columns: [x, yy, z]"), ("label: big", "label: lost")], ["sources.d.columns", "label"]),
        ([("d.csv, key: x", "d.csv, header: false, columns: [x, x, z]"), ("label: big", "label: lost")], ["sources.d.columns"]),
        ([("from: d\n", "")], ["found no 'from', expected the source whose rows become examples"]),
    ],
)  # fmt: skip
def test_problems_in_one_run(changes, expected, folder):
    """One run lists the problems of reading and planning, without their consequences."""
    assert places(folder, *changes) == expected


def test_columns_of_joins_keep_their_numbers(folder: pathlib.Path) -> None:
    """The second join keeps its number when the first is wrong."""
    changes = [
        ("from: d", "  q: missing.csv\nfrom: d"),
        ("join:\n", "join:\n  - {source: q, on: x, prefix: q_}\n"),
        ("{x: id}", "{x: none}"),
    ]
    assert places(folder, *changes) == ["sources.q.path", "join[1].on"]


def test_files_are_looked_at_once(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another look for problems reads no source again."""
    from beam_pipelines.pipeline.planning import sources

    seen = []
    real = sources.plan_source
    monkeypatch.setattr(
        sources,
        "plan_source",
        lambda source, folder: seen.append(source.name) or real(source, folder),
    )
    changes = [("x > 1", "nope > 1"), ("by: y", "by: w"), ("label: big", "label: lost")]
    assert len(places(folder, *changes)) == 3
    assert sorted(seen) == ["d", "p"]
