"""The part of the filter that is applied before the joins."""

from __future__ import annotations

import hashlib
import json
import pathlib
import random
import sqlite3
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.plan import Plan
from tests.sources.support import write
from tests.transforms.test_split_key import plan_in, rows_of

USERS = 40
ORDERS = [
    (
        number,
        random.Random(number).randrange(60),
        number % 7,
        f"n{number % 3}" if number % 5 else None,
    )
    for number in range(400)
]
# Each third user has two rows.
LANDS = [
    (user, f"{'DE' if user % 2 else 'US'}{copy}")
    for user in range(USERS)
    for copy in range(1 + (user % 3 == 0))
]
CSV, SQLITE = "path: orders.csv, types: {note: text}", "url: shop.sqlite, table: orders"
SOURCES = """
sources:
  orders: {path: orders.csv, types: {note: text}}
  users: users.csv
from: orders
join: [{source: users, on: {user: uid}, how: inner, max_fanout: 2, strategy: broadcast}]
rename: {total: price, land: country}
output: {num_shards: 2, shuffle_seed: 3}
"""


def write_data(folder: pathlib.Path) -> None:
    """Writes orders and users as CSV and SQLite."""
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in ORDERS]
    write(folder / "orders.csv", "\n".join(["id,user,total,note", *lines]) + "\n")
    lines = [f"{user},{land}" for user, land in LANDS]
    write(folder / "users.csv", "\n".join(["uid,land", *lines]) + "\n")
    with sqlite3.connect(folder / "shop.sqlite") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, user INTEGER, total INTEGER, note TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
    shop.close()


def conditions(plan: Plan) -> tuple[str | None, str | None]:
    """The conditions before and after the joins."""
    selects = (plan.base_filter, plan.select)
    first, after = (each.filter.sql if each and each.filter else None for each in selects)
    return first, after


@pytest.mark.parametrize(
    ("condition", "first", "after"),
    [
        ("price > 3", "price > 3", None),
        ("country = 'DE0'", None, "country = 'DE0'"),
        (
            "PRICE > 3 AND country = 'DE0' AND (note = 'n1' OR id < 9) AND id + length(country) > 9",
            "(PRICE > 3) AND ((note = 'n1') OR (id < 9))",
            "(country = 'DE0') AND ((id + length(country)) > 9)",
        ),
        ("price > 3 OR country = 'DE0'", None, "price > 3 OR country = 'DE0'"),
        ("id > 3 AND 2 > 1", "(id > 3)", "(2 > 1)"),
        ("price AND length(country)", "(\nprice\n) AND TRUE", "(\nlength(country)\n) AND TRUE"),
    ],
)
def test_the_filter_is_divided(tmp_path, condition, first, after):
    """Parts that use the base source alone come first, under new names."""
    write_data(tmp_path)
    recipe = f'{SOURCES}\nfilter: "{condition}"\n'
    assert conditions(plan_in(tmp_path, recipe)) == (first, after)
    _, row = rows_of(tmp_path, recipe)[0]
    assert list(row) == ["id", "user", "price", "note", "country"]


def test_without_joins_there_is_one_filter(tmp_path: pathlib.Path) -> None:
    """Nothing is divided that is applied at one place."""
    write_data(tmp_path)
    plan = plan_in(tmp_path, "sources: {orders: orders.csv}\nfilter: total > 3 AND id > 5\n")
    assert conditions(plan) == (None, "total > 3 AND id > 5")


def converted(folder: pathlib.Path, name: str, **changes: str) -> tuple[dict[str, Any], str]:
    """Converts orders, and returns the manifest and the hash of the shards."""
    recipe = f"name: orders\n{SOURCES}filter: {changes.pop('filter')}\n"
    for old, new in changes.items():
        recipe = recipe.replace(old, new)
    (folder / "recipe.yaml").write_text(recipe)
    out = folder / name
    bp.convert(str(folder / "recipe.yaml"), str(out), quiet=True)
    digest = hashlib.sha256()
    for path in sorted(out.rglob("*.tfrecord*")):
        digest.update(path.read_bytes())
    return json.loads((out / "dataset.json").read_text()), digest.hexdigest()


@pytest.mark.end_to_end
def test_a_conversion_counts_the_rows_that_are_joined(tmp_path: pathlib.Path) -> None:
    """Joins count as plain Python does, for files and databases.

    The shards are those of a filter after the joins.
    """
    write_data(tmp_path)
    condition = "price > 3 AND note IS NOT NULL AND country <> 'US1'"
    after = (
        "price + length(country) > 3 + length(country) AND note || country IS NOT NULL "
        "AND country <> 'US1'"
    )
    found = {
        "csv": converted(tmp_path, "csv", filter=condition),
        "hash": converted(tmp_path, "hash", filter=condition, broadcast="hash"),
        "sqlite": converted(tmp_path, "sqlite", filter=condition, **{CSV: SQLITE}),
    }
    late, shards = converted(tmp_path, "late", filter=after)
    left = [row for row in ORDERS if row[2] > 3 and row[3] is not None]
    matches = [[land for user, land in LANDS if user == row[1]] for row in left]
    matched = sum(map(bool, matches))
    for name, (manifest, own) in found.items():
        assert own == shards, name
        counts = manifest["counts"]
        assert counts["filtered_first"] == len(ORDERS) - len(left)
        assert manifest["joins"] == [
            {
                "source": "users",
                "how": "inner",
                "matched": matched,
                "unmatched": 0,
                "dropped": len(left) - matched,
                "added": sum(map(len, matches)) - matched,
                "null_keys": sum(row[1] is None for row in left),
            }
        ]
        assert counts == found["csv"][0]["counts"]
        assert counts["read"] == len(ORDERS)
        assert counts["written"] == sum(land != "US1" for lands in matches for land in lands)
        assert (
            counts["read"] + counts["added"]
            == counts["written"] + counts["filtered"] + counts["dropped"]
        )
    assert late["counts"]["filtered_first"] == 0
    assert late["counts"]["written"] == found["csv"][0]["counts"]["written"]


def test_a_row_without_a_value_is_an_error_before_the_joins(tmp_path: pathlib.Path) -> None:
    """Its message has the part and the row; ``TRY_CAST`` mends it."""
    write_data(tmp_path)
    recipe = f"{SOURCES}filter: CAST(note AS BIGINT) > 3 AND country <> 'US1'\n"
    with pytest.raises(DataError, match=r"filter \(\(CAST\(note AS BIGINT\) > 3\)\).*note: 'n1'"):
        rows_of(tmp_path, recipe)
    assert rows_of(tmp_path, recipe.replace("CAST", "TRY_CAST")) == []
