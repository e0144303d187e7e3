"""Refuses tables with unusual delimiters, and asks for the delimiter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.csv.cells import kind, split_text
from beam_pipelines.sources.csv.header import named

# Characters that texts hardly have, and one that they often have.
_RARE, _COMMON = ("^", "~", "\x01", "\x1f"), ":"
# Delimiters of two characters, which no option takes.
_DOUBLE = ("::", "||")
_NAME = re.compile(r"[^\W\d][\w ./-]*")
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})*(?:[.,][0-9]+)?")
# Lines that are looked at, and the least of them; cells between blanks.
_LINES, _LEAST, _LEAST_CELLS = 200, 3, 3
_WRITE = "Write it with commas, for example: "


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
    lines = lines[:_LINES]
    if len(lines) < _LEAST or all(_is_value(line) for line in lines[1:]):
        return
    for mark in _DOUBLE:
        rows = [line.split(mark) for line in lines]
        if _is_even(rows, 2):
            raise _question(path, lines[1], len(rows[0]), f'"{mark}"', _split(mark, rows))
    if not is_one_column:
        return
    for mark in (*_RARE, _COMMON):
        rows = split_text("\n".join(lines), mark, '"')
        if _is_even(rows, 2) and (mark != _COMMON or (_has_names(rows[0]) and _has_values(rows))):
            shown = f'"{mark}"' if mark.isprintable() else f'"\\x{ord(mark):02x}"'
            raise _question(path, lines[1], len(rows[0]), shown, f"Set 'delimiter: {shown}'")
    if (found := _between_blanks(lines, path.rpartition("/")[2])) is not None:
        raise _question(path, lines[1], found[0], "blanks", found[1])


def _split(mark: str, rows: Sequence[Sequence[str]]) -> str:
    """Returns the lines of a recipe that split lines into columns."""
    is_header = _has_names(rows[0]) and len({*rows[0]}) == len(rows[0]) and _has_values(rows)
    names = rows[0] if is_header else [f"column{place + 1}" for place in range(len(rows[0]))]
    cells = zip(*rows[1:], strict=True)
    columns = ", ".join(
        f"{yaml_text(name)}: \"string_split(line, '{mark}')[{place}]"
        f'{"::BIGINT" if all(map(_WHOLE.fullmatch, own)) else ""}"'
        for place, (name, own) in enumerate(zip(names, cells, strict=True), start=1)
    )
    header = f", 'filter: line <> '{mark.join(names)}''" if is_header else ""
    return (
        f"Set 'format: lines' of the source, and 'derive: {{{columns}}}'{header} and "
        "'drop: [line]' of the recipe"
    )


def _between_blanks(lines: Sequence[str], name: str) -> tuple[int, str] | None:
    """Returns the number of cells between blanks, and what reads them.

    Args:
      lines: of the file; the first one may lack the name of the first column, as R writes it.
      name: of the file.
    """
    given = ""
    if is_marked := lines[0].startswith("# "):  # as NumPy writes it
        lines = [lines[0].lstrip("# "), *lines[1:]]
        given = f", skiprows=1, names={lines[0].split()}"
    read = f"pandas.read_csv({name!r}, sep=r'\\s+'{given})"
    write = ".to_csv('new.csv', index=False)"
    is_single = not any("  " in line or "\t" in line or line != line.strip() for line in lines)
    rows = split_text("\n".join(lines), " ", '"') if is_single else [line.split() for line in lines]
    if _is_even(rows, _LEAST_CELLS) and _has_values(rows):
        names = f", {named(rows[0])}" if is_marked else ""
        cure = f"""Set 'delimiter: " "'{names}""" if is_single else _WRITE + read + write
        return len(rows[0]), cure
    places = _fixed_places(lines)
    fixed = [[line[start:end].strip() for start, end in places] for line in lines]
    is_table = all(sum(map(bool, row)) > 1 for row in fixed)
    if len(places) >= _LEAST_CELLS and is_table and _has_values(fixed):
        return len(places), f"{_WRITE}pandas.read_fwf({name!r}, colspecs={places}){write}"
    if _is_even(rows[1:], _LEAST_CELLS) and len(rows[0]) == len(rows[1]) - 1 and _has_values(rows):
        return len(rows[1]), f"{_WRITE}{read}.to_csv('new.csv', index_label='row')"
    return None


def _fixed_places(lines: Sequence[str]) -> list[tuple[int, int | None]]:
    """Returns where cells of fixed width begin and end.

    They begin where all lines have blanks before it, each below a name: there are blanks within
    cells, too.
    """
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    is_blank = ["".join(column).isspace() for column in zip(*padded, strict=True)]
    runs = [list(run) for _, run in itertools.groupby(range(width), is_blank.__getitem__)]
    runs = [run for run in runs if not is_blank[run[0]]]
    starts = [run[0] for run in runs if lines[0][run[0] : run[-1] + 1].strip()]
    if starts[:1] != runs[0][:1]:  # the first cells have no name
        return []
    return [*zip(starts, [*starts[1:], None], strict=True)]


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
