"""Sources in databases, as recipes name them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.normal_form import from_normalised, normalised, recipe_hash
from beam_pipelines.recipe.places import planner_of
from beam_pipelines.recipe.reader import bare_name, bare_recipe
from beam_pipelines.sources import FORMATS
from beam_pipelines.sources.planner import plan_source
from tests.support.made_source import made_source

URL = "postgresql://shop@db.example.com:5433/shop"


def read(source: str) -> Source:
    """The source of a recipe's text."""
    return parse_recipe(f"name: a\nsources: {{b: {source}}}", "r.yaml").sources["b"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"{{url: '{URL}', table: users}}", {"url": URL, "table": "users"}),
        (f"{{url: '{URL}#users'}}", {"url": URL, "table": "users"}),
        (f"'{URL}#sales.users'", {"url": URL, "table": "sales.users"}),
        (f"'{URL}#two%20words'", {"url": URL, "table": "two words"}),
        (f"{{url: '{URL}', query: SELECT 1}}", {"url": URL, "query": "SELECT 1"}),
        ("'mariadb://h/shop#users'", {"url": "mariadb://h/shop", "table": "users"}),
        ("{url: 'mysql://h', table: shop.users}", {"url": "mysql://h", "table": "shop.users"}),
        ("shop.sqlite#users", {"url": "shop.sqlite", "table": "users"}),
        ("{url: shop.duckdb, table: users}", {"url": "shop.duckdb", "table": "users"}),
        ("data/shop#1.csv", {"path": ("data/shop#1.csv",)}),
        ("orders.xlsx#My Sheet", {"path": ("orders.xlsx",), "sheet": "My Sheet"}),
        ("orders.xls#2", {"path": ("orders.xls",), "sheet": "2"}),
        ("scans.h5#train/a", {"path": ("scans.h5",), "group": "train/a"}),
        ("scans.h5", {"path": ("scans.h5",)}),
        ("a#1.xlsx", {"path": ("a#1.xlsx",)}),
        ("[a.csv, b.sqlite]", {"path": ("a.csv", "b.sqlite")}),
    ],
)
def test_places(source: str, expected: dict[str, Any]) -> None:
    """A text, or ``url`` with ``table`` or ``query``, names a table."""
    assert read(source) == made_source("b", **expected)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{table: users}", "found no 'path'"),
        (f"{{path: '{URL}'}}", "found a URL of postgresql in 'path', expected it in 'url'"),
        ("{url: 'oracle://h/d', table: a}", "expected the URL of a database"),
        ("{url: 'postgresql://h:port/d', table: a}", "one that cannot be read"),
    ],
)
def test_problems(source: str, said: str) -> None:
    """Keys that do not fit a source are problems with their places."""
    with pytest.raises(RecipeError) as raised:
        read(source)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("source", "key", "said"),
    [
        ("{path: a.csv, query: SELECT 1}", "query", "expected it with database only"),
        (f"{{url: '{URL}#users', query: SELECT 1}}", "url", "found both 'table' and 'query'"),
        (f"{{url: '{URL}', table: a, delimiter: ','}}", "delimiter", "with csv, tsv only"),
        (f"{{url: '{URL}', table: a, path: b}}", "path", "found it with 'url'"),
        (f"{{url: '{URL}', table: a, infer: full}}", "infer", "found it with 'url'"),
        (f"{{url: '{URL}', table: a, format: csv}}", "url", "expected it with database only"),
    ],
)
def test_problems_of_planning(source: str, key: str, said: str, tmp_path: Path) -> None:
    """Keys that do not fit are found before the server is asked."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(RecipeProblems) as raised:
        plan_source(read(source), str(tmp_path))
    found = {problem.path: problem.message for problem in raised.value.problems}
    assert said in found["sources", "b", key]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:open-sesame-7@h/d",
        "postgresql://shop:open%20sesame-7@h/d",
        "postgres://h/d?password=open-sesame-7",
        "postgresql://h/d?sslpassword=open-sesame-7",
        "mysql://shop:open-sesame-7@h/d",
        "mariadb://h/d?passwd=open-sesame-7",
    ],
)
def test_passwords_are_refused_without_being_shown(url: str) -> None:
    """A URL with a password is refused, and not shown."""
    with pytest.raises(RecipeError, match="found a password in the URL") as raised:
        read(f"{{url: '{url}', table: a}}")
    shown = f"{raised.value} {raised.value.excerpts}"
    assert "sesame" not in shown
    assert ("PGPASSWORD" if url.startswith("postgres") else "MYSQL_PWD") in shown
    with pytest.raises(RecipeError, match="found a password in the URL") as raised:
        bare_recipe(f"{url}#a", FORMATS)
    assert "sesame" not in str(raised.value)


def test_names_of_tables() -> None:
    """A dataset of one table is named after it."""
    assert [bare_name(path) for path in (f"{URL}#users", "data/shop.sqlite", f"{URL}#a.b")] == [
        "users",
        "shop",
        "a",
    ]


def test_recipes_of_files_keep_their_hash() -> None:
    """The keys of databases are not part of a recipe without them."""
    files = Recipe("a", {"a": Source("a", ("a.csv",))}, "a")
    assert not set(normalised(files)["sources"]["a"]) & {"url", "table", "query", "partition"}
    source = made_source("a", url=URL, table="users", partition="id")
    table = dataclasses.replace(files, sources={"a": source})
    assert recipe_hash(table) != recipe_hash(files)
    again = from_normalised(normalised(table), "").sources["a"]
    assert again.options == {**source.options, "url": URL.replace("shop@", "")}


def test_files_are_told_from_databases() -> None:
    """Suffixes and schemes decide, not names that contain them."""
    known = {"a.DB": "database", "a.db.csv": None, "http://h/a": None, "postgres://h": "database"}
    assert {path: planner_of(path) for path in known} == known
