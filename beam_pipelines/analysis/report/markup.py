"""Writes parts of the page as HTML, where every value is escaped.

Templates would take ten times as long. Much of a page of many features is markup. So here the ends
of cells and rows, and quotes around attributes of one word, are left out, as HTML allows: that
halves the page.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence

from beam_pipelines.analysis.description import Figure

SPLIT_COLORS = 6  # in page.css
_SPECIAL = re.compile("[&<>\"']")
BLANK = "<i class=soft>blank</i>"


def escaped(text: str) -> str:
    """Returns a text as HTML; ``escape`` takes five times as long."""
    if not _SPECIAL.search(text):
        return text
    from markupsafe import escape  # as Jinja

    return escape(text)


def anchor(name: str) -> str:
    """Returns the fragment of the page's address that leads to a feature."""
    return f"feature-{urllib.parse.quote(name, safe='')}"


def show_cell(figures: Sequence[Figure]) -> str:
    """Returns a cell of all splits, or of one each, as HTML."""
    if len(figures) == 1:
        return f"<td>{show_figure(figures[0])}\n"
    shown = [
        f'<div class="dot s{number % SPLIT_COLORS}">{show_figure(figure)}\n</div>'
        for number, figure in enumerate(figures)
    ]
    return f"<td>{''.join(shown)}"


def show_figure(figure: Figure) -> str:
    """Returns a figure as HTML."""
    text = escaped(figure.text)
    if figure.end:
        text = f"<span>{text}</span> – <span>{escaped(figure.end)}</span>"
    elif figure.is_high:
        text = f"<b class=high>{text}</b>"
    return f"{text} <small>{escaped(figure.share)}</small>" if figure.share else text
