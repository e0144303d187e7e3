"""Lines above the table of a CSV file: titles, comments, Excel's ``sep=;``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.csv.cells import are_years, kind, split_text, whole_records
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect

_EXCEL = re.compile(rb"sep=(.)[ \t]*(?:\r\n|\r|\n)", re.IGNORECASE)
# Most lines of titles, and the share of records below that have one number of cells.
_MOST, _LEAST_ALIKE = 30, 0.9
# Kinds of the cells of a column that is no text.
_VALUES = ({"number"}, {"date"})
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Preamble(NamedTuple):
    """Lines above a table.

    Attributes:
      lines: how many; 0: none.
      delimiter: that they name, or ``None``.
      why: the reason, for people.
    """

    lines: int
    delimiter: str | None = None
    why: str = ""


class _Table(NamedTuple):
    """A table below other lines, as one dialect reads it.

    Attributes:
      lines: above the table.
      alike: share of its records with the usual number of cells.
      cells: that number.
    """

    lines: int
    alike: float
    cells: int


def find_preamble(head: bytes, dialects: Iterable[tuple[str, str]]) -> Preamble:
    """Returns the lines above a table.

    They have fewer cells than the records below, or few that are not empty. Names of columns are
    texts, and most cells of their line are not empty. There are none if a dialect reads the text
    as a table from its first line on.

    Args:
      head: beginning of the text, in UTF-8, without a mark.
      dialects: delimiters and quotes that come into question.
    """
    excel = _EXCEL.match(head)
    if excel:
        return Preamble(1, excel[1].decode("latin-1"), "Excel's line 'sep='")
    text = whole_records(head)
    tables = [table for one in dialects if (table := _table(text, *one)) is not None]
    if not tables or not all(table.lines for table in tables):
        return Preamble(0)
    best = max(tables, key=lambda table: (table.alike, table.cells))
    first = text[: line_offset(text, 1)].decode("utf-8", errors="replace").strip()
    lines = f"{best.lines} line{'' if best.lines == 1 else 's'}"
    return Preamble(best.lines, None, f"{lines} above the table, such as {shorten(first, 40)!r}")


def _table(text: bytes, delimiter: str, quote: str) -> _Table | None:
    dialect = Dialect(ord(delimiter), ord(quote) if quote else None)
    toggles = quotes.toggling_quotes(text, OUTSIDE, NEWLINE, dialect)
    starts, ends = quotes.record_spans(text, toggles)
    counts = quotes.count_cells(text, toggles, starts, dialect)[: len(starts)]
    usual = int(np.bincount(counts).argmax()) if len(counts) else 0
    if usual < 2:
        return None
    some = text[: int(ends[: _MOST + 1][-1])].decode("utf-8", errors="backslashreplace")
    rows = split_text(some, delimiter, quote)
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    first = next(
        (
            place
            for place, row in enumerate(rows)
            if len(row) == usual and 2 * filled[place] > usual
        ),
        None,
    )
    if first is None:
        return None
    alike = float(np.mean(counts[first:] == usual))
    if first and (alike < _LEAST_ALIKE or not _are_above(rows, filled, first)):
        return None
    lines = len(_LINE_END.findall(text[: int(starts[first])])) if first else 0
    return _Table(lines, alike, usual)


def _are_above(rows: Sequence[Sequence[str]], filled: Sequence[int], first: int) -> bool:
    """Whether the rows before ``first`` are above the table.

    Names of columns are texts, and perhaps years behind them. A line that lacks one cell may have
    the names of columns without that of an index, unless there are names below.
    """
    usual, below = len(rows[first]), rows[first + 1 :]
    names = [cell for cell in rows[first] if kind(cell)]
    numbers = [cell for cell in names if kind(cell) != "text"]
    if len(numbers) == len(names) or (numbers and not are_years(numbers)):
        return False
    columns = zip(*(row for row in below if len(row) == usual), strict=True)
    has_names = any({kind(cell) for cell in column} - {""} in _VALUES for column in columns)
    return (has_names or usual > 2) and all(
        2 * number <= usual
        or (len(row) < usual and (has_names or len(row) < usual - 1))
        or row[0].startswith("#")
        for row, number in zip(rows[:first], filled, strict=False)
    )


def line_offset(text: bytes, number: int) -> int:
    """Returns where the lines after the first ``number`` begin."""
    if number == 0:
        return 0
    for count, end in enumerate(_LINE_END.finditer(text), start=1):
        if count == number:
            return end.end()
    return len(text)


def cut_preamble(body: blocks.Body, source: Source) -> blocks.Body:
    """Returns a body without the lines above its file's table."""
    skipped = source.options_of(CsvOptions).skip_lines
    if not skipped or not body.begins_file:
        return body
    offset = line_offset(body.data, skipped)
    return body._replace(offset=body.offset + offset, data=body.data[offset:])
