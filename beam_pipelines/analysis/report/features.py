"""Describes each feature and each slice: their rows, and a feature's details."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis import description
from beam_pipelines.analysis.drift import FEW_VALUES
from beam_pipelines.analysis.report import charts, details, markup
from beam_pipelines.analysis.report.values import PAGE, Report
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.table import DataSlice, TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.formatting import show_number, show_share

# Missing values are highlighted from here on.
_MANY_MISSING = 0.5
_TOP_VALUES = 12


_Splits = Sequence[ColumnStatistics]


def show_features(report: Report) -> Iterator[str]:
    """Yields the rows and details of ``PAGE`` features each, as HTML."""
    tables = list(report.statistics.values())
    names = list(tables[0].columns) if tables else []
    anomalies = collections.Counter(row.feature for row in report.data.anomalies)
    for start in range(0, len(names), PAGE):
        some = names[start : start + PAGE]
        columns = [[table.columns[name] for table in tables] for name in some]
        shows = list(map(description.show_of, some, columns))
        outlines = charts.draw_distributions(columns, shows)
        yield "".join(
            _feature(name, own, show, outline, anomalies[name], report)
            for name, own, show, outline in zip(some, columns, shows, outlines, strict=True)
        )


def _feature(
    name: str, columns: _Splits, show: description.Show, chart: str, anomalies: int, report: Report
) -> str:
    data, first = report.data, columns[0]
    drifts, class_names = data.drifts.get(name, ()), data.class_names.get(name, ())
    others = data.sampled.described
    named = description.show_of(name, columns, class_names) if class_names else show
    values = charts.frequent_values(columns, _TOP_VALUES, named)
    found = dict(description.describe(columns, show))
    described = {"Summary": found, "Quantiles": dict(description.quantiles(columns, show))}
    # The script copies the outlines, so that screen readers skip them.
    copy = chart and "<div class=wide aria-hidden=true></div>"
    if values and (isinstance(first.values, TextStatistics) or len(values) <= FEW_VALUES):
        chart = charts.draw_values(values[:FEW_VALUES], details.totals_of(columns))
        copy = ""
    largest = max(drifts, key=lambda drift: drift.value, default=None)
    # By these the script sorts.
    order = {"missing": f"{max(column.missing_fraction for column in columns):g}"}
    distinct = [column.values.distinct for column in columns]
    order["distinct"] = str(max(MAX_DISTINCT + 1 if one is None else one for one in distinct))
    if largest:
        order["drift"] = f"{largest.value:g}"
    order |= {one.key: f"{one.order[name]:g}" for one in others if name in one.order}
    cells = (
        _once(map(_missing, columns, found["Missing"])),
        _once(found["Distinct"]),
        _once(map(_range, description.ends(columns, show))),
        [details.show_drift(largest) if largest else description.NOTHING],
        *([one.cells.get(name, description.NOTHING)] for one in others),
    )
    tables = details.detail_tables(list(report.statistics), columns, described, values, drifts)
    key, shown = markup.anchor(name), markup.escaped(name)
    badges = "<span class=badge>label</span>" if name == report.manifest.label else ""
    if anomalies:
        word = "anomaly" if anomalies == 1 else "anomalies"
        badges += f'<span class="badge bad">{anomalies:,} {word}</span>'
    parts = [
        f"<tbody id={key}",
        *(f" data-{markup.escaped(one)}={number}" for one, number in order.items()),
        f"><tr class=feature><th scope=row><button><bdi>{shown}</bdi></button>",
        f"<span class=type>{markup.escaped(type_name(first.type))}</span> ",
        f'<a class=link href=#{key} aria-label="Link to this feature">#</a>{badges}<td>{chart}',
        *map(markup.show_cell, cells),
        f"\n<tr class=more hidden><td colspan={2 + len(cells) - (not data.drifts)}>",
        "<div class=details>\n",
        copy,
        *(details.show_table(one) for one in tables if one.lines),
        "</div>\n",
    ]
    return "".join(parts)


def _once(figures: Iterable[description.Figure]) -> list[description.Figure]:
    """Returns one figure for each split, or one if all are equal."""
    found = list(figures)
    return found[:1] if len(set(found)) == 1 else found


def _missing(column: ColumnStatistics, figure: description.Figure) -> description.Figure:
    return description.Figure(None, figure.share, is_high=column.missing_fraction >= _MANY_MISSING)


def _range(found: description.Ends) -> description.Figure:
    low, high = found.low.text, found.high.text
    return description.Figure(None, low, found.unit, "" if low == high else high)


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
