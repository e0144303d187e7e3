"""Writing a first recipe: it is read back, and it runs.

Its suggestions are recipes, too.
"""

from __future__ import annotations

import json
import pathlib
import re

import pyarrow as pa
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.previews.estimate import make_preview
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml import Scalar, parse_yaml
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import FORMATS
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.transforms import read
from beam_pipelines_plugins.first_recipe.column_profile import profile_columns
from beam_pipelines_plugins.first_recipe.draft import draft_of
from beam_pipelines_plugins.first_recipe.draft_sources import FoundTables
from beam_pipelines_plugins.first_recipe.init import name_sources, write_recipe
from beam_pipelines_plugins.first_recipe.joins import Side
from beam_pipelines_plugins.first_recipe.recipe_text import recipe_text


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
    (join,) = recipe.join
    assert (recipe.base, join.source, join.on) == ("clicks", "users", (("user id", "user id"),))
    assert make_plan(recipe).base.schema.names == ["user id", "at", "item"]


@pytest.mark.parametrize("key", ["label", "split", "on_error"])
def test_suggestions_are_recipes(
    key: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each suggestion that is not uncommented can be planned."""
    monkeypatch.chdir(folder)
    write_recipe(["data/clicks.csv", "data/users.csv"], "recipe.yaml")
    recipe = recipes.parse_recipe(
        uncomment((folder / "recipe.yaml").read_text(), key), "recipe.yaml"
    )
    assert getattr(recipe, key) != reader.bare_recipe("a.csv", FORMATS).__getattribute__(key)
    make_plan(recipe)


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


def test_another_schema_is_kept(folder: pathlib.Path) -> None:
    """Another file in place of the schema is replaced on request only."""
    data, schema = [str(folder / "data" / "clicks.csv")], folder / "recipe.schema.json"
    schema.write_text("mine")
    with pytest.raises(RecipeError, match=r"recipe\.schema\.json: found another file"):
        write_recipe(data, str(folder / "a.yaml"))
    assert (schema.read_text(), (folder / "a.yaml").exists()) == ("mine", False)
    write_recipe(data, str(folder / "a.yaml"), overwrite=True)
    assert schema.read_text() != "mine"
    write_recipe(data, str(folder / "b.yaml"))


def test_source_names() -> None:
    """Sources of the same file name get numbers.

    A number never gives the name of another source.
    """
    names = [
        source.name
        for source in name_sources(
            [("a/x.csv",), ("b/x.csv",), ("x_2.csv",), ("gs://b/y/*.parquet",), ("x_2.tsv",)]
        )
    ]
    assert names == ["x", "x_2", "x_2_2", "y", "x_2_3"]


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
        assert len(make_plan(recipe).base.files) == number
        assert (recipe.sources["s"].path == ("../data/s-*-of-00003.csv",)) == (number == 3)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_quoted_text_is_read_back(text: str) -> None:
    """Any text survives as YAML item, value and key."""
    tree, _, problems = parse_yaml(
        f"a: [{yaml_text(text)}]\nb: {yaml_text(text)}\n? {yaml_text(text)}\n: 1\n", "r.yaml"
    )
    assert isinstance(tree, dict)
    assert tree["a"] == [Scalar(text, text)]
    if text not in ("a", "b"):
        assert not problems
        assert tree["b"] == Scalar(text, text)
        assert text in tree


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1),
)
@example(["0", "."], "0")  # Arrow reads names such as "." as paths
def test_any_names_and_values(names: list[str], value: str) -> None:
    """The recipe can be read for any names and any values."""
    rows = pa.table({column: [value, "other"] * 30 for column in names})
    plans = [source_plan(name, rows.schema) for name in ("a", "b")]
    sides = [Side(name, profile_columns(rows), rows, True) for name in ("a", "b")]
    text = recipe_text(FoundTables(tuple(plans)), draft_of(sides, plans), "")
    recipe = recipes.parse_recipe(text, "r.yaml")
    assert recipe.base == "a"
    assert recipe.encode.keys() <= set(names)


def test_text_in_utf_16(tmp_path: pathlib.Path) -> None:
    """A file in UTF-16 gets a recipe, as others do."""
    (tmp_path / "names.csv").write_text("name\tage\nZoë\t20\nEva\t30\n", encoding="utf-16")
    write_recipe([str(tmp_path / "names.csv")], str(tmp_path / "recipe.yaml"))
    plan = make_plan(recipes.load(str(tmp_path / "recipe.yaml")))
    assert plan.base.schema.names == ["name", "age"]


def test_rows_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    """The recipe says which row keeps it from running."""
    text = '{"id": 1, "tags": ["a"]}\n{"id": 2, "tags": ["b", null]}\n{"id": 3, "tags": []}\n'
    (tmp_path / "events.jsonl").write_text(text)
    write_recipe([str(tmp_path / "events.jsonl")], str(tmp_path / "recipe.yaml"))
    made = (tmp_path / "recipe.yaml").read_text()
    assert "# choose: 1 row of those that init has read cannot be read:" in made
    assert "events.jsonl, line 2, column 'tags': found a null inside a list" in made
    make_plan(recipes.load(str(tmp_path / "recipe.yaml")))
    (tmp_path / "bad.jsonl").write_text(text.splitlines()[1])
    with pytest.raises(DataError, match=r"line 1, column 'tags': found a null inside a list"):
        write_recipe([str(tmp_path / "bad.jsonl")], str(tmp_path / "bad.yaml"))
    with pytest.raises(DataError, match=r"line 1, column 'tags': found a null inside a list"):
        make_preview(bp.plan(str(tmp_path / "bad.jsonl")))
    (tmp_path / "good.jsonl").write_text(text.replace(", null", ""))
    write_recipe([str(tmp_path / "good.jsonl")], str(tmp_path / "good.yaml"))
    assert "cannot be read, the first" not in (tmp_path / "good.yaml").read_text()


@pytest.mark.parametrize(
    ("last", "is_asked"),
    [("Source: an office,,", True), ("x,1,", False), ("a,,\nb,,", False), ("Don't,,", True)],
)
def test_a_note_below_the_table_is_asked_about(
    tmp_path: pathlib.Path, last: str, is_asked: bool
) -> None:
    """The filter in the question leaves its row out."""
    rows = [f"r{n},{n},{n / 2}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["region,n,share", *rows, last]))
    write_recipe([str(tmp_path / "a.csv")], str(tmp_path / "r.yaml"))
    found = re.findall("# choose: the last row .* filter: (.*)", (tmp_path / "r.yaml").read_text())
    assert bool(found) == is_asked
    for text in found:
        recipe = {"name": "a", "sources": {"a": str(tmp_path / "a.csv")}}
        written = bp.convert(recipe | {"filter": yaml.safe_load(text)}, tmp_path / "out").splits
        assert sum(written.values()) == 60


@pytest.mark.parametrize("share", [1, 30, 60])
@pytest.mark.parametrize("other", ["x", True, {"a": 1}, [1], 2**63])
def test_types_that_rows_need(tmp_path: pathlib.Path, share: int, other: object) -> None:
    """The recipe reads mixed fields as texts, and asks about one row."""
    rows = [{"id": n, "v": other if n < share else n} for n in range(120)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows[::-1]))
    write_recipe([str(tmp_path / "a.jsonl")], str(tmp_path / "r.yaml"))
    plan = make_plan(recipes.load(str(tmp_path / "r.yaml")))
    if other == 2**63 and share == 1:  # which the run refuses
        with pytest.raises(DataError, match=r"types: \{v: text\}"):
            read.read_table(plan.base, reject=False)
        return
    is_asked = "# choose: 1 row of those" in (tmp_path / "r.yaml").read_text()
    assert is_asked == (share == 1)
    if not is_asked:
        found = read.read_table(plan.base, reject=False)[0].column("v").to_pylist()
        texts = [row["v"] if isinstance(row["v"], str) else json.dumps(row["v"]) for row in rows]
        assert found == texts[::-1]


def test_a_column_that_needs_a_decision(tmp_path: pathlib.Path) -> None:
    """The recipe has the question, whose remedy makes numbers."""
    lines = [f"{number % 9},{' ' if number == 50 else number / 8}" for number in range(300)]
    (tmp_path / "bills.csv").write_text("\n".join(["n,total", *lines]) + "\n")
    write_recipe([str(tmp_path / "bills.csv")], str(tmp_path / "r.yaml"))
    text = (tmp_path / "r.yaml").read_text()
    found = re.search(
        r"# choose: column 'total': found ' ' \(.*, line 52\) .* Set '(nulls: .*?)' if", text
    )
    assert found is not None
    assert re.search("total: drop +# texts of numbers, nearly all different", text)
    assert "# choose: total: z_score, after the decision on its source" in text
    decided = text.replace("infer: lenient", found[1]).replace("total: drop", "total: z_score")
    plan = make_plan(recipes.parse_recipe(decided, str(tmp_path / "r.yaml")))
    assert plan.base.schema.field("total").type == pa.float64()


def test_settings_of_sources_are_keys_of_the_recipe(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--set`` changes how a file is read, and the recipe says so."""
    (tmp_path / "orders.csv").write_text("# orders\nid;n\n1;?\n2;7\n")
    (tmp_path / "users.csv").write_text("id,age\n1,30\n2,31\n")
    recipe = tmp_path / "recipe.yaml"
    given = ["sources.orders.skip_lines=1", 'sources.orders.nulls=["?"]']
    options = [f"--set={text}" for text in given]
    assert run(["init", str(tmp_path), "-o", str(recipe), *options]) == 0
    text = recipe.read_text()
    assert 'skip_lines: 1\n    nulls: ["?"]\n' in text
    assert bp.plan(recipe).recipe.sources["orders"].nulls == ("?",)
    for setting, message in [
        ("sources.none.skip_lines=1", "there is no source 'none'. They are"),
        ("sources.orders.skip=1", "found an unknown key 'skip'"),
        ("label=n", "expected keys of sources of data"),
    ]:
        assert run(["init", str(tmp_path), "--overwrite", "-o", str(recipe), "--set", setting]) != 0
        assert message in capsys.readouterr().err


def test_a_file_a_month_in_folders_is_one_source(tmp_path: pathlib.Path) -> None:
    """Files of one name in numbered folders are of one series."""
    for month in ("01", "02"):
        (tmp_path / "2023" / month).mkdir(parents=True)
        (tmp_path / "2023" / month / "events.csv").write_text("code,won\n1,0\n2,1\n")
    recipe = tmp_path / "recipe.yaml"
    assert run(["init", str(tmp_path), "-o", str(recipe)]) == 0
    [source] = bp.plan(recipe).recipe.sources.values()
    assert len(bp.plan(recipe).sources[source.name].files) == 2
