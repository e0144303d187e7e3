"""Values of the command line and of variables in a recipe."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.normal_form import normalised
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
        ("join[0].how=outer", "--set join[0].how: found 'outer', expected left or inner."),
        ("join[3].how=left", "--set join[3].how: found 1 items, expected index 3 of a list in join"),
        ("name.x=1", "--set name.x: found 'a', expected a mapping with 'x' in name."),
        ("join.x=1", "--set join.x: found a list, expected a mapping with 'x' in join."),
        ("sources[0]=1", "--set sources[0]: found no list, expected index 0 of a list in sources."),
        ("label", "--set label: expected KEY=VALUE"),
        ("[0]=1", "--set [0]=1: expected KEY=VALUE"),
        ("a..b=1", "--set a..b=1: expected KEY=VALUE"),
        ("output=[", "--set output: not valid YAML: "),
        ("label=!!python/name:os.system x", "--set label: found the YAML tag"),
        ("vars.x=1", "--set vars.x: found a variable that the recipe's 'vars' does not declare."),
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


VARS = """\
name: a
vars: {folder: data, shards: 4, day: }
sources: {a: "${folder}/a-${day}.csv"}
derive: {x: "'$${day}' || '${shards}'"}
output:
  num_shards: ${shards}
"""


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are of ``--set``, else of the environment, else the defaults."""
    monkeypatch.setenv("BEAM_PIPELINES_VAR_shards", "5")
    monkeypatch.setenv("BEAM_PIPELINES_VAR_day", "1")
    found = with_settings("vars.day=mon", recipe=VARS)
    assert found.sources["a"].path == ("data/a-mon.csv",)
    assert found.derive == {"x": "'${day}' || '5'"}
    assert found.output.num_shards == 5
    assert "vars" not in normalised(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", ""), "r.yaml:2: vars.day: found no value, expected one: --set vars.day=…, or the environment variable BEAM_PIPELINES_VAR_day."),
        (("${day}", "${dya}"), "r.yaml:3: sources.a: found ${dya}, expected a variable that 'vars' declares. Did you mean 'day'?"),
        (("${folder}", "${}"), "r.yaml:3: sources.a: found ${}, expected a variable that 'vars' declares. Known are folder, shards, day."),
        (("${day}", "${day:-2}"), "r.yaml:3: sources.a: found ${day:-2}, expected ${day}, with its default in 'vars': {day: 2}."),
        (("shards: 4", "shards: [4]"), "r.yaml:2: vars.shards: found keys or a list, expected a text, a number, true or false."),
        (("shards: 4", "shards: x"), "r.yaml:6: output.num_shards: found 'x', expected a whole number from 1 to 1000000."),
        (("shards: 4", 'shards: "${day}"'), "r.yaml:2: vars.shards: found '${day}', expected a value without another variable."),
        (("shards: 4", "a-b: 4"), "r.yaml:2: vars.a-b: found the name 'a-b', expected letters, digits and '_'."),
    ],
)  # fmt: skip
def test_wrong_variables(change: tuple[str, str], message: str) -> None:
    """A variable without a value or a declaration is an error."""
    with pytest.raises(RecipeError) as caught:
        with_settings(recipe=VARS.replace(*change) if change[0] else VARS)
    assert message in str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("change", "places"),
    [
        (("day: }", "day: x}"), []),
        (("shards: 4, day: ", "shards: , day: x"), ["r.yaml:2: vars.shards: found no value"]),
        (("{folder: data, shards: 4, day: }", "[day]"), ["r.yaml:2: vars: found no name, expected the variables"]),
        (("{folder: data, shards: 4, day: }", "day"), ["r.yaml:2: vars: found 'day', expected the variables"]),
        (("{folder: data, shards: 4, day: }", "{}"), ["r.yaml:2: vars: found no name, expected the variables"]),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_one_problem(change: tuple[str, str], places: list[str]) -> None:
    """A text without the value of its variable is no second problem."""
    lines = []
    try:
        recipes.parse_recipe(VARS.replace(*change), "r.yaml")
    except RecipeError as error:
        lines = str(error).split("\n")
    assert [line.startswith(place) for line, place in zip(lines, places, strict=True)] == [
        True for _ in places
    ]


def test_errors_name_where_a_value_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of the environment or the option is named."""
    message = "output.num_shards: found 'x', expected a whole number from 1 to 1000000."
    with pytest.raises(RecipeError) as caught:
        with_settings("vars.shards=x", "vars.day=1", recipe=VARS)
    assert str(caught.value) == f"--set vars.shards, {message}"
    assert caught.value.excerpts == ("",)
    monkeypatch.setenv("BEAM_PIPELINES_VAR_shards", "x")
    with pytest.raises(RecipeError) as caught:
        with_settings("vars.day=1", recipe=VARS)
    assert str(caught.value) == f"BEAM_PIPELINES_VAR_shards, {message}"
    monkeypatch.delenv("BEAM_PIPELINES_VAR_shards")
    with pytest.raises(RecipeError) as caught:
        with_settings("vars.day=1", recipe=VARS.replace("shards: 4", "shards: x"))
    assert str(caught.value) == f"r.yaml:6: {message}"


def test_texts_without_variables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``vars``, ``${name}`` is text, whatever the environment has."""
    monkeypatch.setenv("BEAM_PIPELINES_VAR_x", "5")
    recipe = RECIPE + "derive: {y: \"'${x}' || '${HOME}'\"}"
    assert with_settings(recipe=recipe).derive == {"y": "'${x}' || '${HOME}'"}


def test_other_environment_variables_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe cannot read a variable that is not meant for it."""
    monkeypatch.setenv("SECRET", "s3cret")
    with pytest.raises(RecipeError) as caught:
        with_settings(recipe=RECIPE + 'vars: {SECRET: }\nlabel: "${SECRET}"')
    assert "s3cret" not in str(caught.value)


def test_recipe_of_the_page() -> None:
    """The recipe of docs/recipe.md reads with a value for its variable."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "recipe.md").read_text()
    text = page[page.index("## Variables") :].split("```yaml\n")[1].split("```")[0]
    assert with_settings("vars.day=1", recipe=text).output.num_shards == 4
