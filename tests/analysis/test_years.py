"""Years are shown without separators, other numbers with them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_pipelines.analysis.description import are_years, show_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("year", 2013, 2013, True), ("built", 1956, 2013, True), ("plane_year", 0, 2013, True),
        ("YearBuilt", 1066, 9999, True), ("yearly_income", 900, 120_000, False),
        ("dep_time", 1, 2359, False), ("amount", 1900, 2101, False), ("amount", 2100, 2100, True),
        ("year", None, None, False),
    ],
)  # fmt: skip
def test_what_is_a_year(name: str, low: int | None, high: int | None, expected: bool) -> None:
    """Range or name tell a year."""
    assert are_years(name, low, high) is expected


@pytest.mark.parametrize(
    ("array", "value", "shown"),
    [
        (pa.array([1999, None, 2013]), 2013, "2013"),
        (pa.array([1999, 2013]), 2006.5, "2006"),
        (pa.array([1999, 22013]), 1999, "1,999"),
        (pa.array([1999.0, 2013.0]), 2013.0, "2,013"),
        (pa.array(["a"]), 2013, "2,013"),
    ],
)
def test_how_numbers_are_shown(array: pa.Array, value: float, shown: str) -> None:
    """A column of years shows its mean as one, too."""
    column = ColumnStatistics.of(array)
    assert show_of("built", [column])(value) == shown
