"""Refuses tables with unusual delimiters, and asks for the delimiter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sources.csv.cells import kind, split_text

# Characters that texts hardly have, and one that they often have.
_RARE, _COMMON = ("^", "~", "\x01", "\x1f"), ":"
_NAME = re.compile(r"[^\W\d][\w ./-]*")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})*(?:[.,][0-9]+)?")
# Lines that are looked at, and the least of them; cells between blanks.
_LINES, _LEAST, _LEAST_CELLS = 200, 3, 3


def check_delimiter(text: bytes, path: str) -> None:
    """Checks that a column has no cells between unusual characters.

    Args:
      text: the beginning of the table, in whole lines.
      path: for the message.

    Raises:
      DataError: they are.
    """
    lines = [line for line in text.decode("utf-8", errors="replace").splitlines() if line.strip()]
    lines = lines[:_LINES]
    if len(lines) < _LEAST or all(_is_value(line) for line in lines[1:]):
        return
    for mark in (*_RARE, _COMMON):
        rows = split_text("\n".join(lines), mark, '"')
        if _is_even(rows, 2) and (mark != _COMMON or (_has_names(rows[0]) and _has_values(rows))):
            shown = f'"{mark}"' if mark.isprintable() else f'"\\x{ord(mark):02x}"'
            raise _question(path, lines[1], len(rows[0]), shown, f"Set 'delimiter: {shown}'")
    rows = [line.split() for line in lines]
    if _is_even(rows, _LEAST_CELLS) and _has_values(rows):
        cure = """Set 'delimiter: " "'"""
        if any("  " in line or "\t" in line or line != line.strip() for line in lines):
            name = path.rpartition("/")[2]
            cure = (
                "Write it with commas, for example: "
                f"pandas.read_csv({name!r}, sep=r'\\s+').to_csv('new.csv', index=False)"
            )
        raise _question(path, lines[1], len(rows[0]), "blanks", cure)


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
