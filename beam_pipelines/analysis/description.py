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

Show = Callable[[float | None, pa.DataType], str]
# Whole numbers of this range are years, whatever their column is called.
_FIRST_YEARS, _LAST_YEARS = 1900, 2100
# Numbers from here on are no years of a column that is called so.
_BEYOND = 10_000
_LONGEST_LABEL = 40
_CUTS = 0, 1, 5, 25, 50, 75, 95, 99, 100
_NAMES_OF_CUTS = {0: "Min", 50: "Median", 100: "Max"}


class Figure(NamedTuple):
    """A figure of a column.

    Attributes:
      value: a number, or a text of a date; ``None``: there is none.
      text: the value for people; ``–`` without one.
      share: of all rows or values, as text, or ``""``.
    """

    value: Any
    text: str
    share: str = ""


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
    show = _show_year if are_years(name, low, high) else formatting.show_value
    return functools.partial(_show_id, labels, show) if labels else show


def _show_id(labels: Sequence[str], show: Show, value: float | None, kind: pa.DataType) -> str:
    is_id = value is not None and value == int(value) and 0 <= value < len(labels)
    label = f" ({formatting.shorten(labels[int(value or 0)], _LONGEST_LABEL)})" if is_id else ""
    return show(value, kind) + label


def _show_year(value: float | None, kind: pa.DataType) -> str:
    return formatting.show_value(value, kind).replace(",", "")


def describe(columns: Sequence[ColumnStatistics], show: Show) -> Figures:
    """Yields names and figures of a column, one figure for each split.

    Args:
      columns: its statistics in each split; at least one.
      show: its numbers, as ``show_of`` returns it.
    """
    values, kind = [column.values for column in columns], value_type(columns[0].type)
    yield "Present", [_count(column.present) for column in columns]
    yield "Missing", [_count(column.missing, column.present + column.missing) for column in columns]
    if pa.types.is_list(columns[0].type):
        rows = [column.innermost for column in columns]
        yield "Values", [_count(found.num_values) for found in rows]
        yield (
            "Values in a row",
            [Figure(None, f"{found.min_values:,} – {found.max_values:,}") for found in rows],
        )
        yield "Mean values in a row", [_number(column.average_values) for column in columns]
    yield "Distinct", [_distinct(column) for column in columns]
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    if numbers:
        means = [one.mean if one.count else None for one in numbers]
        yield "Mean", [_value(mean, _of_mean(kind), show) for mean in means]
        spreads = [one.standard_deviation if one.count else None for one in numbers]
        yield (
            "Std. deviation",
            [
                NOTHING if one is None else Figure(one, formatting.show_spread(one, kind))
                for one in spreads
            ],
        )
        if not is_date(kind):
            yield "Zeros", [_count(item.zeros, item.count) for item in numbers]
        for name, field in (
            ("NaN", "nans"),
            (f"{formatting.MINUS}∞", "minus_infinities"),
            ("∞", "plus_infinities"),
        ):
            if any(getattr(item, field) for item in numbers):
                yield name, [_count(getattr(one, field), one.count + one.nans) for one in numbers]
    yield from _weighted(columns, show)
    texts = [item for item in values if isinstance(item, TextStatistics)]
    if texts:
        unit, lengths = text_lengths(texts)
        yield f"Shortest, {unit}", [_count(one.shortest if one else 0) for one in lengths]
        yield f"Mean length, {unit}", [_number(one.mean) if one else NOTHING for one in lengths]
        yield f"Longest, {unit}", [_count(one.longest if one else 0) for one in lengths]
        if any(item.undercount for item in texts):
            yield "Counts too low by up to", [_count(item.undercount) for item in texts]


def quantiles(columns: Sequence[ColumnStatistics], show: Show) -> Figures:
    """Yields percentiles of numbers, from the minimum to the maximum."""
    kind = value_type(columns[0].type)
    cuts = [
        column.values.percentiles.tolist()
        for column in columns
        if isinstance(column.values, NumberStatistics)
    ]
    if any(cuts):
        whole = not pa.types.is_floating(kind)
        for place in _CUTS:
            values = [cut[place] if cut else None for cut in cuts]
            if whole:
                values = [None if one is None else round(one) for one in values]
            name = _NAMES_OF_CUTS.get(place, f"{place}%")
            yield name, [_value(one, kind, show) for one in values]


def ends(columns: Sequence[ColumnStatistics], show: Show) -> list[Ends]:
    """Returns the ends of each split's numbers, or of its texts' lengths."""
    kind = value_type(columns[0].type)
    texts = [one.values for one in columns if isinstance(one.values, TextStatistics)]
    if texts:
        unit, lengths = text_lengths(texts)
        return [
            Ends(_count(one.shortest), _count(one.longest), unit) if one else Ends(NOTHING, NOTHING)
            for one in lengths
        ]
    return [
        Ends(_value(one.values.minimum, kind, show), _value(one.values.maximum, kind, show))
        for one in columns
        if isinstance(one.values, NumberStatistics)
    ]


def _count(number: float, whole: float | None = None) -> Figure:
    return Figure(
        number, f"{number:,}", "" if whole is None else formatting.show_share(number, whole)
    )


def _number(value: float) -> Figure:
    return Figure(value, formatting.show_number(value))


def _value(value: float | None, kind: pa.DataType, show: Show) -> Figure:
    text = show(value, kind)
    is_text = value is not None and pa.types.is_temporal(kind)
    return Figure(text if is_text else value, text)


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


def _weighted(columns: Sequence[ColumnStatistics], show: Show) -> Figures:
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
        kind = _of_mean(value_type(columns[0].type))
        means = [one.mean if one.weight else None for one in moments]
        yield "Mean, by weight", [_value(mean, kind, show) for mean in means]


def _of_mean(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a mean, which is a number for booleans."""
    return pa.int64() if pa.types.is_boolean(kind) else kind


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
