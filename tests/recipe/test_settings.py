"""Values of the command line in a recipe."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.settings import (
    apply_settings,
    label_setting,
    read_setting,
    split_setting,
)
from beam_pipelines.recipe.text.yaml import parse_yaml, plain

RECIPE = """\
name: a
sources: {a: a.csv, b: {path: b.csv}}
from: a
join:
  - {source: b, on: id}
split: {train: 1, by: id}
"""


def with_settings(*texts: str, recipe: str = RECIPE) -> Recipe:
    return recipes.parse_recipe(recipe, "r.yaml", settings=[read_setting(text) for text in texts])


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        (["output.num_shards=4"], RECIPE + "output: {num_shards: 4}"),
        (["output={num_shards: 4}"], RECIPE + "output: {num_shards: 4}"),
        (["join[0].how=inner"], RECIPE.replace("on: id", "on: id, how: inner")),
        (["join[1]={source: b, on: id, prefix: c}"], RECIPE.replace("split", "  - {source: b, on: id, prefix: c}\nsplit")),
        (["sources.a.delimiter=;"], RECIPE.replace("a: a.csv", 'a: {path: a.csv, delimiter: ";"}')),
        (['encode."x.y"=drop', "label=z"], RECIPE + "encode: {x.y: drop}\nlabel: z"),
        (["derive.late=delay > 15"], RECIPE + "derive: {late: delay > 15}"),
        (["label=z", "label=w"], RECIPE + "label: w"),
        (["filter=x = 1"], RECIPE + "filter: x = 1"),
    ],
)  # fmt: skip
def test_settings_take_the_place_of_values(texts: list[str], same: str) -> None:
    """A recipe with settings is the recipe that has their values."""
    assert with_settings(*texts) == with_settings(recipe=same)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output.num_shards=x", "--set output.num_shards: found 'x', expected a whole number"),
        ("output.num_shard=4", "--set output.num_shard: found an unknown key 'num_shard'. Did you"),
        ("output={level: x}", "--set output: level: found 'x', expected"),
        ("output={level: 1, level: 2}", "--set output: level: found this key on line 1 and again"),
        ("label=", "--set label: found nothing, expected a text."),
        ("join[0].how=outer", "--set join[0].how: found 'outer', expected left, inner, semi or anti."),
        ("join[3].how=left", "--set join[3].how: found 1 items, expected index 3 of a list in join"),
        ("name.x=1", "--set name.x: found 'a', expected a mapping with 'x' in name."),
        ("join.x=1", "--set join.x: found a list, expected a mapping with 'x' in join."),
        ("sources[0]=1", "--set sources[0]: found no list, expected index 0 of a list in sources."),
        ("label", "--set label: expected KEY=VALUE"),
        ("[0]=1", "--set [0]=1: expected KEY=VALUE"),
        ("a..b=1", "--set a..b=1: expected KEY=VALUE"),
        ("output=[", "--set output: not valid YAML: "),
        ("label=!!python/name:os.system x", "--set label: found the YAML tag"),
    ],
)  # fmt: skip
def test_wrong_settings(text: str, message: str) -> None:
    """A wrong setting is an error that names the option."""
    with pytest.raises(RecipeError) as caught:
        with_settings(text)
    assert str(caught.value).split("\n")[0].startswith(message)


@pytest.mark.parametrize("value", ['"a" > 1', """'a' || b""", """"it's" <> 'x'"""])
def test_a_text_that_begins_with_a_quoted_name(value: str) -> None:
    """The error has the text in quotes, which is a setting."""
    with pytest.raises(RecipeError, match="not valid YAML") as caught:
        with_settings(f"filter={value}")
    quoted = str(caught.value).rpartition("Put the whole text in quotes: ")[2][:-1]
    assert with_settings(f"filter={quoted}").filter == value


def test_short_forms() -> None:
    """``--label`` and ``--split`` set their keys; ``by`` of the recipe stays."""
    settings = [label_setting("no"), split_setting("train=80%,eval=0.2")]
    found = recipes.parse_recipe(RECIPE, "r.yaml", settings=settings)
    assert (found.label, found.split.fractions) == ("no", {"train": 0.8, "eval": 0.2})
    assert found.split.by == ("id",)
    bare = recipes.load("d.csv", [split_setting("train=0.8,eval=0.2,by=x")])
    assert (bare.split.by, bare.name) == (("x",), "d")
    for wrong in ("train", "train=1,train=1"):
        with pytest.raises(RecipeError, match=r"--split train.*expected NAME=SHARE"):
            split_setting(wrong)


def test_a_setting_that_says_the_same_changes_nothing() -> None:
    """A setting that repeats a default changes nothing."""
    assert recipes.load("d.csv", [read_setting("sources.d=d.csv")]) == recipes.load("d.csv")
    with pytest.raises(RecipeError, match=r"^--label: found '', expected a text.$"):
        recipes.load("d.csv", [label_setting("")])


json_values = st.recursive(
    st.integers() | st.booleans() | st.text("abc", min_size=1),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("xyz", min_size=1), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def changed(value: Any, path: list[Any], new: Any) -> Any:
    """Returns a copy with another value at a path."""
    if not path:
        return new
    if isinstance(value, list):
        return [
            changed(item, path[1:], new) if index == path[0] else item
            for index, item in enumerate(value)
        ]
    return {
        key: changed(item, path[1:], new) if key == path[0] else item for key, item in value.items()
    }


def paths(value: Any) -> list[list[Any]]:
    """Returns the paths of all parts of a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    return [[], *([step, *path] for step, item in steps for path in paths(item))]


@given(st.dictionaries(st.text("xyz", min_size=1), json_values, min_size=1), st.data())
def test_any_part_can_be_set(value: dict[str, Any], data: st.DataObject) -> None:
    """A setting changes the part at its path and nothing else."""
    tree, _, _ = parse_yaml(json.dumps(value), "r.yaml")
    path = data.draw(st.sampled_from([path for path in paths(value) if path]))
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
    problems: list[Any] = []
    found = apply_settings(tree, [read_setting(f"{text}=17")], problems)
    assert (plain(found), problems) == (changed(value, path, 17), [])


def test_texts_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``${name}`` in a recipe is text, whatever the environment has."""
    monkeypatch.setenv("x", "5")
    recipe = RECIPE + "derive: {y: \"'${x}' || '${HOME}'\"}"
    assert with_settings(recipe=recipe).derive == {"y": "'${x}' || '${HOME}'"}
