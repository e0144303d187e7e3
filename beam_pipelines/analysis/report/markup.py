"""Builds HTML from texts that may hold anything, and tables from cells that are HTML already.

Much of a page of many features is markup. So what HTML lets one leave out is left out of what
stands there for every feature, which halves the page: the ends of cells and rows, quotes around
attributes of one word, and classes that follow from a place.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from beam_pipelines.core.formatting import shorten, show_share

SPLIT_COLORS = 5  # in page.css
_SHOWN_CHARACTERS = 120
_BLANK = "<i class=soft>blank</i>"


def escape(text: str) -> str:
    """Returns a text as HTML that shows it, between tags and in quoted attributes alike."""
    return html.escape(text, quote=True)


def shown(text: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """Returns a value of the data as HTML: clipped, kept apart from the text around it; a blank one
    says so.
    """
    return f"<bdi>{escape(shorten(text, characters))}</bdi>" if text.strip() else _BLANK


def shown_alone(text: str) -> str:
    """Returns a value of the data that has a cell to itself as HTML: clipped; a blank one says
    so.
    """
    return escape(shorten(text, _SHOWN_CHARACTERS)) if text.strip() else _BLANK


def share(part: float, whole: float) -> str:
    """Returns a share in per cent as HTML."""
    return escape(show_share(part, whole))


def key(number: int, split: str) -> str:
    """Returns a split's name with its color."""
    return f'<span class="key s{number % SPLIT_COLORS}">{escape(split)}</span>'


def table(
    heads: Sequence[str],
    lines: Iterable[Sequence[str]],
    texts: int = 1,
    label: str = "",
    cells: int = 1,
) -> str:
    """Returns a table; the first cell of a line is its header.

    Args:
      heads: of the columns, as HTML.
      lines: cells as HTML: one below the first head, ``cells`` below each other one.
      texts: number of columns, from the left, that are texts; the others are numbers.
      label: the table's name for those who do not see it; empty if a heading says so.
      cells: see above.
    """
    wide = "<th>" if cells == 1 else f"<th colspan={cells}>"
    head = f"<th>{heads[0]}" + "".join(f"{wide}{text}" for text in heads[1:])
    # Headers need no scope: beside cells of a line they are the line's, else their column's.
    body = "".join(
        f"<tr><th>{line[0]}" + "".join(f"<td>{cell}" for cell in line[1:]) + "\n" for line in lines
    )
    kind = "" if texts == 1 else " class=texts" if texts == len(heads) else f" class=texts{texts}"
    name = f' aria-label="{escape(label)}"' if label else ""
    return f"<table{kind}{name}><thead><tr>{head}<tbody>\n{body}</table>"


def section(title: str, content: str, style: str = "") -> str:
    """Returns a titled part of the page; nothing without content."""
    kind = f' class="{style}"' if style else ""
    return f"<section{kind}><h2>{title}</h2>{content}</section>" if content else ""
