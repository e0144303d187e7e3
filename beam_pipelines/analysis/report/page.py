"""Renders the page: its frame, and what stands above the features."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import string
from collections.abc import Mapping, Sequence

from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.report.features import feature_id, show_features
from beam_pipelines.analysis.report.images import show_images
from beam_pipelines.analysis.report.markup import escape, key, section, share, shown, table
from beam_pipelines.analysis.report.picture import picture
from beam_pipelines.analysis.report.values import ERROR, JoinSummary, Report, SourceSummary, errors
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.core.version import __version__

_MOST_ROWS = 200
_MOST_REJECTED = 10


def render_report(report: Report) -> str:
    """Returns the page as HTML: self-contained, the same bytes for the same report, every value
    escaped.

    A content security policy forbids the browser to load anything, and to run any script but the
    page's own.
    """
    script = _file("page.js")
    # The browser compares with the text between the tags: with the line break after the first one.
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    features = show_features(report)
    return string.Template(_file("page.html")).substitute(
        script_hash=f"sha256-{digest}",
        style=_file("page.css"),
        script=script,
        name=escape(report.name),
        summary=_summary(report, len(features)),
        figures=_figures(report),
        anomalies=_anomalies(report),
        pipeline=_pipeline(report),
        tables="\n".join(
            filter(None, (_splits(report), _sources(report.sources), _joins(report.joins)))
        ),
        rejected=_rejected(report.rejected, sum(source.rejected for source in report.sources)),
        images=section("Some images", show_images(report.images, report.statistics)),
        legend=" ".join(key(number, split) for number, split in enumerate(report.statistics)),
        shown=f"{len(features):,}",
        drift_style="" if report.baseline or len(report.statistics) > 1 else " only-one",
        features="\n".join(features),
        footer=f"Written by beam-pipelines {escape(__version__)}. This page is one file and loads "
        "nothing.",
    )


def _file(name: str) -> str:
    return (
        importlib.resources.files("beam_pipelines.analysis.report")
        .joinpath(name)
        .read_text("utf-8")
    )


def _rows(report: Report) -> int:
    return sum(statistics.rows for statistics in report.statistics.values())


def _summary(report: Report, features: int) -> str:
    splits = len(report.statistics)
    label = f" · label <bdi>{escape(report.label)}</bdi>" if report.label else ""
    return f"{features:,} features in {splits:,} split{'s' * (splits != 1)}{label}"


def _figures(report: Report) -> str:
    figures = [("rows", f"{_rows(report):,}")]
    shards = [size for split in report.splits.values() for size in split.shard_bytes]
    if shards:
        figures += [("shards", f"{len(shards):,}"), ("in all shards", show_bytes(sum(shards)))]
    figures.append(("rows filtered out", f"{report.filtered:,}"))
    figures.append(("rows rejected", _alarming(sum(source.rejected for source in report.sources))))
    wrong = errors(report.anomalies)
    figures.append(("anomalies", _alarming(wrong)))
    if len(report.anomalies) > wrong:
        figures.append(("accepted anomalies", f"{len(report.anomalies) - wrong:,}"))
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)


def _alarming(number: int) -> str:
    return f'<span class="high">{number:,}</span>' if number else "0"


def _anomalies(report: Report) -> str:
    if not report.anomalies:
        return section("Anomalies", '<p class="good none">None: the data fits the schema.</p>')
    columns = next(iter(report.statistics.values())).columns if report.statistics else {}
    places = {name: feature_id(number) for number, name in enumerate(columns)}
    splits: dict[Row, list[str]] = {}  # what is wrong in several splits is said once
    for row in report.anomalies:
        splits.setdefault(row._replace(split=""), []).append(row.split)
    order = {row.feature: number for number, row in reversed(list(enumerate(splits)))}
    lines = [
        [
            _link(row.feature, places),
            shown(row.what)
            + ("" if row.severity == ERROR else '<span class="badge">accepted</span>'),
            *(shown(cell) for cell in (", ".join(names), row.expected, row.found)),
        ]
        for row, names in sorted(splits.items(), key=lambda line: order[line[0].feature])[
            :_MOST_ROWS
        ]
    ]
    heads = ("Feature", "What", "Split", "Expected", "Found")
    more = (
        f'<p class="soft">And {len(splits) - _MOST_ROWS:,} more.</p>'
        if len(splits) > _MOST_ROWS
        else ""
    )
    title = f'Anomalies <span class="count">{len(report.anomalies):,}</span>'
    style = "alert" if errors(report.anomalies) else ""
    return section(
        title, _box(table(heads, lines, texts=len(heads), label="Anomalies")) + more, style
    )


def _link(feature: str, places: Mapping[str, str]) -> str:
    """Returns a feature's name, as a link to its place if it has one."""
    name = shown(feature)
    return f'<a href="#{places[feature]}">{name}</a>' if feature in places else name


def _pipeline(report: Report) -> str:
    drawn = picture(report)
    if not drawn:
        return ""
    # It may be wider than the screen: with the focus on it, the arrow keys scroll.
    scrolling = (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="pipeline">{drawn}</div>'
    )
    return section('<span id="pipeline">Pipeline</span>', scrolling)


def _splits(report: Report) -> str:
    written = report.splits
    if not any(split.shards for split in written.values()):
        return ""
    rows = sum(split.rows for split in written.values())
    lines = [
        [
            key(number, name),
            f"{split.rows:,}",
            share(split.rows, rows),
            f"{split.shards:,}",
            show_bytes(split.size_bytes),
            _sizes(split.shard_bytes),
        ]
        for number, (name, split) in enumerate(written.items())
    ]
    heads = ("Split", "Rows", "Share", "Shards", "Size", "A shard")
    return section("Splits", _box(table(heads, lines, label="Splits")))


def _sizes(sizes: Sequence[int]) -> str:
    """Returns the size of the smallest and of the largest shard."""
    if not sizes:
        return "–"
    low, high = show_bytes(min(sizes)), show_bytes(max(sizes))
    return low if low == high else f"{low} – {high}"


def _sources(sources: Sequence[SourceSummary]) -> str:
    lines = [
        [
            shown(source.name),
            f"{source.rows:,}",
            _alarming(source.rejected),
            f"{source.files:,}",
            show_bytes(source.size_bytes),
        ]
        for source in sources
    ]
    heads = ("Source", "Rows read", "Rejected", "Files", "Size")
    return section("Sources", _box(table(heads, lines, label="Sources"))) if lines else ""


def _joins(joins: Sequence[JoinSummary]) -> str:
    counted = [
        field for field in ("dropped", "added") if any(getattr(join, field) for join in joins)
    ]
    lines = [
        [
            shown(join.source),
            escape(f"{join.how}, {join.strategy}"),
            f"{join.matched:,}",
            (
                f"{join.unmatched:,} <span "
                f'class="soft">{share(join.unmatched, join.matched + join.unmatched)}</span>'
            ),
            *(f"{getattr(join, field):,}" for field in counted),
        ]
        for join in joins
    ]
    heads = ("Join with", "How", "Matched", "Unmatched", *(field.capitalize() for field in counted))
    return section("Joins", _box(table(heads, lines, texts=2, label="Joins"))) if lines else ""


def _rejected(rows: Sequence[Rejected], number: int) -> str:
    if not rows:
        return ""
    lines = [
        [
            shown(row.source),
            shown(mask(f"{row.file}, {row.position}")),
            shown(row.column) if row.column else "–",
            shown(row.reason),
        ]
        for row in rows[:_MOST_REJECTED]
    ]
    heads = ("Source", "Where", "Column", "Why")
    title = (
        f'Rejected rows <span class="count">{len(lines):,} of {number:,}; all are in '
        "rejected/</span>"
    )
    return section(
        title, _box(table(heads, lines, texts=len(heads), label="Rejected rows")), "alert"
    )


def _box(content: str) -> str:
    return f'<div class="box">{content}</div>'
