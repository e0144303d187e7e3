"""Tables of 100,000 rows that a first recipe is drafted for."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from plugins.tests.support.first_tables import Tables

ROWS = 100_000
_START = np.datetime64("2024-03-01", "us")
_LIKERT = ("Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree")
_MILLISECONDS = 1_577_836_800_000  # 2020-01-01


def _rng() -> np.random.Generator:
    return np.random.default_rng(11)


def _moments(seconds: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(_START + seconds.astype("timedelta64[s]"))


def _lacking(rng: np.random.Generator, values: npt.NDArray, share: float) -> pa.Array:
    """A share of the values is null."""
    return pa.array(values, mask=rng.random(len(values)) < share)


def _lists(rng: np.random.Generator, values: npt.NDArray, most: int) -> pa.Array:
    """Lists of up to so many values."""
    lengths = rng.integers(0, most + 1, ROWS)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(rng.choice(values, offsets[-1])))


def sensor_series() -> Tables:
    """Readings of 40 sensors each minute, with -999 for lost ones."""
    rng = _rng()
    temperature = rng.normal(21, 4, ROWS).round(2)
    temperature[rng.random(ROWS) < 0.005] = -999
    return {
        "sensor_series": pa.table(
            {
                "timestamp": _moments(np.arange(ROWS) // 40 * 60),
                "sensor_id": [f"S-{number:03}" for number in np.tile(np.arange(40), ROWS // 40)],
                "temperature": temperature,
                "humidity": _lacking(rng, rng.uniform(20, 90, ROWS).round(1), 0.02),
                "vibration": rng.lognormal(0, 1.2, ROWS).round(4),
                "status": rng.choice(["OK", "WARN", "FAULT"], ROWS, p=[0.95, 0.04, 0.01]),
                "anomaly": (rng.random(ROWS) < 0.01).astype(int),
            }
        )
    }


def answers() -> Tables:
    """A survey with ordered answers and a score of 0 to 10."""
    rng = _rng()
    scale = np.array(_LIKERT)
    words = np.array(
        ["the", "app", "is", "slow", "today", "I", "like", "new", "service", "a", "lot"]
    )
    comments = np.array([" ".join(row) for row in rng.choice(words, (ROWS, 8))])
    return {
        "answers": pa.table(
            {
                "respondent_id": np.arange(100_001, 100_001 + ROWS),
                "submitted_at": _moments(rng.integers(0, 86_400 * 90, ROWS)),
                "country": rng.choice(["DE", "FR", "IT", "ES"], ROWS),
                "age_group": rng.choice(["18-24", "25-44", "45-64", "65+"], ROWS),
                "q1": rng.choice(scale, ROWS),
                "q2": _lacking(rng, rng.choice(scale, ROWS), 0.03),
                "frequency": rng.choice(["Never", "Sometimes", "Often", "No answer"], ROWS),
                "children": _lacking(rng, rng.integers(0, 5, ROWS).astype(float), 0.1),
                "region_code": _lacking(rng, rng.integers(1, 17, ROWS).astype(float), 0.1),
                "comment": _lacking(rng, comments, 0.7),
                "satisfaction": rng.integers(1, 6, ROWS),
                "nps": rng.integers(0, 11, ROWS),
            }
        )
    }


def shop() -> Tables:
    """Items of orders, which are of customers: a chain of tables."""
    rng, customers, products, orders = _rng(), 20_000, 1_500, 40_000
    days = np.datetime64("2020-01-01") + rng.integers(0, 1400, customers).astype("timedelta64[D]")
    return {
        "items": pa.table(
            {
                "order_id": rng.integers(500_000, 500_000 + orders, ROWS),
                "product_id": rng.integers(1, products + 1, ROWS),
                "quantity": rng.integers(1, 6, ROWS),
                "discount_pct": rng.choice([0, 5, 10, 20], ROWS),
                "returned": rng.random(ROWS) < 0.1,
            }
        ),
        "orders": pa.table(
            {
                "order_id": np.arange(500_000, 500_000 + orders),
                "customer_id": [f"C{n:06}" for n in rng.integers(0, customers, orders)],
                "ordered_at": _moments(np.sort(rng.integers(0, 86_400 * 365, orders))),
                "payment": rng.choice(["card", "paypal", "invoice"], orders),
            }
        ),
        "customers": pa.table(
            {
                "customer_id": [f"C{number:06}" for number in range(customers)],
                "email": [f"user{number}@example.com" for number in range(customers)],
                "signup_date": days,
                "tier": rng.choice(["bronze", "silver", "gold"], customers),
                "birth_year": rng.integers(1940, 2005, customers),
            }
        ),
        "products": pa.table(
            {
                "product_id": np.arange(1, products + 1),
                "category": rng.choice(["toys", "books", "food"], products),
                "price": rng.lognormal(3, 0.8, products).round(2),
            }
        ),
    }


def visits() -> Tables:
    """Visits of patients, with dates of birth and a rare outcome."""
    rng = _rng()
    admitted = np.datetime64("2022-01-01") + rng.integers(0, 700, ROWS).astype("timedelta64[D]")
    born = np.datetime64("1930-01-01") + rng.integers(0, 30_000, ROWS).astype("timedelta64[D]")
    codes = [f"{letter}{number:02}.{part}" for letter in "ABCDE" for number in range(20) for part in range(3)]  # fmt: skip
    return {
        "visits": pa.table(
            {
                "visit_id": [f"V{number:07}" for number in range(ROWS)],
                "patient_id": rng.integers(10_000, 22_000, ROWS),
                "admitted": admitted,
                "birth_date": born,
                "sex": rng.choice(["M", "F"], ROWS),
                "icd10": rng.choice(codes, ROWS),
                "systolic_bp": rng.normal(125, 18, ROWS).round(),
                "glucose": _lacking(rng, rng.lognormal(4.6, 0.4, ROWS).round(), 0.4),
                "pain_scale": rng.integers(0, 11, ROWS),
                "triage": rng.choice(["low", "medium", "high", "critical"], ROWS),
                "readmitted_30d": (rng.random(ROWS) < 0.03).astype(int),
            }
        )
    }


def tweets() -> Tables:
    """Texts with times in milliseconds, lists of ids, and one loud user."""
    rng = _rng()
    words = np.array(
        [
            "the",
            "a",
            "cat",
            "dog",
            "run",
            "love",
            "hate",
            "good",
            "bad",
            "movie",
            "happy",
            "sad",
            "today",
            "never",
        ]
    )
    texts = [" ".join(row) for row in rng.choice(words, (ROWS, 8))]
    return {
        "tweets": pa.table(
            {
                "tweet_id": rng.permutation(ROWS) * 7 + 1_200_000_000_000_000_000,
                "created_at": _MILLISECONDS + np.sort(rng.integers(0, 6 * 10**10, ROWS)),
                "user": [f"u{number}" for number in rng.zipf(1.6, ROWS) % 30_000],
                "text": texts,
                "retweets": rng.zipf(2.0, ROWS) % 5_000,
                "verified": rng.random(ROWS) < 0.05,
                "hashtags": _lists(rng, np.array(["#ai", "#ml", "#cat"]), 3),
                "mention_ids": _lists(rng, np.arange(1, 40_000), 3),
                "offsets": _lists(rng, np.arange(0, 280), 2),
                "embedding": pa.FixedSizeListArray.from_arrays(rng.normal(0, 1, 4 * ROWS), 4),
                "sentiment": rng.choice(["positive", "neutral", "negative"], ROWS),
            }
        )
    }


def wide() -> Tables:
    """150 columns, most of them numbers."""
    rng = _rng()
    columns: dict[str, npt.NDArray | pa.Array] = {}
    for number in range(100):
        columns[f"f{number:03}"] = rng.normal(number, 1 + number % 7, ROWS).round(3)
    for number in range(20):
        columns[f"level_{number}"] = rng.poisson(number % 5 + 0.1, ROWS) % 12
    for number in range(12):
        columns[f"flag_{number}"] = rng.integers(0, 2, ROWS)
    for number in range(15):
        columns[f"cat_{number}"] = rng.choice([f"v{n}" for n in range(2 + number)], ROWS)
    columns["event_time"] = 1_700_000_000 + np.arange(ROWS) * 37
    columns["birth"] = np.full(ROWS, datetime.date(1980, 1, 1).toordinal())
    columns["target"] = rng.normal(0, 1, ROWS)
    return {"wide": pa.table(columns)}


MORE_FIRST_TABLES: tuple[Callable[[], Tables], ...] = (
    sensor_series,
    answers,
    shop,
    visits,
    tweets,
    wide,
)
