"""Writing a first recipe: it is read back, and it runs.

Its suggestions are recipes, too.
"""

from __future__ import annotations

import pathlib
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.cli.init import can_join, name_sources, quoted, recipe_text, write_recipe
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline import plan as plan_module
from beam_pipelines.pipeline import recipes
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.yaml import Scalar, parse_yaml
from beam_pipelines.sources.plan import FileInfo, SourcePlan


def source_plan(name: str, schema: pa.Schema) -> SourcePlan:
    path = f"data/{name}.csv"
    return SourcePlan(
        Source(name, (path,)),
        "csv",
        (FileInfo(path, 1000),),
        schema,
        schema,
        (),
        (schema.names[-1],),
    )


def uncomment(text: str, key: str) -> str:
    """Turns the suggestion for a key into a part of the recipe.

    Indented lines below the key belong to it.
    """
    text = re.sub(rf"^# ({key}:.*)$", r"\1", text, flags=re.MULTILINE)
    lines = text.split("\n")
    index = next(index for index, line in enumerate(lines) if line.startswith(f"{key}:")) + 1
    while lines[index].startswith("#  "):
        lines[index] = lines[index][2:]
        index += 1
    return "\n".join(lines)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two tables that share a column."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "clicks.csv").write_text(
        "user id,at,item\n1,2013-01-01,a\n2,2013-01-02,b\n"
    )
    (tmp_path / "data" / "users.csv").write_text("user id,age,none\n1,20,\n2,30,\n")
    return tmp_path


def test_written_recipe_is_a_plan(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The written recipe loads and can be planned from any folder.

    It says what was found in the data.
    """
    monkeypatch.chdir(folder)
    write_recipe(["data/clicks.csv", "data/users.csv"], "recipes/first.yaml")
    text = (folder / "recipes" / "first.yaml").read_text()
    assert re.search(r'"user id" +int64\n', text)
    assert re.search(r"at +date\n", text)
    assert re.search(r"none +text +\(nothing but nulls in the sample\)", text)
    monkeypatch.chdir("/")
    recipe = recipes.load(str(folder / "recipes" / "first.yaml"))
    assert {name: source.path for name, source in recipe.sources.items()} == {
        "clicks": ("../data/clicks.csv",),
        "users": ("../data/users.csv",),
    }
    assert (recipe.base, recipe.split.names, recipe.join) == ("clicks", ("train", "eval"), ())
    assert plan_module.make_plan(recipe).base.schema.names == ["user id", "at", "item"]


@pytest.mark.parametrize("key", ["join", "filter", "derive", "drop", "label", "on_error"])
def test_suggestions_are_recipes(
    key: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each suggestion that is not uncommented can be planned."""
    monkeypatch.chdir(folder)
    write_recipe(["data/clicks.csv", "data/users.csv"], "recipe.yaml")
    recipe = recipes.parse_recipe(
        uncomment((folder / "recipe.yaml").read_text(), key), "recipe.yaml"
    )
    assert getattr(recipe, key) != reader.bare_recipe("a.csv").__getattribute__(key)
    plan_module.make_plan(recipe)


def test_existing_file_is_kept(folder: pathlib.Path) -> None:
    """An existing file is replaced only on request.

    A missing source leaves nothing.
    """
    output = folder / "recipe.yaml"
    output.write_text("mine")
    with pytest.raises(RecipeError, match="is there already"):
        write_recipe([str(folder / "data" / "clicks.csv")], str(output))
    with pytest.raises(RecipeError, match="no file matches"):
        write_recipe([str(folder / "missing.csv")], str(output), overwrite=True)
    assert output.read_text() == "mine"
    write_recipe([str(folder / "data" / "clicks.csv")], str(output), overwrite=True)
    assert recipes.load(str(output)).sources["clicks"].path == (
        str(folder / "data" / "clicks.csv"),
    )


def test_source_names() -> None:
    """Sources of the same file name get numbers.

    A number never gives the name of another source.
    """
    names = [
        source.name
        for source in name_sources(
            ["a/x.csv", "b/x.csv", "x_2.csv", "gs://b/y/*.parquet", "x_2.tsv"]
        )
    ]
    assert names == ["x", "x_2", "x_2_2", "y", "x_2_3"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            ["d/x-00001-of-00002.csv.gz", "d/x-00000-of-00002.csv.gz"],
            {"x": ("d/x-?????-of-00002.csv.gz",)},
        ),
        (
            ["t/mnist-train.tfrecord-00000-of-00001", "u.csv"],
            {"mnist-train": ("t/mnist-train.tfrecord-00000-of-00001",), "u": ("u.csv",)},
        ),
        (
            ["data_tfrecord-00000-of-00003.gz", "data_tfrecord-00002-of-00003.gz"],
            {
                "data_tfrecord": (
                    "data_tfrecord-00000-of-00003.gz",
                    "data_tfrecord-00002-of-00003.gz",
                )
            },
        ),
        (
            ["x[1]-00000-of-00002.csv", "x[1]-00001-of-00002.csv"],
            {"x_1": ("x[1]-00000-of-00002.csv", "x[1]-00001-of-00002.csv")},
        ),
        (
            ["a/x-00000-of-00001.csv", "b/x-00000-of-00001.csv", "x-00000-of-00001.tsv"],
            {
                "x": ("a/x-00000-of-00001.csv",),
                "x_2": ("b/x-00000-of-00001.csv",),
                "x_3": ("x-00000-of-00001.tsv",),
            },
        ),
        (["x.csv", "x.csv"], {"x": ("x.csv",), "x_2": ("x.csv",)}),
        (
            ["x-000000-of-100000.csv", "x-100000-of-100000.csv"],
            {"x": ("x-000000-of-100000.csv", "x-100000-of-100000.csv")},
        ),
    ],
)
def test_shards_are_one_source(data: list[str], expected: dict[str, tuple[str, ...]]) -> None:
    """Shards of one set are one source: a pattern, or a list."""
    assert {source.name: source.path for source in name_sources(data)} == expected


def test_recipe_of_shards(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of a listed set reads all shards, without a join."""
    monkeypatch.chdir(folder)
    shards = [f"data/s-0000{number}-of-00003.csv" for number in range(3)]
    for shard in shards:
        (folder / shard).write_text("a,b\n1,x\n")
    for data, number in ((shards, 3), (shards[1:], 2)):
        write_recipe(data, "recipes/s.yaml", overwrite=True)
        assert "# join:" not in (folder / "recipes" / "s.yaml").read_text()
        recipe = recipes.load(str(folder / "recipes" / "s.yaml"))
        assert len(plan_module.make_plan(recipe).base.files) == number


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.int64(), pa.int64(), True),
        (pa.string(), pa.string(), True),
        (pa.date32(), pa.date32(), True),
        (pa.int64(), pa.string(), False),
        (pa.float64(), pa.float64(), False),
        (pa.list_(pa.int64()), pa.list_(pa.int64()), False),
    ],
)
def test_candidates_for_joins(left: pa.DataType, right: pa.DataType, expected: bool) -> None:
    """Columns of one name are proposed as keys.

    They need one type that can be a key.
    """
    assert can_join(pa.field("k", right), pa.schema([("k", left), ("other", right)])) is expected
    assert not can_join(pa.field("j", right), pa.schema([("k", right)]))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_quoted_text_is_read_back(text: str) -> None:
    """Any text survives as YAML item, value and key."""
    tree, _, problems = parse_yaml(
        f"a: [{quoted(text)}]\nb: {quoted(text)}\n? {quoted(text)}\n: 1\n", "r.yaml"
    )
    assert isinstance(tree, dict)
    assert tree["a"] == [Scalar(text, text)]
    if text not in ("a", "b"):
        assert not problems
        assert tree["b"] == Scalar(text, text)
        assert text in tree


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_any_column_names(names: list[str]) -> None:
    """The recipe and each suggestion can be read for any column names."""
    plans = [
        source_plan(name, pa.schema([(column, pa.date32()) for column in names]))
        for name in ("a", "b")
    ]
    text = recipe_text(plans, "")
    assert recipes.parse_recipe(text, "r.yaml").base == "a"
    if all(name.strip() for name in names):
        for key in ("join", "filter", "derive", "drop", "label"):
            recipe = recipes.parse_recipe(uncomment(text, key), "r.yaml")
            assert getattr(recipe, key)
        assert recipes.parse_recipe(uncomment(text, "join"), "r.yaml").join[0].on == tuple(
            (n, n) for n in names
        )
