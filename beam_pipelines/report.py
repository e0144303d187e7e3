"""Renders the report: one HTML page that needs nothing but a browser."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import string
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.anomalies import Row
from beam_pipelines.columns import type_name
from beam_pipelines.report_charts import SPLIT_COLORS, chart, clipped, number_text, plain_number
from beam_pipelines.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.statistics.table import ColumnStatistics, TableStatistics, value_type
from beam_pipelines.statistics.text import TextStatistics

# From here on, missing values stand out.
_MANY_MISSING = 0.5


class SplitSummary(NamedTuple):
    """What was written of a split: rows, shard files, and their bytes on disk."""

    rows: int
    shards: int
    size_bytes: int


class SourceSummary(NamedTuple):
    """What was read of a source."""

    name: str
    files: int
    size_bytes: int
    rows: int
    rejected: int


class JoinSummary(NamedTuple):
    """What became of the rows in a join; ``strategy`` and ``how`` as in the recipe."""

    source: str
    how: str
    strategy: str
    matched: int
    unmatched: int


@dataclasses.dataclass(frozen=True)
class Report:
    """All that the page shows.

    Attributes:
      name: name of the dataset.
      splits: split name -> what was written; empty when nothing was (``describe``).
      sources, joins: in the recipe's order.
      anomalies: as ``anomalies.describe`` returns them.
      statistics: split name -> statistics, all with the same columns.
      filtered: rows that the recipe's filter left out.
    """

    name: str
    splits: Mapping[str, SplitSummary]
    sources: Sequence[SourceSummary]
    joins: Sequence[JoinSummary]
    anomalies: Sequence[Row]
    statistics: Mapping[str, TableStatistics]
    filtered: int = 0


def render_report(report: Report) -> str:
    """Returns the page as HTML: self-contained, the same bytes for the same report, every value escaped.

    A content security policy forbids the browser to load anything, and to run any script but the page's own.
    """
    template = importlib.resources.files("beam_pipelines").joinpath("report.html.template").read_text("utf-8")
    script = template.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    features = _features(report.statistics)
    return string.Template(template).substitute(
        script_hash=f"sha256-{digest}",
        name=_escape(report.name),
        summary=_summary(report),
        tiles=_tiles(report),
        anomalies=_anomalies(report.anomalies),
        tables="\n".join(filter(None, (_splits(report), _sources(report.sources), _joins(report.joins)))),
        legend=" ".join(_key(number, split) for number, split in enumerate(report.statistics)),
        shown=f"{len(features)} features",
        features="\n".join(features),
    )


def _escape(text: str) -> str:
    return html.escape(text, quote=True)


def _summary(report: Report) -> str:
    rows = sum(table.rows for table in report.statistics.values())
    return f"{rows:,} rows in {len(report.statistics)} split{'s' * (len(report.statistics) != 1)}"


def _tiles(report: Report) -> str:
    rejected = sum(source.rejected for source in report.sources)
    shown = [(f"{sum(table.rows for table in report.statistics.values()):,}", "rows")]
    if report.splits:
        shown.append((f"{sum(split.shards for split in report.splits.values()):,}", "shards"))
        shown.append((size_text(sum(split.size_bytes for split in report.splits.values())), "on disk"))
    shown += [(f"{report.filtered:,}", "rows filtered"), (f"{rejected:,}", "rows rejected")]
    shown.append((f"{len(report.anomalies):,}", "anomalies"))
    return "".join(f'<div class="tile"><b>{value}</b><span class="soft">{name}</span></div>' for value, name in shown)


def _anomalies(rows: Sequence[Row]) -> str:
    if not rows:
        return '<h2>Anomalies</h2><p class="none">None: the data fits the schema.</p>'
    heads = ("Feature", "Split", "What", "Expected", "Found")
    cells = [(row.feature, row.split, row.what, row.expected, row.found) for row in rows]
    return _table("Anomalies", heads, [[_escape(clipped(cell)) for cell in line] for line in cells], "anomalies")


def _splits(report: Report) -> str:
    heads = ("Split", "Rows", "Shards", "Size")
    lines = [
        [
            _key(number, split),
            f"{written.rows:,}",
            f"{written.shards:,}",
            size_text(written.size_bytes),
        ]
        for number, (split, written) in enumerate(report.splits.items())
    ]
    return _table("Splits", heads, lines) if lines else ""


def _sources(sources: Sequence[SourceSummary]) -> str:
    heads = ("Source", "Files", "Size", "Rows read", "Rejected")
    lines = [
        [
            _escape(source.name),
            f"{source.files:,}",
            size_text(source.size_bytes),
            f"{source.rows:,}",
            f"{source.rejected:,}",
        ]
        for source in sources
    ]
    return _table("Sources", heads, lines) if lines else ""


def _joins(joins: Sequence[JoinSummary]) -> str:
    heads = ("Join with", "How", "Matched", "Unmatched")
    lines = [
        [
            _escape(join.source),
            _escape(f"{join.how}, {join.strategy}"),
            f"{join.matched:,}",
            f"{join.unmatched:,} ({_percent(join.unmatched, join.matched + join.unmatched)})",
        ]
        for join in joins
    ]
    return _table("Joins", heads, lines) if lines else ""


def _table(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]], style: str = "") -> str:
    """Returns a titled table of cells that are HTML already; the first column is each line's header."""
    kinds = ["" if style or head in (heads[0], "How") else ' class="n"' for head in heads]
    head = "".join(f'<th scope="col"{kind}>{text}</th>' for text, kind in zip(heads, kinds, strict=True))
    body = "\n".join(
        f'<tr><th scope="row">{line[0]}</th>'
        + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(line[1:], kinds[1:], strict=True))
        + "</tr>"
        for line in lines
    )
    return (
        f'<section><h2>{title}</h2><div class="box {style}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _key(number: int, split: str) -> str:
    return f'<span class="key s{number % SPLIT_COLORS}">{_escape(split)}</span>'


def _features(statistics: Mapping[str, TableStatistics]) -> list[str]:
    tables = list(statistics.values())
    names = list(tables[0].columns) if tables else []
    return [_feature(name, {split: table.columns[name] for split, table in statistics.items()}) for name in names]


def _feature(name: str, columns: Mapping[str, ColumnStatistics]) -> str:
    first = next(iter(columns.values()))
    kind = type_name(first.type)
    missing = max(column.missing_fraction for column in columns.values())
    distinct = max(MAX_DISTINCT + 1 if c.values.distinct is None else c.values.distinct for c in columns.values())
    cells = "".join(
        _per_split(columns, show) for show in (_missing, _distinct, _zeros, _minimum, _mean, _maximum, _deviation)
    )
    keys = "".join(f"<div>{_key(number, split)}</div>" for number, split in enumerate(columns))
    return (
        f'<tr data-name="{_escape(name)}" data-search="{_escape(f"{name} {kind}".lower())}" data-missing="{missing:.6f}" '
        f'data-distinct="{distinct}"><th scope="row"><bdi>{_escape(name)}</bdi><span class="type">{_escape(kind)}</span></th>'
        f"<td>{chart(columns)}</td><td>{keys}</td>{cells}</tr>"
    )


def _per_split(columns: Mapping[str, ColumnStatistics], show: Callable[[ColumnStatistics], str]) -> str:
    return '<td class="n">' + "".join(f"<div>{show(column)}</div>" for column in columns.values()) + "</td>"


def _missing(column: ColumnStatistics) -> str:
    share = _percent(column.missing, column.present + column.missing)
    return f'<span class="high">{share}</span>' if column.missing_fraction >= _MANY_MISSING else share


def _distinct(column: ColumnStatistics) -> str:
    number = column.values.distinct
    if number is None:
        return f"> {MAX_DISTINCT:,}"
    estimated = isinstance(column.values, TextStatistics) and not column.values.exact
    return f"≈ {number:,}" if estimated else f"{number:,}"


def _zeros(column: ColumnStatistics) -> str:
    values = column.values
    return _percent(values.zeros, column.num_values) if isinstance(values, NumberStatistics) else ""


def _minimum(column: ColumnStatistics) -> str:
    if isinstance(column.values, TextStatistics):
        return f"{column.values.min_bytes:,} B" if column.values.count else "–"
    return number_text(column.values.minimum, column.type)


def _maximum(column: ColumnStatistics) -> str:
    if isinstance(column.values, TextStatistics):
        return f"{column.values.max_bytes:,} B" if column.values.count else "–"
    return number_text(column.values.maximum, column.type)


def _mean(column: ColumnStatistics) -> str:
    values = column.values
    if isinstance(values, TextStatistics):
        return f"{values.total_bytes / values.count:,.1f} B" if values.count else "–"
    return number_text(values.mean if values.count else None, column.type)


def _deviation(column: ColumnStatistics) -> str:
    values = column.values
    if isinstance(values, TextStatistics) or not values.count:
        return ""
    kind = value_type(column.type)
    if pa.types.is_date32(kind):
        return f"{plain_number(values.standard_deviation)} d"
    if pa.types.is_temporal(kind):
        seconds = values.standard_deviation / 1e6
        return f"{plain_number(seconds)} s" if seconds < 86400 else f"{plain_number(seconds / 86400)} d"
    return plain_number(values.standard_deviation)


def _percent(part: int, whole: int) -> str:
    if not part or not whole:
        return "0 %"
    share = 100 * part / whole
    return "< 0.1 %" if share < 0.1 else f"{share:.1f} %" if share < 99.95 or part == whole else "> 99.9 %"


def size_text(size_bytes: int) -> str:
    """Returns a number of bytes as people read it: ``12.3 MiB``."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
