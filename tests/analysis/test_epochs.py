"""Numbers that are times since 1970, told from ids and amounts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.analysis.epochs import UNITS, cure, show_ends, time_name, time_sql, unit_of
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines_plugins.first_recipe.column_profile import profile_columns
from beam_pipelines_plugins.first_recipe.joins import Side
from beam_pipelines_plugins.first_recipe.times import with_times

MARCH = 1_709_251_200  # 2024-03-01
HOURS = MARCH + 3600 * np.arange(40)


@pytest.mark.parametrize(
    ("name", "low", "high", "unit"),
    [
        ("created_at", MARCH, MARCH + 1, "seconds"),
        ("timestamp", MARCH * 1000, MARCH * 1000 + 5, "milliseconds"),
        ("eventTime", MARCH * 10**6, MARCH * 10**6 + 5, "microseconds"),
        ("ts", MARCH * 10**9, MARCH * 10**9 + 5, "nanoseconds"),
        ("users_signup", MARCH + 0.25, MARCH + 9.5, "seconds"),
        ("created_at", 0, MARCH, None),  # 1970 is no time of this data
        ("duration_time", 5, 90_000, None),
        ("order_id", MARCH, MARCH + 40, None),
        ("phone", 2_025_550_100, 3_125_550_199, None),
        ("loginNumber", MARCH, MARCH + 40, None),
        ("barcode", 4_006_381_333_931, 4_012_345_678_901, None),
        ("tweet_id", 1_200_000_000_000_000_000, 1_700_000_000_000_000_000, None),
        ("revenue", MARCH, MARCH + 40, None),
        ("created_at", None, None, None),
        ("order_date", 20_240_101, 20_241_231, None),
    ],
)
def test_a_name_and_a_range_tell(name, low, high, unit):
    """A name of times makes times of the years 1990 to 2099."""
    assert unit_of(name, low, high) == unit


@pytest.mark.parametrize(
    ("numbers", "unit"),
    [
        (HOURS, "seconds"), (HOURS * 1000, "milliseconds"), (HOURS * 1000 + 1000, "milliseconds"),
        (HOURS + 7, None), (HOURS * 1000 + 7, None), (HOURS[:5], None),
    ],
)  # fmt: skip
def test_round_numbers_tell(numbers: np.ndarray, unit: str | None) -> None:
    """Whole minutes, or seconds, are times unless the name is an id's."""
    low, high = numbers.min(), numbers.max()
    assert unit_of("x", low, high, numbers) == unit
    assert unit_of("x_id", low, high, numbers) is None


def test_zeros_and_infinity_are_no_times() -> None:
    """The distinct numbers of a column may lack its greatest one."""
    assert unit_of("time", 0.0, float("inf"), np.zeros(1)) is None


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ["at", "when", "created at", 'a "time"'])
def test_the_expression_makes_times(name: str, unit: str) -> None:
    """It is exact to the microsecond, for names that SQL reserves too."""
    micros = [MARCH * 10**6 + micro for micro in (0, 123_000, 999_999)]
    numbers = [micro * UNITS[unit] // 10**6 for micro in micros]
    wanted = [number * 10**6 // UNITS[unit] for number in numbers]
    rows = pa.table({name: pa.array(numbers, pa.int64())})
    batch = rows.to_batches()[0]
    made = evaluate(batch, parse_expression("t", time_sql(name, unit), [name]))
    assert made.cast(pa.int64()).to_pylist() == wanted
    made_side, [derived] = with_times(Side("rows", profile_columns(rows), rows, is_whole=True))
    column = made_side.columns[derived.name]
    assert {*column.values.cast(pa.int64()).to_pylist()} == {*wanted}
    assert made_side.rows.column(derived.name).cast(pa.int64()).to_pylist() == wanted


def test_lines_of_a_recipe() -> None:
    """Several columns are derived and dropped together."""
    assert cure(["a", "end"], "seconds") == (
        """'derive: {a_utc: to_timestamp(a), end_utc: "to_timestamp(\\"end\\")"}' and """
        "'drop: [a, end]'"
    )
    assert time_name("a", ["a_utc"]) == "a_utc_"
    assert show_ends(MARCH * 1000, MARCH * 2000, "milliseconds") == "2024-03-01 to 2078-04-30"


def test_zeros_are_no_times() -> None:
    """0 is null among times, if the name is one of times."""
    numbers = [0, MARCH, 0, MARCH + 60, None]
    rows = pa.table({"last_login": numbers, "x": numbers})
    batch = rows.to_batches()[0]
    made_side, [derived] = with_times(Side("rows", profile_columns(rows), rows, is_whole=True))
    assert (derived.number, derived.reason) == (
        "last_login",
        "seconds or 0 since 1970, to 2024-03-01",
    )
    column = made_side.columns[derived.name]
    assert (column.nulls, column.distinct) == (3, 2)
    made = evaluate(batch, parse_expression("t", derived.sql, batch.schema.names))
    wanted = [None, MARCH * 10**6, None, (MARCH + 60) * 10**6, None]
    assert made.cast(pa.int64()).to_pylist() == wanted
    assert made_side.rows.column("last_login_utc").cast(pa.int64()).to_pylist() == wanted
