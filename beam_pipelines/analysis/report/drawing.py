"""Draws boxes and the edges between them as SVG, an edge as thick as its rows are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from beam_pipelines.analysis.report.markup import escape
from beam_pipelines.core.formatting import shorten

WIDTH, HEIGHT = 156, 46  # of a box, in pixels
_THICKEST, _THICK, _THINNEST = 12.0, 8.0, 1.5
_MARGIN = 8
# That many characters fit into a box, in its first line and in its second.
_TITLE_CHARACTERS, _NOTE_CHARACTERS = 19, 25


class Box(NamedTuple):
    """A step: its place, two lines of text, how it is drawn (a class of page.css), and on how many
    sheets.
    """

    x: float
    y: float
    title: str
    note: str
    style: str = ""
    sheets: int = 1

    @property
    def left(self) -> tuple[float, float]:
        """Where edges from the left end."""
        return self.x, self.y + HEIGHT / 2

    @property
    def right(self) -> tuple[float, float]:
        """Where edges to the right begin."""
        return self.x + WIDTH, self.y + HEIGHT / 2


class Edge(NamedTuple):
    """A way that rows go: an SVG path, where its label stands (on it or beside it), the number of
    rows, how it is drawn.
    """

    path: str
    label: tuple[float, float]
    rows: int
    style: str = ""
    is_beside: bool = False


def across(start: Box, end: Box, rows: int, style: str = "") -> Edge:
    """Returns the edge from a box's right side to another's left side."""
    (x, y), (to_x, to_y) = start.right, end.left
    bend = (x + to_x) / 2
    path = (
        f"M{x:g} {y:g}H{to_x:g}"
        if y == to_y
        else f"M{x:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}"
    )
    return Edge(path, (bend, (y + to_y) / 2), rows, style)


def down(start: Box, end: Box, rows: int) -> Edge:
    """Returns the edge to a join's upper side: from the base source on its left, or from the join
    above it.
    """
    x = end.x + WIDTH / 2
    if start.x == end.x:
        y = start.y + HEIGHT
        return Edge(f"M{x:g} {y:g}V{end.y:g}", (x + 12, (y + end.y) / 2), rows, is_beside=True)
    (from_x, y), radius = start.right, 14
    path = f"M{from_x:g} {y:g}H{x - radius:g}Q{x:g} {y:g} {x:g} {y + radius:g}V{end.y:g}"
    return Edge(path, ((from_x + end.x) / 2, y), rows)


def draw(boxes: Sequence[Box], edges: Sequence[Edge], caption: str) -> str:
    """Returns a picture of boxes and edges; ``caption`` says it in words."""
    width = max(box.x for box in boxes) + WIDTH + 2 * _MARGIN
    height = max(box.y for box in boxes) + HEIGHT + 2 * _MARGIN
    most = max((edge.rows for edge in edges), default=1)
    parts = [_draw_edge(edge, _thickness(edge, most)) for edge in edges]
    parts += [_draw_box(box) for box in boxes]
    parts += [_draw_label(edge, _thickness(edge, most)) for edge in edges]
    return (
        f'<svg class="picture" viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(caption)}">{"".join(parts)}</svg>'
    )


def _thickness(edge: Edge, most: int) -> float:
    return max(_THINNEST, _THICKEST * edge.rows / max(1, most))


def _draw_edge(edge: Edge, thickness: float) -> str:
    return f'<path class="edge {edge.style}" d="{edge.path}" stroke-width="{thickness:.1f}"/>'


def _draw_label(edge: Edge, thickness: float) -> str:
    style = "rows beside" if edge.is_beside else "rows thin" if thickness < _THICK else "rows"
    return (
        f'<text class="{style}" x="{edge.label[0]:g}" '
        f'y="{edge.label[1] + 4:g}">{edge.rows:,}</text>'
    )


def _draw_box(box: Box) -> str:
    x, y = box.x, box.y
    sheets = "".join(
        f'<rect x="{x + 3 * sheet:g}" y="{y - 3 * sheet:g}" width="{WIDTH}" height="{HEIGHT}" '
        'rx="6"/>'
        for sheet in reversed(range(box.sheets))
    )
    whole = f"<title>{escape(shorten(f'{box.title}: {box.note}', 300))}</title>"
    return (
        f'<g class="{box.style}">{whole}{sheets}'
        f'<text class="title" x="{x + 12:g}" '
        f'y="{y + 20:g}">{escape(shorten(box.title, _TITLE_CHARACTERS))}</text>'
        f'<text class="note" x="{x + 12:g}" '
        f'y="{y + 36:g}">{escape(shorten(box.note, _NOTE_CHARACTERS))}</text></g>'
    )
