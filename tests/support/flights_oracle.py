"""Expected results of the flights recipe, computed with pandas alone.

It uses nothing from ``beam_pipelines``. The recipe's joins, filter, derivation and dropped columns
are written out a second time, by hand; ``examples/flights/recipe.yaml`` is not read.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import pandas as pd

NULLS = ["", "NA", "NULL", "null", "NaN", "nan", "N/A", "n/a"]
WEATHER_COLUMNS = [
    "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib",
]  # fmt: skip
# No two flights share these: with them, two tables of flights can be put into one order.
IDENTITY = ["year", "month", "day", "carrier", "flight", "origin", "sched_dep_time"]


class Expected(NamedTuple):
    """The expected results.

    Attributes:
      rows_read: source -> rows.
      unmatched: per join, in the recipe's order: the right table, and how many flights found no row
        in it.
      filtered: number of flights that the filter drops.
      examples: all examples of all splits as a table, ordered by ``IDENTITY``.
    """

    rows_read: dict[str, int]
    unmatched: list[tuple[str, int]]
    filtered: int
    examples: pd.DataFrame


def compute(folder: pathlib.Path) -> Expected:
    """Computes the flights dataset from the five CSV files in ``folder``."""
    tables = {
        name: pd.read_csv(
            folder / f"{name}.csv",
            keep_default_na=False,
            na_values=NULLS,
            dtype_backend="numpy_nullable",
            low_memory=False,
        )
        for name in ("flights", "planes", "weather", "airports", "airlines")
    }
    # The filter needs no join.
    flights = tables["flights"]
    arrived = flights[flights["arr_delay"].notna()]
    unmatched = []
    for name, columns, keys, prefix in (
        ("planes", None, {"tailnum": "tailnum"}, "plane_"),
        ("weather", WEATHER_COLUMNS, {"origin": "origin", "time_hour": "time_hour"}, "weather_"),
        ("airports", None, {"dest": "faa"}, "dest_"),
        ("airports", None, {"origin": "faa"}, "origin_"),
        ("airlines", None, {"carrier": "carrier"}, "carrier_"),
    ):
        arrived, missing = _left_join(arrived, tables[name], columns, keys, prefix)
        unmatched.append((name, missing))
    times = pd.to_datetime(arrived["time_hour"], utc=True).dt.as_unit("us")
    examples = arrived.assign(
        late=(arrived["arr_delay"] > 15).astype("Int64"),
        time_hour=times.astype("int64").astype("Int64"),
    ).drop(columns=["arr_delay", "arr_time", "air_time"])
    return Expected(
        rows_read={name: len(table) for name, table in tables.items()},
        unmatched=unmatched,
        filtered=len(flights) - len(arrived),
        examples=examples.sort_values(IDENTITY, ignore_index=True),
    )


def _left_join(
    left: pd.DataFrame,
    right: pd.DataFrame,
    columns: list[str] | None,
    keys: dict[str, str],
    prefix: str,
) -> tuple[pd.DataFrame, int]:
    """Returns the joined table and its number of unmatched left rows."""
    if columns is not None:
        right = right[[*keys.values(), *columns]]
    back = {right_key: left_key for left_key, right_key in keys.items()}
    right = right.dropna(subset=list(keys.values())).rename(
        columns=lambda name: back.get(name, prefix + name)
    )
    joined = left.merge(
        right, on=list(keys), how="left", validate="many_to_one", indicator="_matched"
    )
    return joined.drop(columns="_matched"), int((joined["_matched"] == "left_only").sum())
