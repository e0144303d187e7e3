"""Columns that give the label away: planted ones, and clean tables."""

# ruff: noqa: ARG005 (all tables are made from a generator and a number of rows)

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines_plugins.labels.leaking import Giveaway, area_of, find_giveaways
from beam_pipelines_plugins.labels.relations import Label

Random = np.random.Generator
Table = dict[str, pa.Array]
BOUND = 0.99


def found(table: Table, bound: float = BOUND) -> list[Giveaway]:
    """Returns what gives the column ``y`` away."""
    batch = pa.record_batch(table)
    label = Label(table["y"])
    names = [name for name in table if name != "y"]
    return list(find_giveaways(batch, table["y"], label, names, bound))


def texts(numbers: np.ndarray, words: str = "abcdefghijklmnopqrstuvwxyz") -> pa.Array:
    return pa.array([words[number % len(words)] * 3 for number in numbers.tolist()])


def with_nulls(array: pa.Array, is_null: np.ndarray) -> pa.Array:
    return pa.array(array.to_pylist(), array.type, mask=is_null)


# A clean table of n rows: name -> its label and columns that say something about it.
CLEAN: dict[str, Callable[[Random, int], Table]] = {
    "noise": lambda r, n: {
        "y": pa.array(r.random(n) < 0.3),
        "x": pa.array(r.normal(size=n)),
        "id": pa.array(np.arange(n)),
        "name": pa.array([f"row {number}" for number in range(n)]),
    },
    "strong": lambda r, n: {
        "y": pa.array((z := r.normal(size=n)) > 0),
        "x": pa.array(z + 0.5 * r.normal(size=n)),
        "t": texts((4 * (z + r.normal(size=n))).astype(int) % 7),
    },
    "rare": lambda r, n: {
        "y": pa.array((z := r.random(n)) < 0.02),
        "x": pa.array(-z + 0.1 * r.normal(size=n)),
        "flag": pa.array((z < 0.02) & (r.random(n) < 0.7)),
    },
    "tiny": lambda r, n: {
        "y": pa.array(r.random(12) < 0.4),
        **{f"x{number}": pa.array(r.normal(size=12)) for number in range(60)},
    },
    "wide": lambda r, n: {
        "y": pa.array(r.random(n) < 0.5),
        **{f"x{number}": pa.array(r.integers(0, 9, n)) for number in range(100)},
    },
    "classes": lambda r, n: {
        "y": texts(z := r.integers(0, 5, n)),
        "x": pa.array(z + 0.4 * r.normal(size=n)),
        "near": texts(np.where(r.random(n) < 0.9, z, r.integers(0, 5, n))),
        "user": pa.array([f"u{number}" for number in r.integers(0, n // 3, n)]),
    },
    "many classes": lambda r, n: {
        "y": pa.array(z := r.integers(0, 300, n)).cast(pa.string()),
        "group": pa.array(z // 10),
        "user": pa.array(r.integers(0, n, n)),
    },
    "class a row": lambda r, n: {
        "y": pa.array([f"title {number}" for number in range(n)]),
        "id": pa.array(np.arange(n)),
        "words": pa.array(r.integers(1, 30, n)),
    },
    "numbers": lambda r, n: {
        "y": pa.array(z := r.lognormal(size=n)),
        "x": pa.array(z * (1 + 0.01 * r.normal(size=n))),
        "largest": pa.array(z == z.max()),
        "constant": pa.array(np.ones(n)),
    },
    "nulls": lambda r, n: {
        "y": with_nulls(pa.array((z := r.random(n)) < 0.5), r.random(n) < 0.2),
        "x": with_nulls(pa.array(r.normal(size=n)), (z < 0.5) ^ (r.random(n) < 0.1)),
        "empty": pa.nulls(n, pa.float64()),
        "list": pa.array([[1]] * n),
    },
    "one value": lambda r, n: {"y": pa.array(np.zeros(n)), "x": pa.array(np.zeros(n))},
    "days": lambda r, n: {
        "y": pa.array(r.random(n) < 0.3),
        "day": pa.array([datetime.date(2020, 1, 1 + number % 28) for number in range(n)]),
        "at": pa.array([datetime.time(number % 24) for number in range(n)]),
    },
    "dozen": lambda r, n: {
        "y": pa.array(r.integers(0, 12, n)),
        "x": pa.array(r.integers(0, 12, n)),
        "z": pa.array(r.normal(size=n)),
    },
}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("rows", [100, 400, 8_000])
def test_clean_tables_raise_no_alarm(name: str, rows: int) -> None:
    """Noise and strong features are no leaks, with few rows or many."""
    for seed in range(12 if rows < 1000 else 2):
        assert found(CLEAN[name](np.random.default_rng(seed), rows)) == [], seed


# A planted column: name -> label, and the column that gives it away, with how.
PLANTED: dict[str, tuple[str, Callable[[Random, int], tuple[pa.Array, pa.Array]]]] = {
    "copy of a flag": ("equal", lambda r, n: (y := pa.array(r.random(n) < 0.3), y)),
    "flag as a number": (
        "equal",
        lambda r, n: (pa.array(z := r.random(n) < 0.3), pa.array(z.astype(float))),
    ),
    "copy of a text": ("equal", lambda r, n: (y := texts(r.integers(0, 4, n)), y)),
    "copy of numbers": ("equal", lambda r, n: (y := pa.array(r.normal(size=n)), y)),
    "negated flag": (
        "monotone",
        lambda r, n: (pa.array(z := r.random(n) < 0.3), pa.array(~z)),
    ),
    "another unit": (
        "monotone",
        lambda r, n: (pa.array(z := r.lognormal(size=n)), pa.array(-32 - 1.8 * z)),
    ),
    "logarithm": (
        "monotone",
        lambda r, n: (pa.array(z := r.integers(1, 500, n)), pa.array(np.log(z))),
    ),
    "rounded numbers": (
        "monotone",
        lambda r, n: (pa.array(z := r.lognormal(size=n)), pa.array(np.round(z, 1))),
    ),
    "numbers above a threshold": (
        "monotone",
        lambda r, n: (pa.array(z := r.lognormal(size=n)), pa.array(z < 1)),
    ),
    "number in the middle": (
        "predicts",
        lambda r, n: (pa.array(np.abs(z := r.normal(size=n)) < 0.7), pa.array(z)),
    ),
    "number behind a flag": (
        "predicts",
        lambda r, n: (pa.array((z := r.normal(size=n)) > 0.7), pa.array(z)),
    ),
    "almost a copy": (
        "predicts",
        lambda r, n: (
            pa.array(z := np.arange(n) % 3 == 0),
            pa.array(z ^ (np.arange(n) == 1)),
        ),
    ),
    "text behind a flag": (
        "predicts",
        lambda r, n: (pa.array((z := r.integers(0, 5, n)) > 2), texts(z)),
    ),
    "number that is null": (
        "predicts",
        lambda r, n: (
            pa.array(z := r.random(n) < 0.5),
            with_nulls(pa.array(r.normal(size=n)), z),
        ),
    ),
    "date that is null": (
        "predicts",
        lambda r, n: (
            pa.array(z := r.random(n) < 0.5),
            with_nulls(pa.array([datetime.date(2020, 1, 1 + i % 28) for i in range(n)]), z),
        ),
    ),
    "id of a class": (
        "predicts",
        lambda r, n: (texts(z := r.integers(0, 4, n), "dacb"), pa.array(z * 7)),
    ),
    "name of nineteen classes": (
        "predicts",
        lambda r, n: (
            pa.array(np.arange(n) % 20),
            texts(np.arange(n) % 20, "qwertyuiopasdfghjklz"),
        ),
    ),
    "number behind classes": (
        "predicts",
        lambda r, n: (
            texts(np.digitize(z := r.normal(size=n), [-0.62, 0.13, 1.1]), "bacd"),
            pa.array(z),
        ),
    ),
    "number behind outer and inner": (
        "predicts",
        lambda r, n: (
            texts(np.digitize(np.abs(z := r.normal(size=n)), [0.4, 1.1]), "bac"),
            pa.array(z),
        ),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("rows", [400, 8_000])
def test_planted_columns_are_found(name: str, rows: int) -> None:
    """Each one is found, among columns of noise."""
    how, make = PLANTED[name]
    for seed in range(3):
        random = np.random.default_rng(seed)
        label, column = make(random, rows)
        noise = pa.array(random.normal(size=rows))
        (leak,) = found({"a": noise, "planted": column, "y": label})
        assert (leak.column, leak.how) == ("planted", how)
        assert BOUND <= leak.value <= 1


def test_the_bound_decides() -> None:
    """A feature of AUC 0.98 is a leak with bound 0.97."""
    random = np.random.default_rng(1)
    is_one = random.random(5_000) < 0.5
    column = pa.array(is_one * 2.9 + random.normal(size=5_000))
    table = {"y": pa.array(is_one), "x": column}
    assert found(table) == []
    (leak,) = found(table, 0.97)
    assert leak.measure == "AUC"
    assert 0.97 < leak.value < 0.985


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
def test_area_against_all_pairs(rows: list[tuple[int, bool]]) -> None:
    """The AUC is the share of ordered pairs."""
    ones = [value for value, is_one in rows if is_one]
    zeros = [value for value, is_one in rows if not is_one]
    pairs = [(one > zero) + (one == zero) / 2 for one in ones for zero in zeros]
    expected = sum(pairs) / len(pairs) if pairs else 0.5
    counts = [np.bincount(some, minlength=5).astype(float) for some in (zeros, ones)]
    assert area_of(*counts) == pytest.approx(expected)
