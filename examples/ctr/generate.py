"""Makes a click log, users, articles and a log of reading.

Each row of the click log is an article of a news site that was shown to a user, and says whether
the user clicked it. The log of reading has what users read on their own, from a week before the
first day on.

  python examples/ctr/generate.py --output .demo/ctr-data --date 2026-11-21 --days 3

The same seed gives the same files. A day depends on the seed and its date only. A later run with a
later ``--date`` adds a day and does not change the others. Users and articles are drawn by Zipf's
law: a few are frequent, most are rare.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import pathlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SECTIONS = ("politics", "sports", "economy", "culture", "science", "local", "travel", "opinion")
DEVICES = ("phone", "desktop", "tablet")
COUNTRIES = ("DE", "FR", "US", "NL", "AT", "CH", "PL", "ES", "IT", "DK")
REFERRERS = ("search", "newsletter", "social")
POSITIONS = 10
HOURS = np.array([2, 1, 1, 1, 1, 2, 5, 8, 9, 8, 7, 7, 8, 7, 6, 6, 6, 7, 8, 9, 10, 10, 7, 4], float)
FIRST_DAY = np.datetime64("2026-11-01")
ZIPF = 1.1
READS_A_DAY = 2  # of a user, on average
DAYS_BEFORE = 7

Numbers = npt.NDArray[Any]


class Users(NamedTuple):
    """The users [n], with hidden preferences that no table shows.

    ``taste`` [n, sections] is the preference for each section, ``mood`` [n] the one for clicking.
    """

    age: Numbers
    country: Numbers
    premium: Numbers
    since: Numbers
    taste: Numbers
    mood: Numbers


class Articles(NamedTuple):
    """The articles [n], with a hidden quality [n] that no table shows."""

    section: Numbers
    words: Numbers
    published: Numbers
    paywalled: Numbers
    quality: Numbers


def main() -> None:
    """Writes the tables, and the days of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder of the files")
    parser.add_argument(
        "--date",
        type=datetime.date.fromisoformat,
        default=datetime.date(2026, 11, 21),
        help="first day",
    )
    parser.add_argument("--days", type=int, default=3, help="how many days")
    parser.add_argument("--rows", type=int, default=120_000, help="of each day's log")
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--articles", type=int, default=800)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    users = make_users(np.random.default_rng([arguments.seed, 1]), arguments.users)
    articles = make_articles(np.random.default_rng([arguments.seed, 2]), arguments.articles)
    (arguments.output / "clicks").mkdir(parents=True, exist_ok=True)
    write_users(arguments.output / "users.parquet", users)
    write_articles(arguments.output / "articles.csv", articles)
    (arguments.output / "reads").mkdir(exist_ok=True)
    for number in range(-DAYS_BEFORE, arguments.days):
        date = arguments.date + datetime.timedelta(days=number)
        random = np.random.default_rng([arguments.seed, 4, date.toordinal()])
        write_reads(
            arguments.output / "reads" / f"{date}.parquet", random, np.datetime64(date), users
        )
    for number in range(arguments.days):
        date = arguments.date + datetime.timedelta(days=number)
        random = np.random.default_rng([arguments.seed, 3, date.toordinal()])
        path = arguments.output / "clicks" / f"{date}.jsonl"
        clicked = write_day(path, random, np.datetime64(date), arguments.rows, users, articles)
        print(f"{path}: {arguments.rows:,} rows, {clicked:.1%} clicked")


def make_users(random: np.random.Generator, count: int) -> Users:
    """Returns users whose preferences depend on age and payment."""
    age = np.clip(random.normal(42, 15, count), 16, 95).round().astype(int)
    premium = random.random(count) < 0.2
    taste = random.normal(0, 0.9, [count, len(SECTIONS)])
    taste[:, SECTIONS.index("sports")] += (age < 35) * 1.2
    taste[:, SECTIONS.index("economy")] += premium * 1.2
    taste[:, SECTIONS.index("local")] += (age > 55) * 1.2
    return Users(
        age=age,
        country=random.choice(COUNTRIES, count, p=zipf(len(COUNTRIES))),
        premium=premium,
        since=FIRST_DAY - random.integers(0, 4000, count),
        taste=taste,
        mood=random.normal(0, 0.9, count),
    )


def make_articles(random: np.random.Generator, count: int) -> Articles:
    """Returns articles, some behind a paywall."""
    return Articles(
        section=random.integers(0, len(SECTIONS), count),
        words=np.clip(random.lognormal(6.2, 0.6, count), 80, 6000).round().astype(int),
        published=FIRST_DAY + random.integers(0, 24 * 20, count).astype("timedelta64[h]"),
        paywalled=random.random(count) < 0.25,
        quality=random.normal(0, 0.9, count),
    )


def zipf(count: int) -> Numbers:
    """Returns probabilities [count] that fall by Zipf's law."""
    weights = 1 / np.arange(1, count + 1) ** ZIPF
    return weights / weights.sum()


def write_users(path: pathlib.Path, users: Users) -> None:
    """Writes the table of users as Parquet.

    Every tenth user has no age. Every thirtieth user is not in the table.
    """
    numbers = np.arange(len(users.age))
    table = pa.table(
        {
            "user": [f"u{number:06}" for number in numbers],
            "age": pa.array(users.age, pa.int8(), mask=numbers % 10 == 3),
            "country": users.country,
            "premium": users.premium,
            "since": pa.array(users.since.astype("datetime64[D]")),
        }
    )
    pq.write_table(table.filter(pa.array(numbers % 30 != 11)), path)


def write_articles(path: pathlib.Path, articles: Articles) -> None:
    """Writes the table of articles as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["article", "section", "words", "published", "paywalled"])
        for number, (section, words, published, paywalled, _) in enumerate(
            zip(*articles, strict=True)
        ):
            writer.writerow(
                [
                    f"a{number:05}",
                    SECTIONS[section],
                    words,
                    f"{published}:00:00",
                    "true" if paywalled else "false",
                ]
            )


def write_reads(
    path: pathlib.Path, random: np.random.Generator, date: np.datetime64, users: Users
) -> None:
    """Writes what users read on a day, as Parquet.

    Users read more who like to click, and more of the sections that they prefer.
    """
    counts = random.poisson(READS_A_DAY * np.exp(users.mood - 0.4))
    user = np.repeat(np.arange(len(counts)), counts)
    likes = np.exp(users.taste[user])
    shares = np.cumsum(likes / likes.sum(axis=1, keepdims=True), axis=1)
    section = (random.random([len(user), 1]) > shares[:, :-1]).sum(axis=1)
    hour = random.choice(24, len(user), p=HOURS / HOURS.sum())
    seconds = hour * 3600 + random.integers(0, 3600, len(user))
    order = np.argsort(seconds, kind="stable")
    table = pa.table(
        {
            "time": (date.astype("datetime64[s]") + seconds)[order].astype("datetime64[us]"),
            "user": [f"u{number:06}" for number in user[order]],
            "section": [SECTIONS[number] for number in section[order]],
        }
    )
    pq.write_table(table, path)


def write_day(
    path: pathlib.Path,
    random: np.random.Generator,
    date: np.datetime64,
    rows: int,
    users: Users,
    articles: Articles,
) -> float:
    """Writes a day's log as JSON Lines, and returns its click rate.

    The probability of a click depends on user, section, article, its age and paywall, position,
    device, referrer and hour.
    """
    user = random.choice(len(users.age), rows, p=zipf(len(users.age)))
    article = random.choice(len(articles.words), rows, p=zipf(len(articles.words)))
    position = random.integers(1, POSITIONS + 1, rows)
    device = random.choice(len(DEVICES), rows, p=[0.6, 0.3, 0.1])
    referrer = random.choice(len(REFERRERS) + 1, rows, p=[0.2, 0.15, 0.15, 0.5])
    hour = random.choice(24, rows, p=HOURS / HOURS.sum())
    seconds = np.sort(hour * 3600 + random.integers(0, 3600, rows))
    hour = seconds // 3600
    time = date.astype("datetime64[s]") + seconds
    age_days = (time - articles.published[article]).astype("timedelta64[h]").astype(int) / 24
    paid = articles.paywalled[article] & ~users.premium[user]
    score = (
        1.0
        + users.mood[user]
        + users.taste[user, articles.section[article]]
        + articles.quality[article]
        - 0.9 * np.log(position)
        - 0.25 * np.log1p(np.clip(age_days, 0, None))
        - 1.2 * paid
        + np.array([0.0, 0.3, 0.1])[device]
        + np.array([0.2, 0.6, -0.3, 0.0])[referrer]
        + 0.3 * np.cos((hour - 20) / 24 * 2 * np.pi)
    )
    clicked = random.random(rows) < 1 / (1 + np.exp(-score))
    with path.open("w") as file:
        for row in range(rows):
            log = {
                "time": str(time[row]),
                "user": f"u{user[row]:06}",
                "article": f"a{article[row]:05}",
                "position": int(position[row]),
                "device": DEVICES[device[row]],
                "referrer": REFERRERS[referrer[row]] if referrer[row] < len(REFERRERS) else None,
                "clicked": bool(clicked[row]),
            }
            file.write(json.dumps(log) + "\n")
    return float(clicked.mean())


if __name__ == "__main__":
    main()
