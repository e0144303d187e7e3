"""First recipes of eighteen kinds of tables, judged line by line."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.pipeline.previews.first_rows import first_rows
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.settings import label_setting, read_setting
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines_plugins.first_recipe.column_profile import profile_columns
from beam_pipelines_plugins.first_recipe.draft import draft_of
from beam_pipelines_plugins.first_recipe.draft_sources import FoundTables
from beam_pipelines_plugins.first_recipe.joins import Side
from beam_pipelines_plugins.first_recipe.recipe_text import recipe_text
from plugins.tests.support.first_tables import FIRST_TABLES, Tables, events, passengers
from plugins.tests.support.more_first_tables import MORE_FIRST_TABLES, answers, shop

EXPECTED = pathlib.Path(__file__).parent / "first_recipes"
ALL_TABLES = (*FIRST_TABLES, *MORE_FIRST_TABLES)
# Lines that are the same in every recipe.
COMMON = ("# Fitted",)


def plan_of(name: str, table: pa.Table) -> SourcePlan:
    """Returns the plan of a table without its file."""
    file = FileInfo(f"{name}.parquet", 1)
    source = Source(name, (file.path,))
    return SourcePlan(source, "parquet", (file,), table.schema, table.schema, ())


def drafted(tables: Tables) -> str:
    """Returns the lines of a recipe from the join to the encodings."""
    plans = [plan_of(name, table) for name, table in tables.items()]
    sides = [
        Side(name, profile_columns(table), table, is_whole=True) for name, table in tables.items()
    ]
    text = recipe_text(FoundTables(tuple(plans)), draft_of(sides, plans), "")
    _, _, text = text.partition("its rows become examples\n")
    text, _, _ = text.partition("# A row that cannot be read")
    lines = [line for line in text.splitlines() if line and not line.startswith(COMMON)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("make", ALL_TABLES, ids=lambda make: make.__name__)
def test_lines_of_a_first_recipe(make: Callable[[], Tables]) -> None:
    """Each line is as an expert on the table would write it."""
    assert drafted(make()) == (EXPECTED / f"{make.__name__}.yaml").read_text()


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.date32()])
def test_each_kind_of_time_splits(kind: pa.DataType, tmp_path: pathlib.Path) -> None:
    """Times with and without a zone, and days, divide rows."""
    days = pa.array(range(20_000, 20_300), pa.int32()).cast(pa.date32())
    table = pa.table({"seen_at": days.cast(kind), "n": range(300), "won": [0, 1, 1] * 100})
    pq.write_table(table, tmp_path / "p.parquet")
    recipe = tmp_path / "recipe.yaml"
    assert run(["init", str(tmp_path / "p.parquet"), "-o", str(recipe)]) == 0
    assert bp.plan(recipe).recipe.split.time_column == "seen_at"


@pytest.mark.parametrize("make", ALL_TABLES, ids=lambda make: make.__name__)
def test_first_recipes_need_no_edit(make: Callable[[], Tables], tmp_path: pathlib.Path) -> None:
    """The recipe is a plan, and its first rows are encoded."""
    paths = []
    for name, table in make().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        paths.append(str(tmp_path / f"{name}.parquet"))
    recipe = tmp_path / "recipe.yaml"
    assert run(["init", *paths, "-o", str(recipe)]) == 0
    rows = first_rows(bp.plan(recipe), 3).rows
    assert all(row.encoded for row in rows)


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    "make", [passengers, events, answers, shop], ids=lambda make: make.__name__
)
def test_first_recipes_convert(make: Callable[[], Tables], tmp_path: pathlib.Path) -> None:
    """The recipe of CSV files makes a dataset of two splits."""
    paths = []
    for name, table in make().items():
        pa.csv.write_csv(table, tmp_path / f"{name}.csv")
        paths.append(str(tmp_path / f"{name}.csv"))
    recipe = tmp_path / "recipe.yaml"
    assert run(["init", *paths, "-o", str(recipe)]) == 0
    dataset = bp.convert(recipe, tmp_path / "out")
    assert dataset.label is not None
    assert min(dataset.splits.values()) > 0
    assert bp.verify(tmp_path / "out").rows == sum(dataset.splits.values())


def test_a_bare_file_is_encoded_on_request(tmp_path: pathlib.Path) -> None:
    """``--encode`` takes the encodings of a first recipe; other settings win."""
    pq.write_table(passengers()["passengers"], tmp_path / "p.parquet")
    settings = [label_setting("Survived"), read_setting("encode.Age=drop")]
    plan = bp.plan(tmp_path / "p.parquet", settings=settings, encode=True)
    assert plan.encode.written == ("Survived", "Pclass", "Sex", "Fare", "Embarked")
    assert plan.recipe.label == "Survived"
    (tmp_path / "r.yaml").write_text("name: p\nsources: {p: p.parquet}\n")
    with pytest.raises(bp.RecipeError, match="found --encode with a recipe"):
        bp.plan(tmp_path / "r.yaml", encode=True)


def test_a_folder_of_tables(tmp_path: pathlib.Path) -> None:
    """The base is the table that names the others."""
    tables = shop()
    first, second = tables["items"].slice(0, 3_000), tables["items"].slice(3_000, 3_000)
    for name, table in (tables | {"items": first, "items_2": second}).items():
        pa.csv.write_csv(table, tmp_path / f"{name}.csv")
    recipe = tmp_path / "recipe.yaml"
    assert run(["init", str(tmp_path), "-o", str(recipe)]) == 0
    plan = bp.plan(recipe)
    assert plan.recipe.base == "items"
    assert [join.source for join in plan.recipe.join] == ["orders", "products", "customers"]
    assert plan.recipe.sources["items"].path == (str(tmp_path / "items*.csv"),)
    assert len(plan.base.files) == 2
    assert "examples, as 3 of the others can be joined" in recipe.read_text()
    (tmp_path / "parts").mkdir()
    for part in ("a", "b"):
        pa.csv.write_csv(first, tmp_path / "parts" / f"{part}.csv")
    assert run(["init", str(tmp_path / "parts"), "-o", str(tmp_path / "p.yaml")]) == 0
    assert set(bp.plan(tmp_path / "p.yaml").recipe.sources) == {"parts"}
