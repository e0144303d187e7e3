"""Lays out the pipeline as boxes and edges, for the template ``diagram.html``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from beam_pipelines.analysis.report.markup import SPLIT_COLORS
from beam_pipelines.core.formatting import show_bytes, show_count, show_share
from beam_pipelines.core.layout.manifest import Counts, Manifest, ManifestSource, ManifestSplit

# In pixels: the size of a box, the distances between the left and upper sides of two boxes.
_WIDTH, _HEIGHT = 156, 46
_COLUMN, _LINE = 244, 66
_THICKEST, _THINNEST = 12.0, 1.5


class Box(NamedTuple):
    """A step of the pipeline.

    Attributes:
      x, y: upper left corner in pixels.
      title, note: two lines of text.
      style: classes of page.css.
      sheets: number of overlapping rectangles.
    """

    x: float
    y: float
    title: str
    note: str
    style: str = ""
    sheets: int = 1

    @property
    def left(self) -> tuple[float, float]:
        """Middle of the left side."""
        return self.x, self.y + _HEIGHT / 2

    @property
    def right(self) -> tuple[float, float]:
        """Middle of the right side."""
        return self.x + _WIDTH, self.y + _HEIGHT / 2


class Edge(NamedTuple):
    """Rows that go from one box to another.

    Attributes:
      path: of SVG.
      label: where the number of rows is shown, in pixels; on the edge or, if ``is_beside``, next
        to it.
      rows: number of rows.
      style: classes of page.css.
    """

    path: str
    label: tuple[float, float]
    rows: int
    style: str = ""
    is_beside: bool = False


@dataclasses.dataclass(frozen=True)
class Diagram:
    """Boxes and edges."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    box_width: ClassVar[int] = _WIDTH
    box_height: ClassVar[int] = _HEIGHT
    margin: ClassVar[int] = 8

    @property
    def width(self) -> float:
        """Width in pixels."""
        return max(box.x for box in self.boxes) + _WIDTH + 2 * self.margin

    @property
    def height(self) -> float:
        """Height in pixels."""
        return max(box.y for box in self.boxes) + _HEIGHT + 2 * self.margin

    def thickness(self, edge: Edge) -> float:
        """Returns an edge's line width in pixels, in proportion to its rows."""
        most = max(1, *(edge.rows for edge in self.edges))
        return max(_THINNEST, _THICKEST * edge.rows / most)


class _Flow(NamedTuple):
    """The part of the diagram that is laid out.

    ``rows`` leave the box ``last`` of the main flow; the next box is in ``column``.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    last: Box
    rows: int
    column: int


def draw_pipeline(manifest: Manifest) -> Diagram | None:
    """Lays out sources, joins, filter, duplicates, splits and shards.

    Returns ``None`` without a base source. Sources are on the left. The rows of the base source go
    down through the joins, each to the right of its source, and from the last join to the right:
    filter, splits, shards. What is filtered before the joins has a box next to the base source.
    """
    recipe, counts = manifest.recipe, manifest.counts
    base = manifest.sources.get(recipe.get("base", ""))
    if base is None:
        return None
    lines = max(len(manifest.joins) + 1 if manifest.joins else 1, len(manifest.splits))
    middle, left_out = (lines - 1) / 2, counts.left_out or 0
    note = f"{left_out:,} left out" if left_out else _source_note(base)
    start = Box(0, 0 if manifest.joins else middle * _LINE, recipe["base"], note, "source")
    flow = _Flow((start,), (), start, base.read - left_out, 1)
    first = counts.filtered_first or 0  # before the joins, others after them
    after = counts.filtered - first
    if first:
        flow = _left_out(flow, "filter", recipe["filter"], first, 0)
    if manifest.joins:
        flow = _joined(flow, manifest)
    if after or (recipe.get("filter") and not first):
        flow = _left_out(flow, "filter", recipe["filter"], after, middle)
    for check, rows in counts.left_out_by.items():
        if rows:
            flow = _left_out(flow, check, f"{rows:,} left out", rows, middle)
    if note := _sample_note(counts):
        rows = (counts.sampled_out or 0) - (counts.repeated or 0)
        flow = _left_out(flow, "sample", note, rows, middle)
    flow = _split(flow, manifest.splits, (lines - len(manifest.splits)) / 2)
    return Diagram(flow.boxes, flow.edges)


def _joined(flow: _Flow, manifest: Manifest) -> _Flow:
    sources, recipe = manifest.sources, manifest.recipe
    boxes = {recipe["base"]: flow.boxes[0]}
    edges, joins, last, rows = list(flow.edges), [], flow.last, flow.rows
    for number, (join, own) in enumerate(zip(manifest.joins, recipe["join"], strict=True), 1):
        y = number * _LINE
        if join.source not in boxes:  # a source that is joined again has its box already
            note = _source_note(sources[join.source])
            boxes[join.source] = Box(0, y, join.source, note, "source")
        keys = (left if left == right else f"{left} = {right}" for left, right in own["on"])
        note = f"{join.dropped:,} rows dropped" if join.dropped else f"on {', '.join(keys)}"
        step = Box(flow.column * _COLUMN, y, f"{join.how} join", note, "step")
        edges += [
            _across(boxes[join.source], step, sources[join.source].read),
            _down(last, step, rows),
        ]
        rows += join.added - join.dropped
        joins.append(step)
        last = step
    new = list(boxes.values())[1:]
    return _Flow((*flow.boxes, *new, *joins), tuple(edges), last, rows, flow.column + 1)


def _left_out(flow: _Flow, name: str, note: str, rows: int, line: float) -> _Flow:
    step = Box(flow.column * _COLUMN, line * _LINE, name, note, "step")
    edges = (*flow.edges, _across(flow.last, step, flow.rows))
    return _Flow((*flow.boxes, step), edges, step, flow.rows - rows, flow.column + 1)


def _sample_note(counts: Counts) -> str:
    added = f"{counts.repeated:,} added" if counts.repeated else ""
    left_out = f"{counts.sampled_out:,} left out" if counts.sampled_out else ""
    return ", ".join(filter(None, (left_out, added)))


def _split(flow: _Flow, splits: Mapping[str, ManifestSplit], top: float) -> _Flow:
    boxes, edges = list(flow.boxes), list(flow.edges)
    for number, (name, split) in enumerate(splits.items()):
        color, count = f"s{number % SPLIT_COLORS}", len(split.shards)
        x, y = flow.column * _COLUMN, (top + number) * _LINE
        box = Box(x, y, name, f"{show_share(split.rows, flow.rows)} of the rows", f"split {color}")
        boxes.append(box)
        edges.append(_across(flow.last, box, split.rows, color))
        if count:
            note = show_bytes(split.bytes) + " in all" * (count != 1)
            title = show_count(count, "shard")
            shards = Box(x + _COLUMN, y, title, note, "shards", min(3, count))
            boxes.append(shards)
            edges.append(_across(box, shards, split.rows, color))
    return flow._replace(boxes=tuple(boxes), edges=tuple(edges))


def _across(start: Box, end: Box, rows: int, style: str = "") -> Edge:
    """Returns the edge from a box's right side to another's left side."""
    (x, y), (to_x, to_y) = start.right, end.left
    bend = (x + to_x) / 2
    path = (
        f"M{x:g} {y:g}H{to_x:g}"
        if y == to_y
        else f"M{x:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}"
    )
    return Edge(path, (bend, (y + to_y) / 2), rows, style)


def _down(start: Box, end: Box, rows: int) -> Edge:
    """Returns the edge to a join's upper side.

    It starts at the base source or at the join above.
    """
    x = end.x + _WIDTH / 2
    if start.x == end.x:
        y = start.y + _HEIGHT
        return Edge(f"M{x:g} {y:g}V{end.y:g}", (x + 12, (y + end.y) / 2), rows, is_beside=True)
    (from_x, y), radius = start.right, 14
    path = f"M{from_x:g} {y:g}H{x - radius:g}Q{x:g} {y:g} {x:g} {y + radius:g}V{end.y:g}"
    return Edge(path, ((from_x + end.x) / 2, y), rows)


def _source_note(source: ManifestSource) -> str:
    size = show_bytes(source.bytes)
    if source.rejected:
        return f"{size}, {source.rejected:,} rejected"
    return size if source.file_count == 1 else f"{source.file_count:,} files, {size}"
