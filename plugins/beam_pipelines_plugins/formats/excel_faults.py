"""Cells that calamine takes for empty; sheets too large for it.

It gives errors such as #N/A, and formulas without a value, like empty cells. openpyxl and xlrd find
them, in sheets whose bytes have signs of any.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits, exceeds_ratio, ratio_exceeded

# Row and column, from 0 -> text of the error.
Faults = dict[tuple[int, int], str]
NO_VALUE = "a formula without a value"
# Of an unpacked workbook, which is held in memory.
MOST_BYTES = 1024 * MIB
# Cells that a sheet spans, empty ones included: calamine makes all of them.
MOST_CELLS = 64 * MIB
_PLACE = re.compile(rb"\br=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
# An error; and a formula that ends its cell, or has an empty value.
_SUSPECT = re.compile(
    rb"""\bt=["']e["']|(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^<>]*/>)\s*(?:</(?:\w+:)?c>|"""
    rb"""<(?:\w+:)?v\s*(?:/>|></))"""
)
# Where a text begins that cells share, each by a copy; and how many there are, which calamine makes
# room for: more than the bytes of the file would end the process.
_SHARED = re.compile(rb"<(?:[\w.-]+:)?si\b")
_COUNT = re.compile(rb"""\buniqueCount\s*=\s*["']([^"']*)""")
# XML is many times as large as its file. So it is read in pieces, which overlap by more than a
# place or a suspect has.
_PIECE_BYTES, _OVERLAP = MIB, 512


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


def check_container(archive: zipfile.ZipFile) -> None:
    """Raises ``ValueError`` for what calamine would end the process with."""
    names = {name.lower() for name in archive.namelist()}
    if names & {"xl/workbook.bin", "content.xml"} or "xl/workbook.xml" not in names:
        raise ValueError("it is no Excel workbook")
    for info in archive.infolist():
        for text in _pieces(archive, info.filename):
            for number in _COUNT.findall(text):
                if not number.isdigit() or int(number) > info.file_size:
                    raise ValueError(f"found {number.decode(errors='replace')} texts in few bytes")


def _check_texts(path: str, name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise DataError(
            f"{path}, {name}: found cells with texts of {size:,} bytes together, expected at most "
            f"{MOST_BYTES:,}, because each is copied. Save the sheet as CSV."
        )


def _check_cells(path: str, name: str, cells: int) -> None:
    if cells > MOST_CELLS:
        raise DataError(
            f"{path}, {name}: found a sheet that spans {cells:,} cells, expected at most "
            f"{MOST_CELLS:,}. Remove what stands far below or right of the table, or save it as "
            "CSV."
        )


def of_xlsx(path: str, archive: zipfile.ZipFile, data: bytes, sheet: str) -> Faults:
    """Returns the faults of a sheet of an .xlsx file.

    Args:
      path: of the file, for messages.
      archive, data: the file.
      sheet: name of the sheet; all are checked for their size.

    Raises:
      DataError: one spans too many cells; or the sheet's texts are too large.
    """
    is_suspect, tags, longest = False, 0, 0
    for name in archive.namelist():
        rows, columns, length = 0, set[bytes](), 0
        for text in _pieces(archive, name):
            tags += text.count(b"<")
            first, *shared = _SHARED.split(text)
            length += len(first)
            if shared:
                longest, length = max(longest, length, *map(len, shared)), len(shared[-1])
            places = set(_PLACE.findall(text))
            columns.update(letters for letters, _ in places)
            rows = max(rows, *(int(row) for _, row in places), 0)
            is_suspect = is_suspect or _SUSPECT.search(text) is not None
        _check_cells(path, name, rows * max(map(_number, columns), default=0))
    with warnings.catch_warnings():  # of what it would not write again
        warnings.simplefilter("ignore")
        if tags * longest > MOST_BYTES:
            _check_texts(path, sheet, _bytes_of_texts(data, sheet))
        return _by_openpyxl(data, sheet) if is_suspect else {}


def _number(letters: bytes) -> int:
    from openpyxl.utils import column_index_from_string

    return int(column_index_from_string(letters.decode()))


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    before = b""
    with archive.open(name) as file:
        while piece := file.read(_PIECE_BYTES):
            yield before + piece
            before = (before + piece)[-_OVERLAP:]


def _bytes_of_texts(data: bytes, name: str) -> int:
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(data), read_only=True)[name]
    sheet.reset_dimensions()
    rows = sheet.iter_rows(values_only=True)
    return sum(len(value) for row in rows for value in row if isinstance(value, str))


def _by_openpyxl(data: bytes, name: str) -> Faults:
    import openpyxl

    sheets = []
    for only_values in (True, False):
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=only_values)
        # What a file says of its size need not be so.
        book[name].reset_dimensions()
        sheets.append(book[name].iter_rows())
    found: Faults = {}
    for row in zip(*sheets, strict=True):
        for value, formula in zip(*row, strict=True):
            if value.data_type == "e":
                found[value.row - 1, value.column - 1] = str(value.value or "an error")
            elif formula.data_type == "f" and value.value is None and value.data_type == "n":
                found[formula.row - 1, formula.column - 1] = NO_VALUE
    return found


def of_xls(data: bytes, name: str) -> Faults:
    """Returns the faults of a sheet of an .xls file.

    Raises:
      xlrd.XLRDError: it is damaged; other errors, too.
    """
    import xlrd

    with xlrd.open_workbook(file_contents=data, on_demand=True) as book:
        own = book.sheet_by_name(name)
        return {
            (row, column): xlrd.error_text_from_code.get(own.cell_value(row, column), "an error")
            for row in range(own.nrows)
            for column, kind in enumerate(own.row_types(row))
            if kind == xlrd.XL_CELL_ERROR
        }
