"""An encoder joins a user's events as a conversion does."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from tests.dataset.test_encoder import assert_same, rows_of

pytestmark = pytest.mark.end_to_end

HOUR = 3_600_000_000
# Keys that both sides derive, a window over a joined column, and an expression of features.
RECIPE = """
name: asks
sources:
  asks: {path: asks.parquet, derive: {who: "lpad(user::VARCHAR, 4, '0')"}}
  clicks:
    path: clicks.parquet
    derive: {who: "lpad(user_id::VARCHAR, 4, '0')", cents: "round(price * 100)::BIGINT", kind: "coalesce(item, -1)", term: "coalesce(word, '?')"}
  prices: prices.parquet
from: asks
join:
  - source: prices
    on: item
    as_of: {left: at, right: since, tolerance: 20h, tie: version}
    prefix: price_
  - source: clicks
    on: who
    window: {left: at, right: t, over: 12h, exact: EXACT}
    features:
      n: count()
      n_ever: "count(item) over 100000d"
      spend: sum(price)
      cents: sum(cents)
      spread: std(price)
      dearest: max(price)
      kinds: count_distinct(item)
      final: last(item)
      items: "last(kind, 3)"
      words: "last(term, 2) over 5h"
  - source: clicks
    on: {who: who, price_shop: shop}
    window: {left: price_since, right: t, exact: true}
    features: {before: count(), words: "last(term, 4)"}
    prefix: shop_
    how: HOW
rename: {spend: spent, price_value: value}
derive: {rate: "spent / n", is_new: "n_ever = 0"}
keep: [number, n, n_ever, spent, cents, spread, dearest, kinds, final, items, words, shop_before, shop_words, value, rate, is_new]
encode: {value: [{fill: 0}, z_score], final: {vocabulary: {num_oov: 1}}}
split: {train: 0.5, eval: 0.5}
"""


def draw(random: np.random.Generator, rows: int, limit: int) -> pa.Array:
    """Draws few of some numbers; some are null."""
    return pa.array(random.integers(0, limit, rows), mask=random.random(rows) < 0.1)


def tables(seed: int) -> dict[str, pa.Table]:
    """Draws the logs; many times are equal."""
    random = np.random.default_rng(seed)

    def hours(rows: int) -> pa.Array:
        return pc.multiply(draw(random, rows, 60), HOUR).cast(pa.timestamp("us"))

    def words(rows: int) -> pa.Array:
        return pa.array(random.choice([None, "a", "b", "ä"], rows).tolist(), pa.string())

    return {
        "asks": pa.table(
            {
                "number": pa.array(range(80)),
                "user": draw(random, 80, 6),
                "item": words(80),
                "at": hours(80),
            }
        ),
        "clicks": pa.table(
            {
                "user_id": draw(random, 300, 5),
                "t": hours(300),
                "item": draw(random, 300, 9),
                "word": words(300),
                "price": pa.array(random.normal(10, 9, 300), mask=random.random(300) < 0.1),
                "shop": draw(random, 300, 3),
            }
        ),
        "prices": pa.table(
            {
                "item": words(60),
                "since": hours(60),
                "version": pa.array(range(60)),
                "value": pa.array(random.normal(0, 1, 60)),
                "shop": draw(random, 60, 3),
            }
        ),
    }


def converted(folder: Path, seed: int, exact: bool, how: str = "left") -> dict[str, pa.Table]:
    """Converts drawn logs; returns them."""
    drawn = tables(seed)
    for name, table in drawn.items():
        pq.write_table(table, folder / f"{name}.parquet")
    text = RECIPE.replace("EXACT", json.dumps(exact)).replace("HOW", how)
    (folder / "recipe.yaml").write_text(text)
    bp.convert(str(folder / "recipe.yaml"), str(folder / "out"), quiet=True)
    return drawn


@pytest.mark.parametrize("seed", range(4))
def test_events_give_what_the_shards_have(tmp_path: Path, seed: int) -> None:
    """Requests of every form have the shards' features, to the bit."""
    logs = converted(tmp_path, seed, exact=bool(seed % 2), how="inner" if seed == 3 else "left")
    asks, clicks, prices = logs.values()
    dataset = bp.open(tmp_path / "out")
    encode = pickle.loads(pickle.dumps(dataset.encoder()))  # noqa: S301 - our own
    for split in dataset.splits:
        [expected] = dataset.batches(split, 1000, shuffle=False)
        numbers, count = expected["number"].tolist(), len(expected["number"])
        rows = asks.take(pa.array(numbers))
        history: dict[str, Any] = {"clicks": clicks, "prices": prices}
        assert_same(encode(rows, history), expected, count)
        history = {"clicks": clicks.to_pylist(), "prices": prices.to_pandas()}
        assert_same(encode(rows.to_pylist(), history), expected, count)
        for place, row in enumerate(rows.to_pylist()):
            events = clicks.filter(pc.equal(clicks["user_id"], pa.scalar(row["user"], pa.int64())))
            history = {"clicks": events.to_pylist() if place % 2 else events, "prices": prices}
            found = encode(row, history=history)
            for name, values in expected.items():
                assert rows_of(found[name], 1)[0] == rows_of(values, count)[place], (name, row)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> bp.Dataset:
    """A dataset of joins over time."""
    folder = tmp_path_factory.mktemp("asks")
    converted(folder, 0, exact=False)
    return bp.open(folder / "out")


def test_some_features_may_come_with_the_request(dataset: bp.Dataset) -> None:
    """A row has the columns of the joins whose events it lacks."""
    encode = dataset.encoder(["spent", "rate", "n"])
    assert encode.columns == {"spent": "float64", "n": "int64"}
    assert encode.events == {"clicks": {"user_id": "int64", "t": "timestamp", "price": "float64"}}
    row = {"user": 1, "at": "2024-01-01T12:00:00"}
    events = [
        {"user_id": 1, "t": "2024-01-01T11:00:00", "price": 3.0},
        {"user_id": 1, "t": "2024-01-01T12:00:00", "price": 9},
    ]
    for form in (events, pa.Table.from_pylist(events), pd.DataFrame(events)):
        found = encode(row, {"clicks": form})
        assert (found["n"].tolist(), rows_of(found["rate"], 1)) == ([1], [[(3.0, 1.0)]])
    assert encode(row, {"clicks": []})["n"].tolist() == [0]
    assert encode({"spent": 6.0, "n": 2})["n"].tolist() == [2]
    value = dataset.encoder(["value", "shop_before"])
    assert set(value.columns) == {"value", "shop_before"}
    more = {"price_since": "2024-01-01", "price_shop": 1, "value": 2.0, "user": 1}
    clicks = [{"t": "2023-12-31", "shop": 1}, {"t": "2024-01-02", "shop": 1}]
    assert value(more, {"clicks": [each | {"user_id": 1} for each in clicks]})["shop_before"] == [1]


@pytest.mark.parametrize(
    ("rows", "history", "error", "message"),
    [
        ({"user": 1}, None, DataError, "'n', expected one of type int64. A null is given as None; the encoder's 'columns' and 'events' have all names."),
        ({"user": 1, "at": None}, {"click": []}, ValueError, "history: found 'click', expected 'prices', 'clicks': the sources that the recipe joins by time. Did you mean 'clicks'?"),
        ({"at": None}, {"clicks": []}, DataError, "row 0: found no column 'user', expected one of type int64"),
        ({"user": 1, "at": None}, {"clicks": [{"t": None, "user_id": 1}]}, DataError, "history of 'clicks', row 0: found no column 'price', expected one of type float64."),
        ({"user": 1, "at": None}, {"clicks": 7}, TypeError, "history of 'clicks', rows: found int, expected a dictionary, a list"),
        ([{"user": 1, "at": None}] * 2, {"clicks": [{"t": None, "price": 1}]}, DataError, "history of 'clicks', row 0: found no column 'user_id', expected one of type int64."),
        ({"user": 1, "at": None}, {"clicks": [{"user_id": 1, "t": None, "price": "x"}]}, DataError, "history of 'clicks', row 0, column 'price': found 'x', expected float64"),
    ],
)  # fmt: skip
def test_wrong_histories_are_explained(
    dataset: bp.Dataset, rows: Any, history: Any, error: type[Exception], message: str
) -> None:
    """An error names the source, its row and column."""
    with pytest.raises(error, match=re.escape(message)):
        dataset.encoder(["n", "spent"])(rows, history)
