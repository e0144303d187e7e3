"""Opens a sheet of a workbook by calamine, within bounds.

calamine gives errors such as #N/A, and formulas without a value, like empty cells. openpyxl finds
them, in sheets whose bytes have signs of any.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import MIB, Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.files.beam import files
from beam_pipelines_plugins.extras import needed

# Files are read whole; so are unpacked ones. calamine makes all cells that a sheet spans.
MOST_FILE_BYTES, MOST_BYTES, MOST_CELLS = 256 * MIB, 1024 * MIB, 64 * MIB
_ZIP = b"PK\x03\x04"
_NO_VALUE = "a formula without a value"
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


class Sheet(NamedTuple):
    """A sheet; its rows count from 1.

    Attributes:
      name: of the sheet.
      rows: cells of each row; "" is empty.
      faults: row, place in it, and text of errors and of formulas that nothing computed.
      merged: first and last row of merged cells.
      data: the file.
    """

    name: str
    rows: list[list[Any]]
    faults: list[tuple[int, int, str]]
    merged: list[tuple[int, int]]
    data: bytes


def read_sheet(path: str, limits: Limits, choose: Callable[[list[str]], str]) -> Sheet:
    """Reads a sheet of a workbook.

    Args:
      path, limits: of the file.
      choose: returns the one of its sheets to read.

    Raises:
      DataError: the file is damaged or too large, or a package is missing.
    """
    with needed(path, "excel"):
        import openpyxl  # noqa: F401 - it finds errors
        import python_calamine
    data = files.read_at_most(path, MOST_FILE_BYTES)
    if data is None:
        raise _too_large(path, "a workbook", MOST_FILE_BYTES)
    with _explained(path), warnings.catch_warnings():  # of what openpyxl would not write again
        warnings.simplefilter("ignore")
        if not data.startswith(_ZIP):
            raise ValueError("it begins like none; an .xls file is saved as .xlsx first")
        is_suspect, most_copied = _checked(path, data, limits)
        workbook = python_calamine.load_workbook(io.BytesIO(data))
        kinds = workbook.sheets_metadata  # others are charts and macros
        name = choose([one.name for one in kinds if "WorkSheet" in str(one.typ)])
        if most_copied > MOST_BYTES:
            texts = (cell.value for row in _cells(data, name, True) for cell in row)
            if sum(len(text) for text in texts if isinstance(text, str)) > MOST_BYTES:
                raise _too_large(f"{path}, {name}", "copies of texts", MOST_BYTES)
        sheet = workbook.get_sheet_by_name(name)
        rows = list(sheet.iter_rows())
        faults, left = [], sheet.start[1] if sheet.start else 0
        for row, column, text in _faults(data, name) if is_suspect else ():
            if row <= len(rows) and 0 <= (place := column - left) < len(rows[row - 1]):
                rows[row - 1][place] = text
                faults.append((row, place, text))
        areas = sheet.merged_cell_ranges or ()
        merged = [(first + 1, last + 1) for (first, _), (last, _) in areas]
        return Sheet(name, rows, faults, merged, data)


def _too_large(where: str, what: str, most: int) -> DataError:
    return DataError(
        f"{where}: found {what} of more than {most:,} bytes, expected at most as many, which are "
        "held in memory. Save the sheet as CSV."
    )


def _checked(path: str, data: bytes, limits: Limits) -> tuple[bool, int]:
    """Checks parts of an .xlsx file before calamine reads them.

    Returns:
      Whether a cell may have a fault, and at most how many bytes copies of texts have.

    Raises:
      DataError: they are too large.
      ValueError: calamine would end the process.
    """
    is_suspect, tags, longest = False, 0, 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = archive.infolist()
        packed, total = sum(p.compress_size for p in parts), sum(p.file_size for p in parts)
        if exceeds_ratio(limits, packed, total):
            raise DataError(f"{path}: {ratio_exceeded(limits, packed, total)}")
        if total > MOST_BYTES:
            raise _too_large(path, "unpacked parts", MOST_BYTES)
        names = {name.lower() for name in archive.namelist()}
        if names & {"xl/workbook.bin", "content.xml"} or "xl/workbook.xml" not in names:
            raise ValueError("it is no Excel workbook")
        for part in parts:
            rows, columns, length = 0, set[bytes](), 0
            for text in _pieces(archive, part.filename):
                for number in _COUNT.findall(text):
                    if not number.isdigit() or int(number) > part.file_size:
                        raise ValueError(
                            f"found {number.decode(errors='replace')} texts in few bytes"
                        )
                tags += text.count(b"<")
                first, *shared = _SHARED.split(text)
                length += len(first)
                if shared:
                    longest, length = max(longest, length, *map(len, shared)), len(shared[-1])
                places = set(_PLACE.findall(text))
                columns.update(letters for letters, _ in places)
                rows = max(rows, *(int(row) for _, row in places), 0)
                is_suspect = is_suspect or _SUSPECT.search(text) is not None
            if rows * max(map(_number, columns), default=0) > MOST_CELLS:
                raise DataError(
                    f"{path}, {part.filename}: found a sheet that spans more than {MOST_CELLS:,} "
                    "cells, expected at most as many. Remove what stands far below or right of the "
                    "table, or save it as CSV."
                )
    return is_suspect, tags * longest


def _number(letters: bytes) -> int:
    from openpyxl.utils import column_index_from_string

    return int(column_index_from_string(letters.decode()))


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    before = b""
    with archive.open(name) as file:
        while piece := file.read(_PIECE_BYTES):
            yield before + piece
            before = (before + piece)[-_OVERLAP:]


def _cells(data: bytes, name: str, only_values: bool) -> Iterator[tuple[Any, ...]]:
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=only_values)[name]
    sheet.reset_dimensions()  # what a file says of its size need not be so
    yield from sheet.iter_rows()


def _faults(data: bytes, name: str) -> Iterator[tuple[int, int, str]]:
    """Yields row, column and text of faults."""
    for row in zip(_cells(data, name, True), _cells(data, name, False), strict=True):
        for value, formula in zip(*row, strict=True):
            if value.data_type == "e":
                yield value.row, value.column - 1, str(value.value or "an error")
            elif formula.data_type == "f" and value.value is None and value.data_type == "n":
                yield formula.row, formula.column - 1, _NO_VALUE


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (DataError, RecipeProblems, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        # calamine, openpyxl and zipfile have many errors; one of calamine's is no Exception.
        found = "a damaged workbook, or one with a password"
        raise DataError(
            f"{path}: found {found}, expected a whole .xlsx file: {error or repr(error)}. Open it "
            "in a spreadsheet and save it as .xlsx, without a password; or 'soffice --convert-to "
            "xlsx FILE'."
        ) from error
