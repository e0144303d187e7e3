"""Shows the features: a line for each in the table, and below it, when opened, everything that is
known about it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.analysis.report.charts import (
    FEW_VALUES,
    LARGE,
    SMALL,
    Frequent,
    bars,
    distribution,
    frequent_values,
)
from beam_pipelines.analysis.report.drift import Drift, measure_drift
from beam_pipelines.analysis.report.markup import SPLIT_COLORS, escape, share, shown_alone, table
from beam_pipelines.analysis.report.values import Report
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.table import ColumnStatistics, value_type
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.value_counts import LARGE_BYTES
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.formatting import MINUS, show_number, show_spread, show_value

# From here on, missing values and drift stand out.
_MANY_MISSING = 0.5
_LARGE_DRIFT = 0.1
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

_Columns = Mapping[str, ColumnStatistics]
_Lines = Iterator[tuple[str, list[str]]]


def feature_id(number: int) -> str:
    """Returns the address of a feature's place in the page: by number, because a name may hold
    anything.
    """
    return f"f{number}"


def show_features(report: Report) -> list[str]:
    """Returns the body of the features' table: a ``tbody`` for each feature, in the table's
    order.
    """
    tables = list(report.statistics.values())
    names = list(tables[0].columns) if tables else []
    drifts = measure_drift(report.statistics, report.baseline)
    anomalies = collections.Counter(row.feature for row in report.anomalies)
    return [
        _feature(
            number,
            name,
            {split: statistics.columns[name] for split, statistics in report.statistics.items()},
            anomalies[name],
            name == report.label,
            drifts.get(name, ()),
        )
        for number, name in enumerate(names)
    ]


def _feature(
    number: int,
    name: str,
    columns: _Columns,
    anomalies: int,
    is_label: bool,
    drifts: Sequence[Drift],
) -> str:
    first = next(iter(columns.values()))
    missing = max(column.missing_fraction for column in columns.values())
    distinct = max(
        MAX_DISTINCT + 1 if c.values.distinct is None else c.values.distinct
        for c in columns.values()
    )
    drift = f" data-drift={max(drift.value for drift in drifts):.6g}" if drifts else ""
    badges = "<span class=badge>label</span>" if is_label else ""
    if anomalies:
        badges += (
            f'<span class="badge bad">{anomalies:,} anomal{"y" if anomalies == 1 else "ies"}</span>'
        )
    values = frequent_values(columns, _TOP_VALUES)
    cells = "".join(
        f"<td>{cell}"
        for cell in (
            _per_split(columns, _missing),
            _per_split(columns, _distinct),
            _per_split(columns, _range),
            _show_drifts(drifts),
        )
    )
    return (
        f"<tbody id={feature_id(number)} data-missing={missing:.6g} "
        f"data-distinct={distinct}{drift}><tr class=feature>"
        f"<th scope=row><button><bdi>{escape(name)}</bdi></button>"
        f"<span class=type>{escape(type_name(first.type))}</span>{badges}"
        f"<td>{_chart(columns, values)}{cells}\n"
        f"<tr class=more hidden><td colspan=6>{_details(columns, values, drifts)}"
    )


def _chart(columns: _Columns, values: Sequence[Frequent]) -> str:
    """Draws the values if they are texts, or few enough to be drawn one by one, and else their
    distribution.
    """
    is_text = isinstance(next(iter(columns.values())).values, TextStatistics)
    drawn = values[:FEW_VALUES] if is_text or len(values) <= FEW_VALUES else ()
    return bars(drawn, _totals(columns)) or distribution(columns, SMALL)


def _totals(columns: _Columns) -> list[int]:
    return [column.values.count for column in columns.values()]


def _per_split(columns: _Columns, show: Callable[[ColumnStatistics], str]) -> str:
    """Returns what all splits have in common, or a line for each."""
    cells = [show(column) for column in columns.values()]
    if len(set(cells)) == 1:
        return cells[0]
    return "".join(
        f'<div class="dot s{number % SPLIT_COLORS}">{cell}</div>'
        for number, cell in enumerate(cells)
    )


def _missing(column: ColumnStatistics) -> str:
    part = share(column.missing, column.present + column.missing)
    return f"<b class=high>{part}</b>" if column.missing_fraction >= _MANY_MISSING else part


def _distinct(column: ColumnStatistics) -> str:
    number = column.values.distinct
    if number is None:
        return f"&gt;{MAX_DISTINCT:,}"
    if isinstance(column.values, TextStatistics) and not column.values.exact:
        # Longer values count as one beyond the exact bounds.
        return f"≥{number:,}" if column.values.max_bytes > LARGE_BYTES else f"≈{number:,}"
    return f"{number:,}"


def _range(column: ColumnStatistics) -> str:
    values = column.values
    if isinstance(values, TextStatistics):
        if not values.count:
            return "–"
        low, high, unit = f"{values.min_bytes:,}", f"{values.max_bytes:,}", " <small>bytes</small>"
    else:
        kind = value_type(column.type)
        low, high, unit = (
            escape(show_value(values.minimum, kind)),
            escape(show_value(values.maximum, kind)),
            "",
        )
    return f"{low}{unit}" if low == high else f"<span>{low}</span> – <span>{high}</span>{unit}"


def _show_drift(drift: Drift) -> str:
    text = "&lt;0.001" if 0 < drift.value < 0.001 else f"{drift.value:.3f}" if drift.value else "0"
    return f"<b class=high>{text}</b>" if drift.value >= _LARGE_DRIFT else text


def _show_drifts(drifts: Sequence[Drift]) -> str:
    """Returns the largest drift; the details have all of them."""
    return _show_drift(max(drifts, key=lambda drift: drift.value)) if drifts else "–"


def _details(columns: _Columns, values: Sequence[Frequent], drifts: Sequence[Drift]) -> str:
    heads = [escape(split) for split in columns]  # page.css gives them their colors
    first = next(iter(columns.values()))
    parts = []
    chart = distribution(columns, LARGE)
    if chart:
        parts.append(f"<div class=wide>{chart}</div>")
    parts.append(_table("Summary", heads, _summary(columns)))
    if isinstance(first.values, NumberStatistics):
        parts.append(_table("Quantiles", heads, _quantiles(columns)))
    totals = _totals(columns)
    lines = (
        (
            shown_alone(item.value),
            [
                cell
                for count, total in zip(item.counts, totals, strict=True)
                for cell in (f"{count:,}", share(count, total))
            ],
        )
        for item in values
    )
    few = isinstance(first.values, NumberStatistics) or all(
        (column.values.distinct or 0) <= len(values) for column in columns.values()
    )
    parts.append(
        _table("Values" if few else "Most frequent values", heads, lines, "shares", cells=2)
    )
    if len(drifts) > 1:
        compared = (
            (f"{escape(drift.split)} against {escape(drift.reference)}", [_show_drift(drift)])
            for drift in drifts
        )
        parts.append(_table("Drift", ["Divergence"], compared, "drift"))
    return f"<div class=details>{''.join(parts)}</div>"


def _count(count: int, total: int) -> str:
    return f"{count:,} <small>{share(count, total)}</small>"


def _table(
    title: str,
    heads: Sequence[str],
    lines: Iterable[tuple[str, list[str]]],
    style: str = "",
    cells: int = 1,
) -> str:
    """Returns a small table; nothing without lines."""
    filled = [[name, *values] for name, values in lines]
    kind = f'"part {style}"' if style else "part"
    return (
        f"<div class={kind}>{table([title, *heads], filled, cells=cells)}</div>" if filled else ""
    )


def _summary(columns: _Columns) -> _Lines:
    """Yields the lines of the summary: what they say, and it for each split."""
    own = list(columns.values())
    values = [column.values for column in own]
    kind = value_type(own[0].type)
    yield "Present", [f"{column.present:,}" for column in own]
    yield "Missing", [_count(column.missing, column.present + column.missing) for column in own]
    if pa.types.is_list(own[0].type):
        yield "Values", [f"{column.num_values:,}" for column in own]
        yield (
            "Values in a row",
            [f"{column.min_values:,} – {column.max_values:,}" for column in own],
        )
        yield "Mean values in a row", [show_number(column.average_values) for column in own]
    yield "Distinct", [_distinct(column) for column in own]
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    if numbers:
        yield (
            "Mean",
            [show_value(item.mean if item.count else None, _unless_bool(kind)) for item in numbers],
        )
        yield "Std. deviation", [show_spread(item.standard_deviation, kind) for item in numbers]
        yield "Zeros", [_count(item.zeros, item.count) for item in numbers]
        for name, field in (
            ("NaN", "nans"),
            (f"{MINUS}∞", "minus_infinities"),
            ("∞", "plus_infinities"),
        ):
            counts = [getattr(item, field) for item in numbers]
            if any(counts):
                yield (
                    name,
                    [
                        _count(count, item.count + item.nans)
                        for count, item in zip(counts, numbers, strict=True)
                    ],
                )
    texts = [item for item in values if isinstance(item, TextStatistics)]
    if texts:
        yield "Shortest, bytes", [f"{item.min_bytes:,}" for item in texts]
        yield (
            "Mean length, bytes",
            [show_number(item.total_bytes / item.count) if item.count else "–" for item in texts],
        )
        yield "Longest, bytes", [f"{item.max_bytes:,}" for item in texts]
        if any(item.undercount for item in texts):
            yield "Counts too low by up to", [f"{item.undercount:,}" for item in texts]


def _unless_bool(kind: pa.DataType) -> pa.DataType:
    """Returns the type to show a mean by: that of a bool is a number."""
    return pa.int64() if pa.types.is_boolean(kind) else kind


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
                [escape(show_value(_whole(value) if whole else value, kind)) for value in values],
            )


def _whole(value: float | None) -> float | None:
    return None if value is None else round(value)
