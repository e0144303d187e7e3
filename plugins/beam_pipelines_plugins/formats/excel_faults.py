"""Cells of a sheet that calamine takes for empty ones.

It gives errors such as #N/A, and formulas without a value, like empty cells. Their places are read
from the file's own XML; those of .xls by xlrd.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from xml.parsers import expat

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits, exceeds_ratio, ratio_exceeded

# Row and column, from 0 -> text of the error.
Faults = dict[tuple[int, int], str]
NO_VALUE = "a formula without a value"
# Of an unpacked workbook, which is held in memory.
MOST_BYTES = 1024 * MIB
# Cells that a sheet spans, empty ones included: calamine makes all of them.
MOST_CELLS = 64 * MIB
_COLUMN = re.compile(rb"r=[\"']([A-Z]{1,3})[0-9]")
_ROW = re.compile(rb"r=[\"'][A-Z]{1,3}([0-9]{1,7})[\"']")
# Of errors and formulas. A search for each takes a fifth of the time of a regular expression.
_SUSPECTS = (b't="e"', b"t='e'", b"<f>", b"<f ", b"<f/", b":f>", b":f ", b":f/")
# A sheet's XML is many times as large as its file. So it is read in pieces, which overlap by more
# than a place or a suspect has.
_PIECE_BYTES, _OVERLAP = MIB, 32
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


class _DamagedError(ValueError):
    """A file that is no workbook; says why."""


class Sheet(NamedTuple):
    """A sheet to look through.

    Attributes:
      name: of the sheet.
      number: of the sheet, from 0.
    """

    name: str
    number: int


def column_number(letters: str) -> int:
    """Returns 0 of A, 26 of AA."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def column_letters(number: int) -> str:
    """Returns A of 0, AA of 26."""
    letters = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        letters = chr(ord("A") + place) + letters
    return letters


def check_size(path: str, archive: zipfile.ZipFile, limits: Limits) -> None:
    """Raises ``DataError`` if a workbook's files are too large."""
    infos = archive.infolist()
    packed = sum(info.compress_size for info in infos)
    total = sum(info.file_size for info in infos)
    if exceeds_ratio(limits, packed, total):
        raise DataError(f"{path}: {ratio_exceeded(limits, packed, total)}")
    if total > MOST_BYTES:
        raise DataError(
            f"{path}: found a workbook of {total:,} bytes when it is unpacked, expected at most "
            f"{MOST_BYTES:,}, because it is held in memory. Save the sheet as CSV."
        )


def too_many_cells(path: str, sheet: str, cells: int) -> DataError:
    """Returns the error for a sheet that spans too much."""
    return DataError(
        f"{path}, {sheet}: found a sheet that spans {cells:,} cells, expected at most "
        f"{MOST_CELLS:,}. Remove what stands far below or right of the table, or save it as CSV."
    )


def of_xlsx(path: str, archive: zipfile.ZipFile, sheet: Sheet) -> Faults:
    """Returns the faults of a sheet of an .xlsx file.

    Raises:
      DataError: it spans too many cells.
      KeyError, ValueError, expat.ExpatError: it is damaged.
    """
    name = _sheet_file(archive, sheet.name)
    rows, columns, is_suspect, before = 0, set[bytes](), False, b""
    for piece in _pieces(archive, name):
        text = before + piece
        columns.update(_COLUMN.findall(text))
        rows = max(rows, *map(int, set(_ROW.findall(text))), 0)
        is_suspect = is_suspect or any(one in text for one in _SUSPECTS)
        before = text[-_OVERLAP:]
    widest = max((column_number(one.decode()) for one in columns), default=0) + 1
    if rows * widest > MOST_CELLS:
        raise too_many_cells(path, sheet.name, rows * widest)
    return _Cells().of(_pieces(archive, name)) if is_suspect else {}


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    with archive.open(name) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


class _Cells:
    """The cells of a sheet's XML."""

    def __init__(self) -> None:
        self._faults: Faults = {}
        self._place = (0, -1)
        self._row = -1
        self._is_error = self._has_formula = False
        self._text: list[str] | None = None
        self._value = ""

    def of(self, pieces: Iterable[bytes]) -> Faults:
        """Returns the faults."""
        _parse(pieces, self._start, self._end, self._characters)
        return self._faults

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "row":
            self._row = int(attributes["r"]) - 1 if "r" in attributes else self._row + 1
            self._place = (self._row, -1)
        elif name == "c":
            match = _REFERENCE.fullmatch(attributes.get("r", ""))
            if match:
                self._place = (int(match[2]) - 1, column_number(match[1]))
            else:
                self._place = (self._row, self._place[1] + 1)
            self._is_error, self._has_formula = attributes.get("t") == "e", False
            # An empty text is a value.
            self._value = "''" if attributes.get("t") == "str" else ""
        elif name == "f":
            self._has_formula = True
        elif name == "v":
            self._text = []

    def _end(self, name: str) -> None:
        if name == "v" and self._text is not None:
            self._value, self._text = "".join(self._text) or self._value, None
        elif name == "c" and self._is_error:
            self._faults[self._place] = self._value or "an error"
        elif name == "c" and self._has_formula and not self._value:
            self._faults[self._place] = NO_VALUE

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)


def _sheet_file(archive: zipfile.ZipFile, name: str) -> str:
    """Returns the name of the file of a sheet."""
    relations = {}
    for kind, attributes in _elements(archive.read("xl/_rels/workbook.xml.rels")):
        if kind == "Relationship":
            relations[attributes["Id"]] = attributes["Target"]
    for kind, attributes in _elements(archive.read("xl/workbook.xml")):
        if kind == "sheet" and attributes.get("name") == name:
            identity = next(
                value for key, value in attributes.items() if key.rpartition(":")[2] == "id"
            )
            target = relations[identity]
            whole = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
            return posixpath.normpath(whole)
    raise _DamagedError(f"no sheet '{name}' in xl/workbook.xml")


def _elements(data: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    _parse([data], lambda name, attributes: found.append((name, attributes)))
    yield from found


def _parse(
    pieces: Iterable[bytes],
    start: Callable[[str, dict[str, str]], object],
    end: Callable[[str], object] | None = None,
    characters: Callable[[str], object] | None = None,
) -> None:
    """Parses XML; names come without the prefix of their space."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise _DamagedError("found a document type, which no workbook has")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: start(name.rpartition(":")[2], attributes)
    if end is not None:
        parser.EndElementHandler = lambda name: end(name.rpartition(":")[2])
    if characters is not None:
        parser.CharacterDataHandler = characters
    for piece in pieces:
        parser.Parse(piece, False)
    parser.Parse(b"", True)


def of_ods(path: str, archive: zipfile.ZipFile, sheet: Sheet) -> Faults:
    """Returns the faults of a sheet of an .ods file; see ``of_xlsx``."""
    return _OdsCells(path, sheet.name).of(_pieces(archive, "content.xml"))


class _OdsCells:
    """The cells of OpenDocument's XML, where empty and equal ones are counted."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name
        self._faults: Faults = {}
        self._is_here = False
        self._row = self._column = self._rows = self._columns = 0
        self._widest = self._last = 0
        self._text: list[str] = []
        self._is_error = self._is_filled = False

    def of(self, pieces: Iterable[bytes]) -> Faults:
        """Returns the faults."""
        _parse(pieces, self._start, self._end, self._text.append)
        return self._faults

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "table":
            self._is_here = attributes.get("table:name") == self._name
        elif name == "table-row":
            self._column = 0
            self._rows = int(attributes.get("table:number-rows-repeated", 1))
        elif name in ("table-cell", "covered-table-cell"):
            self._columns = int(attributes.get("table:number-columns-repeated", 1))
            kind = attributes.get("calcext:value-type", attributes.get("office:value-type", ""))
            self._is_error, self._is_filled = kind == "error", bool(kind)
            self._text.clear()

    def _end(self, name: str) -> None:
        if not self._is_here:
            return
        if name in ("table-cell", "covered-table-cell"):
            if self._is_error:
                self._faults[self._row, self._column] = "".join(self._text).strip()
            self._column += self._columns
            if self._is_filled:
                self._widest, self._last = max(self._widest, self._column), self._row + self._rows
            if self._widest * self._last > MOST_CELLS:
                raise too_many_cells(self._path, self._name, self._widest * self._last)
        elif name == "table-row":
            self._row += self._rows


def of_xls(data: bytes, sheet: Sheet) -> Faults:
    """Returns the faults of a sheet of an .xls file.

    Raises:
      xlrd.XLRDError: it is damaged; other errors, too.
    """
    import xlrd

    with xlrd.open_workbook(file_contents=data, on_demand=True) as book:
        own = book.sheet_by_name(sheet.name)
        return {
            (row, column): xlrd.error_text_from_code.get(own.cell_value(row, column), "an error")
            for row in range(own.nrows)
            for column, kind in enumerate(own.row_types(row))
            if kind == xlrd.XL_CELL_ERROR
        }
