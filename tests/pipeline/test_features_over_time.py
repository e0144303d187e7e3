"""Conversions with joins over time, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources import plan as plan_module
from tests.support.contents import TIMED, contents
from tests.support.read_examples import read_examples, read_records

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: orders
sources: {orders: orders.csv, prices: prices.csv}
from: orders
join:
  - source: prices
    on: {shop: item}
    as_of: {left: at, right: since, tolerance: 20d, tie: price}
    prefix: p_
    strategy: STRATEGY
  - source: prices
    on: {shop: item}
    window: {left: at, right: since, over: 30d}
    features: {n: count(), total: sum(price), last: "last(price, 3) over 40d"}
    strategy: STRATEGY
keep: [number, p_price, n, total, last]
output: {shuffle: false}
"""


def read_lists(dataset: Path) -> list[dict[str, list[int]]]:
    """Returns feature -> its values, of each example."""
    import tensorflow as tf

    examples = map(tf.train.Example.FromString, read_records(dataset))
    return [
        {name: list(each.int64_list.value) for name, each in example.features.feature.items()}
        for example in examples
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes two logs, which are read in several ranges."""
    monkeypatch.setattr(plan_module, "RANGE_BYTES", 4000)
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (4000,))
    random = np.random.default_rng(1)

    def log(name: str, header: str, rows: int) -> None:
        days, seconds = random.integers(1, 29, rows), random.integers(0, 86_400, rows)
        lines = [
            f"{number},{key},2024-0{month}-{day:02} {hour // 3600:02}:{hour // 60 % 60:02}:00"
            for number, (key, month, day, hour) in enumerate(
                zip(
                    random.integers(0, 30, rows),
                    random.integers(1, 4, rows),
                    days,
                    seconds,
                    strict=True,
                )
            )
        ]
        (tmp_path / name).write_text("\n".join([header, *lines]) + "\n")

    log("orders.csv", "number,shop,at", 600)
    log("prices.csv", "price,item,since", 900)
    return tmp_path


def converted(folder: Path, name: str, *options: str, **arguments: Any) -> Manifest:
    """Converts and returns the manifest."""
    text = RECIPE.replace("STRATEGY", arguments.pop("strategy", "broadcast"))
    plan = make_plan(parse_recipe(text, "recipe.yaml", str(folder)))
    return convert.convert(plan, str(folder / name), beam_options=options, quiet=True, **arguments)


def test_as_of_is_the_same_every_way_and_that_of_duckdb(folder: Path) -> None:
    """Strategies and workers do not change a byte."""
    manifest = converted(folder, "one", "--direct_num_workers=1")
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "hash": ("--direct_num_workers=1", {"strategy": "hash"}),
        "two": ("--direct_num_workers=2", {"strategy": "hash"}),
        "four": ("--direct_num_workers=4", {"strategy": "hash"}),
    }
    for name, (option, arguments) in ways.items():
        converted(folder, name, option, **arguments)
        assert contents(folder / name, TIMED) == contents(folder / "one", TIMED), name
    rows = duckdb.sql(f"""
        SELECT number, price, epoch(o."at" - p.since) AS age
        FROM '{folder}/orders.csv' o ASOF LEFT JOIN (
            FROM '{folder}/prices.csv'
            QUALIFY row_number() OVER (PARTITION BY item, since ORDER BY price DESC) = 1
        ) p ON shop = item AND o."at" >= p.since
        ORDER BY number""").fetchall()  # noqa: S608
    limit = 20 * 86_400
    expected = [
        (number, price if age is not None and age <= limit else None) for number, price, age in rows
    ]
    assert [
        (row["number"], row.get("p_price")) for row in read_examples(folder / "one", "train")
    ] == expected
    sql = f"""
        SELECT count(price), sum(price)::BIGINT,
            (SELECT list(price ORDER BY since, price) FROM '{folder}/prices.csv' q
             WHERE q.item = o.shop AND q.since < o."at" AND q.since >= o."at" - INTERVAL 40 DAY)[-3:]
        FROM '{folder}/orders.csv' o LEFT JOIN '{folder}/prices.csv' p
            ON shop = item AND since < o."at" AND since >= o."at" - INTERVAL 30 DAY
        GROUP BY number, shop, o."at" ORDER BY number"""  # noqa: S608
    values = [
        (row["n"][0], (row.get("total") or [None])[0], row.get("last") or None)
        for row in read_lists(folder / "one")
    ]
    assert values == [tuple(row) for row in duckdb.sql(sql).fetchall()]
    ages = [age for _, _, age in rows if age is not None and age <= limit]
    join, _ = manifest.joins
    assert (join.matched, join.unmatched) == (len(ages), 600 - len(ages))


def test_last_values_are_lists_and_feature_lists_of_tensorflow(folder: Path) -> None:
    """TensorFlow parses the same values of both forms."""
    import tensorflow as tf

    lists, context = tf.io.RaggedFeature(tf.int64), {"number": tf.io.FixedLenFeature([], tf.int64)}
    converted(folder, "lists")
    examples = [
        tf.io.parse_single_example(record, {**context, "last": lists})
        for record in read_records(folder / "lists")
    ]
    text = RECIPE.replace("STRATEGY", "hash") + "sequence: {features: last}\n"
    plan = make_plan(parse_recipe(text, "recipe.yaml", str(folder)))
    convert.convert(plan, str(folder / "steps"), quiet=True)
    steps = {"last": tf.io.FixedLenSequenceFeature([], tf.int64)}
    sequences = [
        tf.io.parse_single_sequence_example(record, context, steps)
        for record in read_records(folder / "steps")
    ]
    found = [(own["number"].numpy(), each["last"].numpy().tolist()) for own, each in sequences]
    assert found == [(each["number"].numpy(), each["last"].numpy().tolist()) for each in examples]
    assert {len(values) for _, values in found} == {0, 1, 2, 3}
