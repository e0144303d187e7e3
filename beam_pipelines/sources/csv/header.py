"""The names of a CSV file's columns, and the lines above."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list
from beam_pipelines.sources.csv.parser import split_cells
from beam_pipelines.sources.csv.sniffer import are_years, kind, split_text, whole_records
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.source_format import MUST_AGREE
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect

_VALUES = ({"number"}, {"date"})
# The name of a first column without one: pandas writes its index so.
INDEX = "index"


def names_of(cells: tuple[str, ...], source: Source) -> tuple[str, ...]:
    """Returns the columns' names by the cells of a header.

    With ``header: true`` they are the cells. Else blanks around names and a ``#`` before the first
    are left out, and columns without a name have a number: ``column3``; a first one is ``index``.
    """
    if source.options_of(CsvOptions).header is not None:
        return cells
    names = [cell.strip() for cell in cells]
    names[:1] = [name.lstrip("# ") or name for name in names[:1]]
    for place in nameless(cells) if len(cells) > 1 else ():
        name = f"column{place + 1}" if place else INDEX
        names[place] = "" if name in names else name
    return tuple(names)


def nameless(cells: Sequence[str]) -> list[int]:
    """Returns the places of columns without a name, from 0."""
    return [place for place, cell in enumerate(cells) if not cell.strip()]


def named(names: Sequence[str], skipped: int = 0) -> str:
    """Returns the keys that name all columns, for a message.

    Args:
      names: of the columns.
      skipped: lines above the header.
    """
    return f"'header: false', 'skip_lines: {skipped + 1}' and 'columns: {yaml_list(names)}'"


def check_second(
    rows: Sequence[Sequence[str]], names: Sequence[str], path: str, skipped: int
) -> None:
    """Checks that the line below the names has no more of them.

    Args:
      rows: the first ones, with that of the names.
      names: of the columns.
      path: of the file.
      skipped: lines above the names.

    Raises:
      DataError: it has texts, such as units, above numbers or dates alone.
    """
    if sum(kind(cell) == "text" for row in rows[1:2] for cell in row) < 2:  # most tables
        return
    columns = zip(*(row for row in rows[1:] if len(row) == len(rows[1])), strict=True)
    kinds = [[kind(cell) for cell in column] for column in columns]
    above = [own for own, *below in kinds if len(below) > 1 and {*below} - {""} in _VALUES]
    if above.count("text") > 1 and {*above} <= {"text", ""}:
        raise DataError(
            f"{path}, line {skipped + 2}: found {shorten(', '.join(rows[1]), 60)} above numbers or "
            "dates, expected values. If they are units, types or names again, set "
            f"{named(names, skipped + 1)}; set 'header: true' of the source if they are a row."
        )


def cut_header(
    body: blocks.Body, dialect: quotes.Dialect, path: str, source: Source
) -> tuple[blocks.Body, tuple[str, ...]]:
    """Cuts the header off a body; returns the rest and the names.

    Raises:
      DataError: no name, or no UTF-8, in the header; a name twice; too many names, or too long a
        one.
    """
    limits = source.limits
    start, end = first_record(body.data, dialect)
    record = body.data[start:end].rstrip(b"\r\n")
    if not blocks.is_utf8(record):
        raise DataError(
            f"{path}, line 1: found bytes in the header that are not UTF-8. Set 'encoding' of the "
            "source, such as cp1252."
        )
    names = names_of(tuple(split_cells(record, dialect)), source)
    if not names:
        raise DataError(
            f"{path}: found no header, but blank lines alone, expected data. Check 'path' of the "
            "source."
        )
    if len(names) > limits.columns:
        raise DataError(f"{path}, line 1: {exceeded(limits, 'columns', f'{len(names):,} columns')}")
    known: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if known.setdefault(name, number) != number:
            distinct = [
                f"column{n}" if one in names[: n - 1] else one for n, one in enumerate(names, 1)
            ]
            skipped = source.options_of(CsvOptions).skip_lines or 0
            raise DataError(
                f"{path}, line 1: found the column name '{shorten(name)}' twice, as columns "
                f"{known[name]} and {number}; "
                "expected every name once. Rename one of them in the file, or set "
                f"{named(distinct, skipped)} of the source."
            )
    end = end_of_ruler(body.data, end)
    return body._replace(offset=body.offset + end, data=body.data[end:]), names


def end_of_ruler(data: bytes, end: int) -> int:
    """Returns where rows begin, behind a line of dashes, if any.

    Clients of databases draw such a line, and so do tables of Markdown and SAP.

    Args:
      data: text with a header.
      end: of the header's line.
    """
    below = data[end : (data.find(b"\n", end) + 1) or None]
    is_ruler = b"---" in below and not below.strip(b"-+|:=,;\t \r\n")
    return end + len(below) if is_ruler else end


def first_record(data: bytes, dialect: quotes.Dialect) -> tuple[int, int]:
    """Returns where the first record begins and ends; scans no further."""
    length = 4096
    while True:
        head = data[:length]
        toggles = quotes.toggling_quotes(head, quotes.OUTSIDE, quotes.NEWLINE, dialect)
        starts, ends = quotes.record_spans(head, toggles)
        if len(starts) and (ends[0] < len(head) or length >= len(data)):
            return int(starts[0]), int(ends[0])
        if length >= len(data):
            return 0, 0
        length *= 4


def equal_lines(data: bytes, record: bytes) -> list[int]:
    """Returns where lines begin that are a record, which may be megabytes.

    A regular expression of a record takes a hundred times its memory.
    """
    text, line = b"\n" + data, b"\n" + record
    starts, place = [], text.find(line)
    while place >= 0:
        end = place + len(line)
        if text[end : end + 1] == b"\n" or text[end : end + 2] in (b"", b"\r", b"\r\n"):
            starts.append(place)
        place = text.find(line, end)
    return starts


def cut_top(
    body: blocks.Body, source: Source, dialect: Dialect, path: str, first: tuple[str, Sequence[str]]
) -> blocks.Body:
    """Returns a body without its header and the lines above.

    Args:
      body: of a file.
      source: with its dialect.
      dialect: delimiter and quote.
      path: of the file.
      first: path of the source's first file, and its columns.

    Raises:
      DataError: the file has other columns; the message names both files.
    """
    options, (first_path, names) = source.options_of(CsvOptions), first
    if not body.begins_file:
        return body
    offset = line_offset(body.data, options.skip_lines or 0)
    body = body._replace(offset=body.offset + offset, data=body.data[offset:])
    if options.header is False:
        return body
    body, header = cut_header(body, dialect, path, source)
    if header == names:
        return body
    difference = f"found {len(header)} columns, expected {len(names)}"
    for number, (found, wanted) in enumerate(zip(header, names, strict=False), start=1):
        if found != wanted:
            difference = f"found column {number} named '{found}', expected '{wanted}'"
            break
    cure = MUST_AGREE
    if [name.casefold() for name in header] == [name.casefold() for name in names]:
        cure = f"Write the names alike, or set {named(names)}, if no line is above them."
    raise DataError(f"{path}: {difference} as in {first_path}. {cure}")


_EXCEL = re.compile(rb"sep=(.)[ \t]*(?:\r\n|\r|\n)", re.IGNORECASE)
# Most lines of titles, and the share of records below that have one number of cells.
_MOST, _LEAST_ALIKE = 30, 0.9
_LINE_END = re.compile(rb"\r\n|\r|\n")


def find_preamble(head: bytes, dialects: Iterable[tuple[str, str]]) -> tuple[int, str | None, str]:
    """Finds the lines above a table.

    They have fewer cells than the records below, or few that are not empty. Names of columns are
    texts, and most cells of their line are not empty. There are none if a dialect reads the text
    as a table from its first line on.

    Args:
      head: beginning of the text, in UTF-8, without a mark.
      dialects: delimiters and quotes that come into question.

    Returns:
      How many there are; the delimiter that they name, or ``None``; the reason, for people.
    """
    excel = _EXCEL.match(head)
    if excel:
        return 1, excel[1].decode("latin-1"), "Excel's line 'sep='"
    text = whole_records(head)
    tables = [table for one in dialects if (table := _table(text, *one)) is not None]
    if not tables or not all(lines for *_, lines in tables):
        return 0, None, ""
    *_, number = max(tables)
    first = text[: line_offset(text, 1)].decode("utf-8", errors="replace").strip()
    lines = f"{number} line{'' if number == 1 else 's'}"
    return number, None, f"{lines} above the table, such as {shorten(first, 40)!r}"


def _table(text: bytes, delimiter: str, quote: str) -> tuple[float, int, int] | None:
    """Finds a table, perhaps below other lines.

    Returns:
      The share of its records with the usual number of cells, that number, and the number of lines
      above.
    """
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
    whole = [n for n, row in enumerate(rows) if len(row) == usual and 2 * filled[n] > usual]
    if not whole:
        return None
    first = whole[0]
    alike = float(np.mean(counts[first:] == usual))
    # Comments show where a table begins, whatever is below it.
    least = 0.5 if all(row[0].startswith("#") for row in rows[:first]) else _LEAST_ALIKE
    if first and (alike < least or not _are_above(rows, filled, first)):
        return None
    lines = len(_LINE_END.findall(text[: int(starts[first])])) if first else 0
    return alike, usual, lines


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
    end = next(itertools.islice(_LINE_END.finditer(text), number - 1, None), None)
    return end.end() if end else len(text)
