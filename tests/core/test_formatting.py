"""Numbers as people read them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from beam_pipelines.core import formatting


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (2013, "2,013"), (2013.0, "2,013"), (1234567, "1,234,567"), (-43, "−43"),
        (-(2**63), "−9.2234e+18"), (0.123456, "0.1235"), (6.409, "6.409"), (1348.2, "1,348"),
        (123456.7, "123,457"), (1e-9, "1e−09"), (math.nan, "NaN"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_numbers(value: float, shown: str) -> None:
    """Numbers have thousands separators, and about four digits if not whole."""
    assert formatting.show_number(value) == shown


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, pa.date32(), "–"),
        (0, pa.timestamp("us"), "1970-01-01 00:00"),
        (2**62, pa.timestamp("us"), "4.6117e+18"),  # that no text has
        (2**63, pa.timestamp("us"), "9.2234e+18"),  # nor a timestamp
        (-2_440_550, pa.date32(), "-4712-01-01"),
        (86_400_000_000, pa.time64("us"), "24:00:00"),
        (15_000, pa.date32(), "2011-01-26"),
        (45_000_000_000, pa.time64("us"), "12:30:00"),
        (1, pa.bool_(), "true"),
        (0, pa.bool_(), "false"),
        (0.5, pa.bool_(), "0.5"),
        (5, pa.int64(), "5"),
    ],
)
def test_values(value: float | None, kind: pa.DataType, shown: str) -> None:
    """Dates, times and truth values are shown as what they stand for."""
    assert formatting.formatter_of(kind)(value) == shown


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (1.5, pa.float64(), "1.5"),
        (1.5, pa.date32(), "1.5 days"),
        (90_000_000, pa.time64("us"), "90 s"),
        (172_800_000_000, pa.timestamp("us"), "2 days"),
    ],
)
def test_spreads(value: float, kind: pa.DataType, shown: str) -> None:
    """A deviation of dates and times is a time."""
    assert formatting.show_spread(value, kind) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 0, "0%"), (0, 5, "0%"), (5, 5, "100%"), (1, 3, "33.3%"), (1, 10**6, "<0.1%"),
        (10**6 - 1, 10**6, ">99.9%"), (9995, 10_000, ">99.9%"), (9994, 10_000, "99.9%"),
    ],
)  # fmt: skip
def test_shares(part: int, whole: int, shown: str) -> None:
    """Nothing and everything are told from almost nothing and almost everything."""
    assert formatting.show_share(part, whole) == shown


def test_show_secs() -> None:
    """Durations are in the largest unit, and never a power of ten."""
    secs = (0.00002, 0.25, 9.96, 90, 7200, 5e6)
    assert [*map(formatting.show_secs, secs)] == ["0 s", "0.2 s", "10 s", "1.5 min", "2 h", "58 d"]
