"""Describes each feature and each slice: their rows, and a feature's details."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis import description
from beam_pipelines.analysis.drift import FEW_VALUES
from beam_pipelines.analysis.report import charts, details
from beam_pipelines.analysis.report.values import Report, ReportData
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.table import DataSlice, TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.formatting import show_number, show_share

# Missing values are highlighted from here on.
_MANY_MISSING = 0.5
_TOP_VALUES = 12


class FeatureRow(NamedTuple):
    """A feature's row and details.

    Attributes:
      name, type: as in the data.
      is_label: whether this is the recipe's label.
      anomalies: their number.
      missing: largest fraction of missing values of any split.
      distinct: largest number of distinct values of any split.
      drift: largest drift, or ``None``.
      order: (key, number) of other columns by which the table is sorted.
      bars: frequent values of texts and of few numbers.
      outlines: the distribution of other numbers, also for the details.
      cells: missing, distinct, range, drift, and what other packages describe; each a cell for all
        splits or one for each.
      tables: of the details.
    """

    name: str
    type: str
    is_label: bool
    anomalies: int
    missing: float
    distinct: int
    drift: float | None
    order: Sequence[tuple[str, float]]
    bars: Sequence[charts.Bar]
    outlines: charts.Outlines | None
    cells: Sequence[Sequence[details.Cell]]
    tables: Sequence[details.DetailTable]


_Columns = Mapping[str, ColumnStatistics]


def describe_features(report: Report) -> Iterator[FeatureRow]:
    """Yields the features in the order of the columns."""
    tables = list(report.statistics.values())
    anomalies = collections.Counter(row.feature for row in report.data.anomalies)
    for name in tables[0].columns if tables else ():
        yield _feature(
            name,
            {split: statistics.columns[name] for split, statistics in report.statistics.items()},
            anomalies[name],
            name == report.manifest.label,
            report.data,
        )


def _feature(
    name: str, columns: _Columns, anomalies: int, is_label: bool, data: ReportData
) -> FeatureRow:
    drifts, class_names = data.drifts.get(name, ()), data.class_names.get(name, ())
    first, described = next(iter(columns.values())), data.sampled.described
    show = description.show_of(name, columns.values())
    named = description.show_of(name, columns.values(), class_names)
    values = charts.frequent_values(columns, _TOP_VALUES, named)
    is_text = isinstance(first.values, TextStatistics)
    stats = list(columns.values())
    found, cuts = dict(description.describe(stats, show)), dict(description.quantiles(stats, show))
    drawn = values[:FEW_VALUES] if is_text or len(values) <= FEW_VALUES else ()
    largest = max(drifts, key=lambda drift: drift.value, default=None)
    tables = details.detail_tables(columns, found, cuts, values, drifts)
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
        order=[(one.key, one.order[name]) for one in described if name in one.order],
        bars=charts.bars(drawn, details.totals_of(columns)),
        outlines=None if drawn else charts.distribution(columns, show),
        cells=(
            _once(map(_missing, stats, found["Missing"])),
            _once(map(details.cell_of, found["Distinct"])),
            _once(map(_range, description.ends(stats, show))),
            [details.show_drift(largest) if largest else details.Cell("–")],
            *([one.cells.get(name, details.Cell("–"))] for one in described),
        ),
        tables=[one for one in tables if one.lines],
    )


def _once(cells: Iterable[details.Cell]) -> list[details.Cell]:
    """Returns one cell for each split, or one if all are equal."""
    found = list(cells)
    return found[:1] if len(set(found)) == 1 else found


def _missing(column: ColumnStatistics, figure: description.Figure) -> details.Cell:
    return details.Cell(figure.share, is_high=column.missing_fraction >= _MANY_MISSING)


def _range(found: description.Ends) -> details.Cell:
    low, high = found.low.text, found.high.text
    return details.Cell(low, "" if low == high else high, found.unit)


class SliceRow(NamedTuple):
    """A slice.

    Attributes:
      name: column and value.
      cells: (rows, share of the split's rows, mean of the label) of each split; the mean is ``""``
        without a label of numbers.
    """

    name: str
    cells: tuple[tuple[str, str, str], ...]


def describe_slices(report: Report) -> list[SliceRow]:
    """Returns the slices of all splits, ordered."""
    tables = list(report.statistics.values())
    names = sorted({key for table in tables for key in table.slices})
    return [
        SliceRow(
            f"{key.column} = {key.value}",
            tuple(_cell(table, key, report.manifest.label) for table in tables),
        )
        for key in names
    ]


def _cell(table: TableStatistics, key: DataSlice, label: str | None) -> tuple[str, str, str]:
    own = table.slices.get(key)
    rows = 0 if own is None else own.rows
    mean = "" if own is None or label is None else _mean(own, label)
    return f"{rows:,}", show_share(rows, table.rows), mean


def _mean(table: TableStatistics, label: str) -> str:
    """Returns the mean of a label; of booleans the true share."""
    column = table.columns.get(label)
    if column is None:
        return ""
    values, kind = column.values, value_type(column.type)
    if not isinstance(values, NumberStatistics) or pa.types.is_temporal(kind) or not values.count:
        return ""
    if pa.types.is_boolean(kind):
        return f"{show_share(values.mean, 1.0)} true"
    return f"mean {show_number(values.mean)}"
