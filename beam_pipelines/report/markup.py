"""Builds HTML from texts that may hold anything, and tables from cells that are HTML already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from beam_pipelines.figures import show_share

SPLIT_COLORS = 5  # in page.css
_SHOWN_CHARACTERS = 120
_NUMERIC = ' class="n"'


def escape(text: str) -> str:
    """Returns a text as HTML that shows it, between tags and in quoted attributes alike."""
    return html.escape(text, quote=True)


def clipped(text: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """Returns the first characters of a text, with an ellipsis if there are more."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def shown(text: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """Returns a value of the data as HTML: clipped, kept apart from the text around it; a blank one says so."""
    if not text.strip():
        return '<i class="soft">blank</i>'
    return f"<bdi>{escape(clipped(text, characters))}</bdi>"


def share(part: float, whole: float) -> str:
    """Returns a share in per cent as HTML."""
    return escape(show_share(part, whole))


def key(number: int, split: str) -> str:
    """Returns a split's name with its color."""
    return f'<span class="key s{number % SPLIT_COLORS}">{escape(split)}</span>'


def table(heads: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1, label: str = "") -> str:
    """Returns a table; the first cell of a line is its header.

    Args:
      heads: of the columns, as HTML.
      lines: cells as HTML, as many as there are heads.
      texts: number of columns, from the left, that are texts; the others are numbers.
      label: the table's name for those who do not see it; empty if a heading says so.
    """
    kinds = ["" if number < texts else _NUMERIC for number in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{text}</th>' for text, kind in zip(heads, kinds, strict=True))
    body = "".join(
        f'<tr><th scope="row">{line[0]}</th>'
        + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(line[1:], kinds[1:], strict=True))
        + "</tr>\n"
        for line in lines
    )
    name = f' aria-label="{escape(label)}"' if label else ""
    return f"<table{name}><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def section(title: str, content: str, style: str = "") -> str:
    """Returns a titled part of the page; nothing without content."""
    kind = f' class="{style}"' if style else ""
    return f"<section{kind}><h2>{title}</h2>{content}</section>" if content else ""
