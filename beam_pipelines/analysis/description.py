"""Describes columns by named figures, for reports, tables and JSON.

A figure has a value and its one text. Printers lay figures out, and compute none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.text import LARGE_BYTES, TextStatistics
from beam_pipelines.core import formatting
from beam_pipelines.core.arrow.columns import is_date, value_type

Show = Callable[[float | None], str]
# Whole numbers of this range are years, whatever their column is called.
_FIRST_YEARS, _LAST_YEARS = 1900, 2100
# Numbers from here on are no years of a column that is called so.
_BEYOND = 10_000
_LONGEST_LABEL = 40
_CUTS = {0: "Min", 1: "1%", 5: "5%", 25: "25%", 50: "Median"}
_CUTS |= {75: "75%", 95: "95%", 99: "99%", 100: "Max"}
_NOT_FINITE = {"NaN": "nans", f"{formatting.MINUS}∞": "minus_infinities", "∞": "plus_infinities"}


class Figure(NamedTuple):
    """A figure of a column.

    Attributes:
      value: a number, or a text of a date; ``None``: there is none.
      text: the value for people; ``–`` without one.
      share: of all rows or values, or another remark, as text, or ``""``.
      end: the upper end of a range as text, whose lower end is ``text``, or ``""``.
      is_high: whether it is highlighted.
    """

    value: Any
    text: str
    share: str = ""
    end: str = ""
    is_high: bool = False


class Ends(NamedTuple):
    """Least and largest number, or length of texts in a unit."""

    low: Figure
    high: Figure
    unit: str = ""


Figures = Iterator[tuple[str, list[Figure]]]
NOTHING = Figure(None, "–")


def are_years(name: str, low: float | None, high: float | None) -> bool:
    """Whether whole numbers are years, by their range and the column's name.

    Args:
      name: of the column.
      low, high: least and largest number; ``None`` without any.
    """
    if low is None or high is None:
        return False
    is_named = "year" in name.lower() and -_BEYOND < low <= high < _BEYOND
    return is_named or _FIRST_YEARS <= low <= high <= _LAST_YEARS


def show_of(name: str, columns: Sequence[ColumnStatistics], labels: Sequence[str] = ()) -> Show:
    """Returns the function that shows a column's numbers: ``formatter_of``, or of years.

    Args:
      name: of the column.
      columns: its statistics in each split; at least one.
      labels: texts of its ids, which follow them: ``1 (SALE)``.
    """
    kind = value_type(columns[0].type)
    show = formatting.formatter_of(kind)
    if pa.types.is_integer(kind):
        numbers = [one.values for one in columns if isinstance(one.values, NumberStatistics)]
        ends = [end for one in numbers for end in (one.minimum, one.maximum) if end is not None]
        if are_years(name, min(ends, default=None), max(ends, default=None)):
            show = _show_year
    return functools.partial(_show_id, labels, show) if labels else show


def _show_id(labels: Sequence[str], show: Show, value: float | None) -> str:
    is_id = value is not None and value == int(value) and 0 <= value < len(labels)
    label = f" ({formatting.shorten(labels[int(value or 0)], _LONGEST_LABEL)})" if is_id else ""
    return show(value) + label


def _show_year(value: float | None) -> str:
    return formatting.show_number(value).replace(",", "")


def describe(columns: Sequence[ColumnStatistics], show: Show) -> Figures:
    """Yields names and figures of a column, one figure for each split.

    Args:
      columns: its statistics in each split; at least one.
      show: its numbers, as ``show_of`` returns it.
    """
    values, kind = [column.values for column in columns], value_type(columns[0].type)
    yield "Present", [counted(column.present) for column in columns]
    yield (
        "Missing",
        [counted(column.missing, column.present + column.missing) for column in columns],
    )
    if pa.types.is_list(columns[0].type):
        rows = [column.innermost for column in columns]
        yield "Values", [counted(found.num_values) for found in rows]
        yield (
            "Values in a row",
            [Figure(None, f"{found.min_values:,} – {found.max_values:,}") for found in rows],
        )
        yield "Mean values in a row", [_number(column.average_values) for column in columns]
    yield "Distinct", [_distinct(column) for column in columns]
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    show_mean = formatting.show_number if pa.types.is_boolean(kind) else show
    if numbers:
        means = [one.mean if one.count else None for one in numbers]
        yield "Mean", _values(means, kind, show_mean)
        spreads = [one.standard_deviation if one.count else None for one in numbers]
        yield "Std. deviation", [Figure(one, formatting.show_spread(one, kind)) for one in spreads]
        if not is_date(kind):
            yield "Zeros", [counted(item.zeros, item.count) for item in numbers]
        for name, field in _NOT_FINITE.items():
            if any(getattr(item, field) for item in numbers):
                yield name, [counted(getattr(one, field), one.count + one.nans) for one in numbers]
    yield from _weighted(columns, kind, show_mean)
    texts = [item for item in values if isinstance(item, TextStatistics)]
    if texts:
        unit, lengths = text_lengths(texts)
        yield f"Shortest, {unit}", [counted(one.shortest if one else 0) for one in lengths]
        yield f"Mean length, {unit}", [_number(one.mean) if one else NOTHING for one in lengths]
        yield f"Longest, {unit}", [counted(one.longest if one else 0) for one in lengths]
        if any(item.undercount for item in texts):
            yield "Counts too low by up to", [counted(item.undercount) for item in texts]


def quantiles(columns: Sequence[ColumnStatistics], show: Show) -> Figures:
    """Yields percentiles of numbers, from the minimum to the maximum."""
    kind = value_type(columns[0].type)
    numbers = [one.values for one in columns if isinstance(one.values, NumberStatistics)]
    found = []
    for cuts in (one.percentiles.tolist() for one in numbers):
        own = [cuts[place] for place in _CUTS] if cuts else [None] * len(_CUTS)
        if not pa.types.is_floating(kind):
            own = [None if one is None else round(one) for one in own]
        found.append(_values(own, kind, show))
    if any(one.count for one in numbers):
        yield from zip(_CUTS.values(), map(list, zip(*found, strict=True)), strict=True)


def ends(columns: Sequence[ColumnStatistics], show: Show) -> list[Ends]:
    """Returns the ends of each split's numbers, or of its texts' lengths."""
    kind = value_type(columns[0].type)
    texts = [one.values for one in columns if isinstance(one.values, TextStatistics)]
    if texts:
        unit, lengths = text_lengths(texts)
        return [
            Ends(counted(one.shortest), counted(one.longest), unit)
            if one
            else Ends(NOTHING, NOTHING)
            for one in lengths
        ]
    return [
        Ends(low, high)
        for one in columns
        if isinstance(one.values, NumberStatistics)
        for low, high in [_values((one.values.minimum, one.values.maximum), kind, show)]
    ]


def counted(number: float, whole: float | None = None) -> Figure:
    """Returns a count, and its share of a whole."""
    return Figure(
        number, f"{number:,}", "" if whole is None else formatting.show_share(number, whole)
    )


def _number(value: float) -> Figure:
    return Figure(value, formatting.show_number(value))


def _values(values: Iterable[float | None], kind: pa.DataType, show: Show) -> list[Figure]:
    shown = [Figure(value, show(value)) for value in values]
    if not pa.types.is_temporal(kind):
        return shown
    return [one if one.value is None else Figure(one.text, one.text) for one in shown]


def _distinct(column: ColumnStatistics) -> Figure:
    """Returns the number of distinct values, and whether it is an estimate."""
    number = column.values.distinct
    if not column.is_counted:
        return NOTHING
    if number is None:
        return Figure(None, f">{MAX_DISTINCT:,}")
    sign = ""
    if isinstance(column.values, TextStatistics) and not column.values.exact:
        # Longer values count as one beyond the exact bounds.
        sign = "≥" if column.values.max_bytes > LARGE_BYTES else "≈"
    return Figure(number, f"{sign}{number:,}")


def _weighted(columns: Sequence[ColumnStatistics], kind: pa.DataType, show: Show) -> Figures:
    """Yields what the rows' weights change; nothing without weights."""
    presence = [column.weighted for column in columns if column.weighted is not None]
    if len(presence) == len(columns):
        shares = [formatting.show_share(one.missing, one.present + one.missing) for one in presence]
        yield "Missing, by weight", [Figure(None, share) for share in shares]
    moments = [
        column.values.weighted.moments
        for column in columns
        if isinstance(column.values, NumberStatistics) and column.values.weighted is not None
    ]
    if len(moments) == len(columns):
        means = [one.mean if one.weight else None for one in moments]
        yield "Mean, by weight", _values(means, kind, show)


class Lengths(NamedTuple):
    """Shortest, mean and longest length."""

    shortest: int
    mean: float
    longest: int


def text_lengths(splits: Sequence[TextStatistics]) -> tuple[str, list[Lengths | None]]:
    """Returns the unit and each split's lengths; ``None`` without texts.

    The unit is ``characters`` if all texts were counted. Of bytes, and of more texts than are
    counted, only lengths in ``bytes`` are known.
    """
    if all(values.exact and pa.types.is_string(values.values.type) for values in splits):
        return "characters", [_in_characters(values) for values in splits]
    lengths = [
        Lengths(values.min_bytes, values.average_bytes, values.max_bytes) if values.count else None
        for values in splits
    ]
    return "bytes", lengths


def _in_characters(values: TextStatistics) -> Lengths | None:
    if not values.count:
        return None
    lengths = pc.utf8_length(values.values).to_numpy().astype(np.int64)
    mean = float((lengths * values.counts).sum() / values.count)
    return Lengths(int(lengths.min()), mean, int(lengths.max()))
