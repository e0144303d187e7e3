"""Workbooks against openpyxl, or an error.

Input: the XML of a sheet; of the rest of the file there is one form.
"""

from __future__ import annotations

import functools
import io
import random
import warnings
import zipfile
from typing import Any

import openpyxl

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_SHEET = "xl/worksheets/sheet1.xml"
_TOKENS = [b"<row>", b"</row>", b"<c>", b"</c>", b'<c r="A2">', b'<c r="XFD1048576"/>', b'r="B2"', b't="e"', b't="s"', b't="str"', b't="b"',
           b't="inlineStr"', b"<v>", b"</v>", b"<f>1</f>", b"<v>1e300</v>", b"<v>-1</v>", b"<v>99999999</v>", b"<v>x</v>", b's="1"', b"&amp;",
           b"&lt;!", b"<!DOCTYPE a>", b'<mergeCell ref="A1:B2"/>', b"\0", b"\xff"]  # fmt: skip


@functools.cache
def parts() -> dict[str, bytes]:
    """Returns the files of a workbook."""
    book = openpyxl.Workbook()
    book.active.append(["n", "x", "text"])
    book.active.append([1, 2.5, "#N/A"])
    book.active.append([2, None, "ç"])
    book.active.append([3, True, "x"])
    stream = io.BytesIO()
    book.save(stream)
    with zipfile.ZipFile(stream) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def workbook(sheet: bytes) -> bytes:
    """Returns a workbook with other XML of its sheet."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in parts().items():
            archive.writestr(name, sheet if name == _SHEET else data)
    return stream.getvalue()


def run(data: bytes) -> None:
    """Reads a workbook; compares numbers and errors with openpyxl's."""
    made = workbook(data)
    path = scratch.write("excel", "a.xlsx", made)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sheet = openpyxl.load_workbook(io.BytesIO(made), data_only=True).active
            cells = [list(row) for row in sheet.iter_rows(values_only=False)]
    except Exception:  # noqa: BLE001 - what openpyxl does not take is nothing to compare with
        return
    names = table.column_names
    header = cells[0] if cells else []
    columns = {cell.value: place for place, cell in enumerate(header) if cell.value in names}
    if len(columns) != len(names):
        return
    for name, place in columns.items():
        wrong = [row[place].coordinate for row in cells[1:] if row[place].data_type == "e"]
        require(not wrong, "excel: an error that is read", f"{name} {wrong}")


def seeds() -> list[bytes]:
    """A sheet with an error and one without."""
    sheet = parts()[_SHEET]
    return [sheet, sheet.replace(b't="e"', b't="str"'), sheet.replace(b"<row ", b"<row x='' ")]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes tags and values."""
    return mutations.splice(data, _TOKENS, chance)


TARGET = Target(run, seeds, mutate)
