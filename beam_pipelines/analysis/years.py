"""Tells years from other whole numbers, to show them without separators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.formatting import shorten, show_value

Show = Callable[[float | None, pa.DataType], str]
# Whole numbers of this range are years, whatever their column is called.
_FIRST, _LAST = 1900, 2100
# Numbers from here on are no years of a column that is called so.
_BEYOND = 10_000
_LONGEST_LABEL = 40


def are_years(name: str, low: float | None, high: float | None) -> bool:
    """Whether whole numbers are years, by their range and the column's name.

    Args:
      name: of the column.
      low, high: least and largest number; ``None`` without any.
    """
    if low is None or high is None:
        return False
    is_named = "year" in name.lower() and -_BEYOND < low <= high < _BEYOND
    return is_named or _FIRST <= low <= high <= _LAST


def show_of(name: str, columns: Iterable[ColumnStatistics], labels: Sequence[str] = ()) -> Show:
    """Returns the function that shows a column's numbers: ``show_value``, or of years.

    Args:
      name: of the column.
      columns: its statistics in each split.
      labels: texts of its ids, which follow them: ``1 (SALE)``.
    """
    ends = [
        end
        for column in columns
        if isinstance(column.values, NumberStatistics)
        and pa.types.is_integer(value_type(column.type))
        for end in (column.values.minimum, column.values.maximum)
        if end is not None
    ]
    low, high = min(ends, default=None), max(ends, default=None)
    show = show_year if are_years(name, low, high) else show_value
    return functools.partial(_show_id, labels, show) if labels else show


def _show_id(labels: Sequence[str], show: Show, value: float | None, kind: pa.DataType) -> str:
    is_id = value is not None and value == int(value) and 0 <= value < len(labels)
    label = f" ({shorten(labels[int(value or 0)], _LONGEST_LABEL)})" if is_id else ""
    return show(value, kind) + label


def show_year(value: float | None, kind: pa.DataType) -> str:
    """Returns a year as text, as ``show_value`` without separators."""
    return show_value(value, kind).replace(",", "")
