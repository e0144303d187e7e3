"""Describes each feature for the template ``features.html``: its row and its details."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis.axis import FEW_VALUES
from beam_pipelines.analysis.report.charts import (
    LARGE,
    SMALL,
    Bar,
    Frequent,
    Outlines,
    bars,
    distribution,
    frequent_values,
)
from beam_pipelines.analysis.report.drift import Drift, measure_drift
from beam_pipelines.analysis.report.values import Report
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.value_counts import LARGE_BYTES
from beam_pipelines.core.columns import type_name, value_type
from beam_pipelines.core.formatting import (
    MINUS,
    show_number,
    show_share,
    show_spread,
    show_value,
)

# Missing values are highlighted from here on.
_MANY_MISSING = 0.5
_TOP_VALUES = 12
_PERCENTILES = {
    0: "Min",
    1: "1%",
    5: "5%",
    25: "25%",
    50: "Median",
    75: "75%",
    95: "95%",
    99: "99%",
    100: "Max",
}


class Cell(NamedTuple):
    """Content of a table's cell.

    Attributes:
      text: a value, or the lower end of a range.
      end: the upper end of a range, or ``""``.
      small: a remark after the value.
      is_high: whether the value is highlighted.
    """

    text: str
    end: str = ""
    small: str = ""
    is_high: bool = False


class Table(NamedTuple):
    """A table of a feature's details.

    Attributes:
      title: head of the first column.
      heads: heads of the other columns.
      lines: (name, cells).
      style: a class of page.css.
    """

    title: str
    heads: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Cell]]]
    style: str = ""


class FeatureRow(NamedTuple):
    """A feature's row and details.

    Attributes:
      name, type: as in the data.
      is_label: whether this is the recipe's label.
      anomalies: their number.
      missing: largest fraction of missing values of any split.
      distinct: largest number of distinct values of any split.
      drift: largest drift, or ``None``.
      bars: frequent values of texts and of few numbers.
      small: the distribution of other numbers.
      cells: missing, distinct, range, drift; each a cell for all splits or one for each.
      large: the distribution, for the details.
      tables: of the details.
    """

    name: str
    type: str
    is_label: bool
    anomalies: int
    missing: float
    distinct: int
    drift: float | None
    bars: Sequence[Bar]
    small: Outlines | None
    cells: Sequence[Sequence[Cell]]
    large: Outlines | None
    tables: Sequence[Table]


_Columns = Mapping[str, ColumnStatistics]
_Lines = Iterator[tuple[str, list[Cell]]]


def describe_features(report: Report) -> Iterator[FeatureRow]:
    """Yields the features in the order of the columns."""
    tables = list(report.statistics.values())
    drifts = measure_drift(report.statistics, report.baseline)
    anomalies = collections.Counter(row.feature for row in report.anomalies)
    for name in tables[0].columns if tables else ():
        yield _feature(
            name,
            {split: statistics.columns[name] for split, statistics in report.statistics.items()},
            anomalies[name],
            name == report.label,
            drifts.get(name, ()),
        )


def _feature(
    name: str, columns: _Columns, anomalies: int, is_label: bool, drifts: Sequence[Drift]
) -> FeatureRow:
    first = next(iter(columns.values()))
    values = frequent_values(columns, _TOP_VALUES)
    is_text = isinstance(first.values, TextStatistics)
    drawn = values[:FEW_VALUES] if is_text or len(values) <= FEW_VALUES else ()
    largest = max(drifts, key=lambda drift: drift.value, default=None)
    return FeatureRow(
        name=name,
        type=type_name(first.type),
        is_label=is_label,
        anomalies=anomalies,
        missing=max(column.missing_fraction for column in columns.values()),
        distinct=max(
            MAX_DISTINCT + 1 if column.values.distinct is None else column.values.distinct
            for column in columns.values()
        ),
        drift=largest and largest.value,
        bars=bars(drawn, _totals(columns)),
        small=None if drawn else distribution(columns, SMALL),
        cells=(
            _per_split(columns, _missing),
            _per_split(columns, _distinct),
            _per_split(columns, _range),
            [_drift(largest) if largest else Cell("–")],
        ),
        large=distribution(columns, LARGE),
        tables=[table for table in _tables(columns, values, drifts) if table.lines],
    )


def _totals(columns: _Columns) -> list[int]:
    return [column.values.count for column in columns.values()]


def _per_split(columns: _Columns, show: Callable[[ColumnStatistics], Cell]) -> list[Cell]:
    """Returns one cell for each split, or one if all are equal."""
    cells = [show(column) for column in columns.values()]
    return cells[:1] if len(set(cells)) == 1 else cells


def _missing(column: ColumnStatistics) -> Cell:
    part = show_share(column.missing, column.present + column.missing)
    return Cell(part, is_high=column.missing_fraction >= _MANY_MISSING)


def _distinct(column: ColumnStatistics) -> Cell:
    number = column.values.distinct
    if not column.is_counted:
        return Cell("–")
    if number is None:
        return Cell(f">{MAX_DISTINCT:,}")
    if isinstance(column.values, TextStatistics) and not column.values.exact:
        # Longer values count as one beyond the exact bounds.
        sign = "≥" if column.values.max_bytes > LARGE_BYTES else "≈"
        return Cell(f"{sign}{number:,}")
    return Cell(f"{number:,}")


def _range(column: ColumnStatistics) -> Cell:
    values = column.values
    if isinstance(values, TextStatistics):
        if not values.count:
            return Cell("–")
        low, high, unit = f"{values.min_bytes:,}", f"{values.max_bytes:,}", "bytes"
    else:
        kind = value_type(column.type)
        low, high, unit = show_value(values.minimum, kind), show_value(values.maximum, kind), ""
    return Cell(low, "" if low == high else high, unit)


def _drift(drift: Drift) -> Cell:
    text = "<0.001" if 0 < drift.value < 0.001 else f"{drift.value:.3f}" if drift.value else "0"
    return Cell(text, is_high=drift.is_high)


def _tables(
    columns: _Columns, values: Sequence[Frequent], drifts: Sequence[Drift]
) -> Iterator[Table]:
    """Yields the tables of the details; some have no lines."""
    splits = list(columns)
    first = next(iter(columns.values()))
    yield Table("Summary", splits, list(_summary(columns)))
    if isinstance(first.values, NumberStatistics):
        yield Table("Quantiles", splits, list(_quantiles(columns)))
    few = isinstance(first.values, NumberStatistics) or all(
        (column.values.distinct or 0) <= len(values) for column in columns.values()
    )
    totals = _totals(columns)
    counts = [
        (
            item.value,
            [_count(count, total) for count, total in zip(item.counts, totals, strict=True)],
        )
        for item in values
    ]
    yield Table("Values" if few else "Most frequent values", splits, counts, "shares")
    if len(drifts) > 1:
        compared = [
            (f"{drift.split} against {drift.reference}", [_drift(drift)]) for drift in drifts
        ]
        yield Table("Drift", ["Divergence"], compared, "drift")


def _count(count: int, total: int) -> Cell:
    return Cell(f"{count:,}", small=show_share(count, total))


def _summary(columns: _Columns) -> _Lines:
    """Yields (name, a cell for each split)."""
    stats = list(columns.values())
    values = [column.values for column in stats]
    kind = value_type(stats[0].type)
    yield "Present", [Cell(f"{column.present:,}") for column in stats]
    yield "Missing", [_count(column.missing, column.present + column.missing) for column in stats]
    if pa.types.is_list(stats[0].type):
        rows = [column.innermost for column in stats]
        yield "Values", [Cell(f"{found.num_values:,}") for found in rows]
        yield (
            "Values in a row",
            [Cell(f"{found.min_values:,} – {found.max_values:,}") for found in rows],
        )
        yield "Mean values in a row", [Cell(show_number(column.average_values)) for column in stats]
    sampled = [column.sampled for column in stats if column.sampled is not None]
    if sampled:
        yield "Rows sampled for all below", [Cell(f"{number:,}") for number in sampled]
    yield "Distinct", [_distinct(column) for column in stats]
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    if numbers:
        # The mean of a bool is a number.
        mean_kind = pa.int64() if pa.types.is_boolean(kind) else kind
        means = [item.mean if item.count else None for item in numbers]
        yield "Mean", [Cell(show_value(mean, mean_kind)) for mean in means]
        yield (
            "Std. deviation",
            [Cell(show_spread(item.standard_deviation, kind)) for item in numbers],
        )
        yield "Zeros", [_count(item.zeros, item.count) for item in numbers]
        for name, field in (
            ("NaN", "nans"),
            (f"{MINUS}∞", "minus_infinities"),
            ("∞", "plus_infinities"),
        ):
            cells = [_count(getattr(item, field), item.count + item.nans) for item in numbers]
            if any(getattr(item, field) for item in numbers):
                yield name, cells
    texts = [item for item in values if isinstance(item, TextStatistics)]
    if texts:
        yield "Shortest, bytes", [Cell(f"{item.min_bytes:,}") for item in texts]
        lengths = [
            show_number(item.total_bytes / item.count) if item.count else "–" for item in texts
        ]
        yield "Mean length, bytes", [Cell(length) for length in lengths]
        yield "Longest, bytes", [Cell(f"{item.max_bytes:,}") for item in texts]
        if any(item.undercount for item in texts):
            yield "Counts too low by up to", [Cell(f"{item.undercount:,}") for item in texts]


def _quantiles(columns: _Columns) -> _Lines:
    """Yields percentiles, from the minimum to the maximum."""
    kind = value_type(next(iter(columns.values())).type)
    cuts = [
        column.values.quantiles(100)
        for column in columns.values()
        if isinstance(column.values, NumberStatistics)
    ]
    if any(cuts):
        whole = not pa.types.is_floating(kind)
        for place, name in _PERCENTILES.items():
            values = [cut[place] if cut else None for cut in cuts]
            yield (
                name,
                [Cell(show_value(_whole(value) if whole else value, kind)) for value in values],
            )


def _whole(value: float | None) -> float | None:
    return None if value is None else round(value)
