"""Refuses tables with unusual delimiters, and asks for the delimiter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sources.csv.cells import kind, split_text
from beam_pipelines.sources.csv.header import named

# Delimiters of two characters, which no option takes; characters that texts hardly have; and one
# that they often have.
_DOUBLE, _RARE, _COMMON = ("::", "||"), ("^", "~", "\x01", "\x1f"), ":"
_NAME = re.compile(r"[^\W\d][\w ./-]*")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})*(?:[.,][0-9]+)?")
# Lines that are looked at, and the least of them; cells between blanks.
_LINES, _LEAST, _LEAST_CELLS = 200, 3, 3


def check_delimiter(text: bytes, path: str, is_one_column: bool) -> None:
    """Checks that a column has no cells between unusual characters.

    Args:
      text: the beginning of the table, in whole lines.
      path: for the message.
      is_one_column: whether usual delimiters make one column of it; else between bars.

    Raises:
      DataError: they are.
    """
    lines = [line for line in text.decode("utf-8", errors="replace").splitlines() if line.strip()]
    lines, name = lines[:_LINES], path.rpartition("/")[2]
    if len(lines) < _LEAST or all(_is_value(line) for line in lines[1:]):
        return
    for mark in _DOUBLE:
        rows = [line.split(mark) for line in lines]
        if _is_even(rows, 2):
            is_header = _has_names(rows[0]) and _has_values(rows)
            more = ")" if is_header else ", header=None).add_prefix('column')"
            read = f"pandas.read_csv({name!r}, sep={re.escape(mark)!r}, engine='python'{more}"
            raise _question(path, lines[1], len(rows[0]), f'"{mark}"', _written(read))
    if not is_one_column:
        return
    for mark in (*_RARE, _COMMON):
        rows = split_text("\n".join(lines), mark, '"')
        if _is_even(rows, 2) and (mark != _COMMON or (_has_names(rows[0]) and _has_values(rows))):
            shown = f'"{mark}"' if mark.isprintable() else f'"\\x{ord(mark):02x}"'
            raise _question(path, lines[1], len(rows[0]), shown, f"Set 'delimiter: {shown}'")
    given, keys = "", ""
    if lines[0].startswith("# "):  # as NumPy writes it
        lines = [lines[0].lstrip("# "), *lines[1:]]
        names = lines[0].split()
        given, keys = f", skiprows=1, names={names}", f", {named(names)}"
    is_single = not any("  " in line or "\t" in line or line != line.strip() for line in lines)
    rows = split_text("\n".join(lines), " ", '"') if is_single else [line.split() for line in lines]
    read = f"pandas.read_csv({name!r}, sep=r'\\s+'{given})"
    if _is_even(rows, _LEAST_CELLS) and _has_values(rows):
        cure = f"""Set 'delimiter: " "'{keys}""" if is_single else _written(read)
        raise _question(path, lines[1], len(rows[0]), "blanks", cure)
    # R writes no name for the names of rows.
    is_r = (is_single or lines[0][:1] == " ") and len(rows[0]) == len(rows[1]) - 1
    if is_r and _is_even(rows[1:], _LEAST_CELLS) and _has_values(rows):
        cure = _written(read, "index_label='row'")
        raise _question(path, lines[1], len(rows[1]), "blanks", cure)
    number = 0 if is_single else _fixed_columns(lines)
    if number >= _LEAST_CELLS:
        read = f"pandas.read_fwf({name!r})"
        raise _question(path, lines[1], number, "blanks", _written(read))


def _written(read: str, index: str = "index=False") -> str:
    """Returns the line of Python that writes a table with commas."""
    return f"Write it with commas, for example: {read}.to_csv('new.csv', {index})"


def _fixed_columns(lines: Sequence[str]) -> int:
    """Returns how many columns have blanks between them in all lines."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    is_blank = ["".join(column).isspace() for column in zip(*padded, strict=True)]
    return sum(not blank for blank, _ in itertools.groupby(is_blank))


def _is_value(line: str) -> bool:
    """Whether a line is a date, or a number with blanks."""
    return kind(line) == "date" or _GROUPED.fullmatch(line.strip()) is not None


def _is_even(rows: Sequence[Sequence[str]], least: int) -> bool:
    return len(rows[0]) >= least and {len(row) for row in rows} == {len(rows[0])}


def _has_names(cells: Sequence[str]) -> bool:
    return all(_NAME.fullmatch(cell.strip()) for cell in cells)


def _has_values(rows: Sequence[Sequence[str]]) -> bool:
    """Whether half of the columns have numbers or dates."""
    columns = list(zip(*rows[1:], strict=True))
    values = sum(all(kind(cell) != "text" for cell in column) for column in columns)
    return 2 * values >= len(columns)


def _question(path: str, line: str, cells: int, shown: str, cure: str) -> DataError:
    return DataError(
        f"{path}: found {cells} cells between {shown} in every line, such as "
        f"{shorten(line, 40)!r}; expected commas, semicolons, tabs or bars. {cure}, or set "
        """'delimiter: ","' of the source if each line is one cell."""
    )
