"""Draws the speed chart of the README, for light and dark pages.

  python benchmarks/draw_speed.py

The figures are in benchmarks/speed.json, each group with the page that has its table.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE.parent / "docs" / "images"
COLORS = {
    "light": {"text": "#1f2328", "ours": "#0969da", "other": "#afb8c1"},
    "dark": {"text": "#e6edf3", "ours": "#4493f8", "other": "#5b636d"},
}
WIDTH, NAME_WIDTH, BAR_WIDTH = 760, 190, 470
LINE, TITLE, GAP = 22, 30, 16


def main() -> None:
    """Writes both pictures."""
    groups = json.loads((HERE / "speed.json").read_text())
    for theme in COLORS:
        (IMAGES / f"speed-{theme}.svg").write_text(chart(groups, theme))


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
