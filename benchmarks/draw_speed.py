"""Draws the README's speed chart, and writes figures into pages.

  python benchmarks/draw_speed.py

Figures of conversions are in the tables of docs/performance.md. A page has each of its own between
marks, such as ``<!--of:PySpark|rows/s-->18,467<!---->``: the row of a table, the column, and, if a
cell has several numbers, the place of one. A row and a column are named by how they begin, with _
for spaces. The other bars are in benchmarks/speed.json, each group with the page of its table.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent / "docs" / "performance.md"
PAGES = ("README.md", "docs/choosing.md", "docs/from_tfx.md")
MARKED = re.compile(r"<!--of:([^>]+)-->(.*?)<!---->")
IMAGES = HERE.parent / "docs" / "images"
COLORS = {
    "light": {"text": "#1f2328", "ours": "#0969da", "other": "#afb8c1"},
    "dark": {"text": "#e6edf3", "ours": "#4493f8", "other": "#5b636d"},
}
WIDTH, NAME_WIDTH, BAR_WIDTH = 760, 190, 470
LINE, TITLE, GAP = 22, 30, 16


def main() -> None:
    """Writes both pictures and the pages."""
    groups = read_groups()
    for theme in COLORS:
        (IMAGES / f"speed-{theme}.svg").write_text(chart(groups, theme))
    for page in map(HERE.parent.joinpath, PAGES):
        page.write_text(filled(page.read_text(), SOURCE.read_text()))


def read_groups() -> list[dict[str, Any]]:
    """Returns the groups of speed.json, each bar with its ``value``."""
    groups: list[dict[str, Any]] = json.loads((HERE / "speed.json").read_text())
    source = SOURCE.read_text()
    for bar in (bar for group in groups for bar in group["bars"] if "of" in bar):
        bar["value"] = int(figure(bar["of"], source).replace(",", ""))
    return groups


def filled(text: str, source: str) -> str:
    """Returns a page's text with the source's figures between its marks."""
    return MARKED.sub(lambda mark: f"<!--of:{mark[1]}-->{figure(mark[1], source)}<!---->", text)


def figure(name: str, source: str) -> str:
    """Returns a number of a table as it is written.

    Args:
      name: row, column and perhaps place, as in the marks.
      source: text with tables in Markdown.

    Raises:
      KeyError: not one row of the tables with that column begins so, or it has no such number.
    """
    row, column, place = (*name.replace("_", " ").split("|"), "0")[:3]
    heads: list[str] = []
    found = []
    for line in source.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if not heads or not cells:
            heads = cells
        elif cells[0].startswith(row):
            found += [
                cell
                for head, cell in zip(heads, cells, strict=True)
                if head.startswith(column) and cell
            ]
    numbers = re.findall(r"\d[\d,.]*(?<=\d)", found[0]) if len(found) == 1 else []
    if len(numbers) <= int(place):
        raise KeyError(f"{name}: found {found}, expected one cell with {int(place) + 1} numbers")
    return numbers[int(place)]


def chart(groups: list[dict[str, Any]], theme: str) -> str:
    """Returns the SVG of all groups, one below the other.

    Args:
      groups: each has a ``title`` and ``bars``, of ``name``, ``value`` and, of ours, ``ours``.
      theme: a key of ``COLORS``.
    """
    colors, parts, top = COLORS[theme], [], 0
    for group in groups:
        title = f"<tspan font-weight='bold'>{escape(group['title'])}</tspan>"
        parts.append(text(0, top + 18, title))
        top += TITLE
        largest = max(bar["value"] for bar in group["bars"])
        for bar in group["bars"]:
            width = max(1, round(BAR_WIDTH * bar["value"] / largest))
            box = f"x='{NAME_WIDTH}' y='{top + 2}' width='{width}' height='16' rx='2'"
            parts += [
                text(0, top + 14, escape(bar["name"])),
                f"<rect {box} fill='{colors['ours' if bar.get('ours') else 'other']}'/>",
                text(NAME_WIDTH + width + 6, top + 14, f"{bar['value']:,}"),
            ]
            top += LINE
        top += GAP
    size = f"viewBox='0 0 {WIDTH} {top}' width='{WIDTH}' height='{top}'"
    font = f"font-family='sans-serif' font-size='13' fill='{colors['text']}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {font}>"
    return "\n".join([head, *parts, "</svg>\n"])


def text(left: int, bottom: int, shown: str) -> str:
    """Returns a line of text at a place."""
    return f"<text x='{left}' y='{bottom}'>{shown}</text>"


if __name__ == "__main__":
    main()
