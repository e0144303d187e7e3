"""Lays out the pipeline: sources, joins, filter, splits and shards, with the rows that went from
one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from beam_pipelines.analysis.report.drawing import Box, Edge, across, down, draw
from beam_pipelines.analysis.report.markup import SPLIT_COLORS
from beam_pipelines.analysis.report.values import JoinSummary, Report, SourceSummary
from beam_pipelines.core.formatting import shorten, show_bytes, show_share

_COLUMN, _LINE = 244, 66  # pixels from one box to the next
_CAPTION_CHARACTERS = 2000


class _Flow(NamedTuple):
    """How far the picture has come: what is drawn, the last box of the main flow, the rows that
    leave it, the next column.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    last: Box
    rows: int
    column: int


def picture(report: Report) -> str:
    """Returns the pipeline as an SVG; nothing if it is not known what was read.

    Sources stand on the left. The base source's rows run down through the joins, each beside its
    own source, and from the last one to the right: through the filter to the splits, and on to
    their shards.
    """
    base = next((source for source in report.sources if source.name == report.base), None)
    if base is None:
        return ""
    lines = max(len(report.joins) + 1 if report.joins else 1, len(report.splits))
    middle = (lines - 1) / 2
    start = Box(0, 0 if report.joins else middle * _LINE, base.name, _source_note(base), "source")
    flow = _Flow((start,), (), start, base.rows, 1)
    if report.joins:
        flow = _joined(flow, report)
    if report.filter or report.filtered:
        flow = _filtered(flow, report, middle)
    flow = _split(flow, report, (lines - len(report.splits)) / 2)
    return draw(
        flow.boxes, flow.edges, shorten(" ".join(_sentences(report, base)), _CAPTION_CHARACTERS)
    )


def _joined(flow: _Flow, report: Report) -> _Flow:
    sources = {source.name: source for source in report.sources}
    boxes = {report.base: flow.last}
    edges, joins, last, rows = [], [], flow.last, flow.rows
    for number, join in enumerate(report.joins, 1):
        y = number * _LINE
        if join.source not in boxes:  # a source that is joined again keeps its place
            boxes[join.source] = Box(
                0, y, join.source, _source_note(sources[join.source]), "source"
            )
        step = Box(flow.column * _COLUMN, y, f"{join.how} join", _join_note(join), "step")
        edges += [
            across(boxes[join.source], step, sources[join.source].rows),
            down(last, step, rows),
        ]
        rows += join.added - join.dropped
        joins.append(step)
        last = step
    return _Flow((*boxes.values(), *joins), tuple(edges), last, rows, flow.column + 1)


def _filtered(flow: _Flow, report: Report, line: float) -> _Flow:
    note = report.filter or f"{report.filtered:,} left out"
    step = Box(flow.column * _COLUMN, line * _LINE, "filter", note, "step")
    edges = (*flow.edges, across(flow.last, step, flow.rows))
    return _Flow((*flow.boxes, step), edges, step, flow.rows - report.filtered, flow.column + 1)


def _split(flow: _Flow, report: Report, top: float) -> _Flow:
    boxes, edges = list(flow.boxes), list(flow.edges)
    for number, (name, split) in enumerate(report.splits.items()):
        color = f"s{number % SPLIT_COLORS}"
        x, y = flow.column * _COLUMN, (top + number) * _LINE
        box = Box(x, y, name, f"{show_share(split.rows, flow.rows)} of the rows", f"split {color}")
        boxes.append(box)
        edges.append(across(flow.last, box, split.rows, color))
        if split.shards:
            title = f"{split.shards:,} shard{'s' * (split.shards != 1)}"
            note = show_bytes(split.size_bytes) + " in all" * (split.shards != 1)
            shards = Box(x + _COLUMN, y, title, note, "shards", min(3, split.shards))
            boxes.append(shards)
            edges.append(across(box, shards, split.rows, color))
    return flow._replace(boxes=tuple(boxes), edges=tuple(edges))


def _source_note(source: SourceSummary) -> str:
    size = show_bytes(source.size_bytes)
    if source.rejected:
        return f"{size}, {source.rejected:,} rejected"
    return size if source.files == 1 else f"{source.files:,} files, {size}"


def _join_note(join: JoinSummary) -> str:
    return f"{join.dropped:,} rows dropped" if join.dropped else f"on {join.on}"


def _sentences(report: Report, base: SourceSummary) -> Iterator[str]:
    """Yields the picture in words."""
    yield f"{base.rows:,} rows of source {base.name}."
    for join in report.joins:
        yield (
            f"{join.how.capitalize()} join with {join.source}: {join.matched:,} matched, "
            f"{join.unmatched:,} not."
        )
    if report.filtered:
        yield f"The filter left out {report.filtered:,}."
    for name, split in report.splits.items():
        shards = f" in {split.shards:,} shard{'s' * (split.shards != 1)}" if split.shards else ""
        yield f"Split {name}: {split.rows:,} rows{shards}."
