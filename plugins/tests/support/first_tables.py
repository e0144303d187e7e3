"""Tables that a first recipe is drafted for, of fixed random values."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Tables = dict[str, pa.Table]
_START = datetime.datetime.fromisoformat("2024-01-01")


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _pick(rng: np.random.Generator, values: Sequence[Any], count: int) -> list[Any]:
    return [values[index] for index in rng.integers(0, len(values), count)]


def _lacking(values: Sequence[Any], every: int) -> list[Any]:
    """Every so many-th value is null."""
    return [None if index % every == 0 else value for index, value in enumerate(values)]


def passengers() -> Tables:
    """One row a person, with a name, nulls and a skewed number."""
    rng, count = _rng(), 400
    return {
        "passengers": pa.table(
            {
                "PassengerId": pa.array(range(1, count + 1)),
                "Survived": rng.integers(0, 2, count),
                "Pclass": rng.integers(1, 4, count),
                "Name": [f"{'ABCD'[n % 4]}. Person{n}" for n in range(count)],
                "Sex": _pick(rng, ["male", "female"], count),
                "Age": _lacking(rng.integers(1, 80, count).astype(float).tolist(), 5),
                "Fare": np.exp(rng.normal(3, 1.5, count)),
                "Embarked": _lacking(_pick(rng, ["S", "C", "Q"], count), 100),
            }
        )
    }


def events() -> Tables:
    """Events of users, whose table has the key by another name."""
    rng, count = _rng(), 600
    users = 90
    return {
        "events": pa.table(
            {
                "user": rng.integers(1, users + 1, count),
                "at": [_START + datetime.timedelta(hours=n) for n in range(count)],
                "item": _pick(rng, ["pen", "ink", "book"], count),
                "quantity": rng.integers(1, 6, count),
                "bought": rng.integers(0, 2, count) == 1,
            }
        ),
        "users": pa.table(
            {
                "id": pa.array(range(1, users + 1)),
                "city": _pick(rng, ["Ulm", "Bonn", "Köln"], users),
                "age": rng.integers(18, 90, users),
            }
        ),
    }


def flights() -> Tables:
    """Flights and planes share two columns; one of them means something else."""
    rng, count = _rng(), 500
    tails = [f"N{n:03}AA" for n in range(60)]
    return {
        "flights": pa.table(
            {
                "year": np.full(count, 2013),
                "tailnum": _pick(rng, tails, count),
                "distance": rng.integers(80, 4000, count),
                "arr_delay": rng.integers(-40, 200, count),
            }
        ),
        "planes": pa.table(
            {
                "tailnum": tails,
                "year": rng.integers(1990, 2014, len(tails)),
                "seats": rng.integers(20, 400, len(tails)),
            }
        ),
    }


def readings() -> Tables:
    """Two columns together are the key of the other table."""
    rng, count = _rng(), 300
    days = [_START.date() + datetime.timedelta(days=n) for n in range(40)]
    pairs = [(station, day) for station in ("A", "B", "C") for day in days]
    return {
        "readings": pa.table(
            {
                "station": _pick(rng, ["A", "B", "C"], count),
                "day": _pick(rng, days, count),
                "ozone": rng.normal(50, 9, count),
            }
        ),
        "weather": pa.table(
            {
                "station": [station for station, _ in pairs],
                "day": [day for _, day in pairs],
                "wind": rng.normal(10, 2, len(pairs)),
            }
        ),
    }


def flowers() -> Tables:
    """Measures and a class of text in the last column."""
    rng, count = _rng(), 150
    return {
        "flowers": pa.table(
            {
                "sepal length": rng.normal(5.8, 0.8, count),
                "petal length": rng.normal(3.7, 1.7, count),
                "species": [("setosa", "versicolor", "virginica")[n // 50] for n in range(count)],
            }
        )
    }


def reviews() -> Tables:
    """Prose, an opaque key, and stars."""
    rng, count = _rng(), 200
    words = ["good", "bad", "fast", "slow", "blue", "again", "never", "price"]
    return {
        "reviews": pa.table(
            {
                "uuid": [f"{rng.integers(0, 2**60):015x}" for _ in range(count)],
                "text": [" ".join(_pick(rng, words, 12)) for _ in range(count)],
                "stars": rng.integers(1, 6, count),
            }
        )
    }


def sales() -> Tables:
    """A series a store, with nothing that is named as a label."""
    stores = ["S1", "S2", "S3", "S4", "S5", "S6"]
    days = [_START.date() + datetime.timedelta(days=n) for n in range(50)]
    rng, count = _rng(), len(stores) * len(days)
    return {
        "sales": pa.table(
            {
                "date": [day for day in days for _ in stores],
                "store": stores * len(days),
                "promo": rng.integers(0, 2, count),
                "revenue": rng.normal(1000, 100, count),
            }
        )
    }


def houses() -> Tables:
    """Numbers only; the label is one, too."""
    rng, count = _rng(), 250
    return {
        "houses": pa.table(
            {
                "area": rng.normal(120, 30, count),
                "lot": np.exp(rng.normal(6, 1.4, count)),
                "rooms": rng.integers(1, 9, count),
                "zip": _pick(rng, [10115, 20095, 50667, 80331], count),
                "price": rng.normal(3e5, 5e4, count),
            }
        )
    }


def clicks() -> Tables:
    """Very many values, some of them often."""
    rng, count = _rng(), 30_000
    return {
        "clicks": pa.table(
            {
                "cookie": [f"c{n}" for n in rng.integers(0, 15_000, count)],
                "ad": [f"ad{n}" for n in rng.integers(0, 900, count)],
                "cost": rng.normal(2, 0.3, count),
                "clicked": rng.integers(0, 2, count),
            }
        )
    }


def sensors() -> Tables:
    """Columns without a use: empty, constant, a counter."""
    rng, count = _rng(), 240
    return {
        "sensors": pa.table(
            {
                "row": pa.array(range(count)),
                "device_id": [f"d{n % 12}" for n in range(count)],
                "firmware": ["1.0"] * count,
                "comment": pa.nulls(count, pa.string()),
                "measured": [
                    _START + datetime.timedelta(minutes=10 * int(n)) for n in rng.permutation(count)
                ],
                "value": _lacking(rng.normal(0, 1, count).tolist(), 3),
                "failure": _lacking(rng.integers(0, 2, count).tolist(), 60),
            }
        )
    }


def survey() -> Tables:
    """Too few rows to divide."""
    return {
        "survey": pa.table(
            {
                "answer": ["yes", "no", "yes", "no", "yes", "no"],
                "age": [20, 31, 42, 53, 64, 75],
            }
        )
    }


def photos() -> Tables:
    """Values of many kinds: lists, bytes, times of day."""
    rng, count = _rng(), 80
    return {
        "photos": pa.table(
            {
                "thumbnail": [bytes([n]) for n in range(count)],
                "tags": [
                    _pick(rng, ["sea", "sun", "cat"], int(n)) for n in rng.integers(0, 3, count)
                ],
                "taken": [datetime.time(int(hour)) for hour in rng.integers(0, 24, count)],
                "flash": _lacking((rng.integers(0, 2, count) == 1).tolist(), 9),
                "label": _pick(rng, ["indoor", "outdoor"], count),
            }
        )
    }


FIRST_TABLES: tuple[Callable[[], Tables], ...] = (
    passengers,
    events,
    flights,
    readings,
    flowers,
    reviews,
    sales,
    houses,
    clicks,
    sensors,
    survey,
    photos,
)
