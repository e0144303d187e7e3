"""Sheets of .xlsx files."""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
import yaml

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms import read
from beam_pipelines_plugins.formats import excel_workbook
from tests.sources.support import plan_of, problems_of, read_rows, types_of

DAY = datetime.date(2026, 1, 31)
MOMENT = datetime.datetime(2026, 1, 31, 5, 15)  # noqa: DTZ001 - a sheet knows no zone
Row = list[Any]
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHARED = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


def xlsx(path: Path, rows: list[Row], **others: list[Row]) -> Path:
    """Writes a workbook of some sheets by openpyxl."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sheet1"
    for name, own in {"": rows, **others}.items():
        sheet = book.create_sheet(name) if name else book.active
        for row in own:
            sheet.append(row)
    book.save(path)
    return path


ROWS: list[Row] = [
    ["n", "x", "text", "day"],
    [1, 1.5, "ç", DAY],
    [2, 3, None, None],
    [3, 4, "00501", DAY],
]


def test_cells_have_their_types(tmp_path: Path) -> None:
    """Integers, numbers, texts and dates are read."""
    path = xlsx(tmp_path / "a.xlsx", ROWS)
    assert types_of(path) == {"n": "int64", "x": "double", "text": "string", "day": "date32[day]"}
    assert read_rows(path) == [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    frame = pd.read_excel(path, engine="calamine", dtype={"text": str})
    assert frame["x"].tolist() == [1.5, 3, 4]


def test_types_of_xlsx(tmp_path: Path) -> None:
    """Moments, times, durations and booleans are columns of their types."""
    rows = [
        ["b", "moment", "time", "long", "nothing", "mixed"],
        [True, MOMENT, datetime.time(5, 15), datetime.timedelta(hours=30), None, 1],
        [False, DAY, None, None, None, "x"],
    ]
    path = xlsx(tmp_path / "a.xlsx", rows)
    found = read_rows(path)
    midnight = datetime.datetime(2026, 1, 31)  # noqa: DTZ001 - a sheet knows no zone
    assert found == [
        {"b": True, "moment": MOMENT, "time": datetime.time(5, 15), "long": 108_000_000_000, "nothing": None, "mixed": "1"},
        {"b": False, "moment": midnight, "time": None, "long": None, "nothing": None, "mixed": "x"},
    ]  # fmt: skip
    declared = read_rows(path, types={"b": "text", "moment": "text"}, columns=("b", "moment"))
    assert declared[0] == {"b": "true", "moment": "2026-01-31 05:15:00"}


def test_empty_rows_and_columns_are_left_out(tmp_path: Path) -> None:
    """The table may begin anywhere; places stay those of the sheet."""
    rows = [
        [],
        [None, None, "n", None, "m"],
        [None, None, 1, None, 2],
        [],
        [None, None, 5, None, 6.5],
    ]
    path = xlsx(tmp_path / "a.xlsx", rows)
    assert read_rows(path) == [{"n": 1, "m": 2}, {"n": 5, "m": 6.5}]
    with pytest.raises(DataError, match=r"a\.xlsx, Sheet1, row 5, column 'm': found 6\.5"):
        read_rows(path, types={"m": "int8"})
    plan = plan_of(path)
    [place] = read.format_of(plan).positions(plan, plan.ranges[0], {}, [], [1])
    assert place.place == "Sheet1, row 5"


def test_errors_have_their_row(tmp_path: Path) -> None:
    """An error is no empty cell; what the message says works."""
    rows = [["n", "x"], [1, 2], [3, "#N/A"], [5, 6], [7, 8]]
    path = xlsx(tmp_path / "a.xlsx", rows)
    with pytest.raises(DataError) as caught:
        read_rows(path)
    assert str(caught.value) == (
        f"{path}, Sheet1, row 3, column 'x': found #N/A, expected a value. Mend the cell, or add "
        "'#N/A' to 'nulls' of the source; formulas get values when a spreadsheet opens and saves "
        "the file."
    )
    assert [row["x"] for row in read_rows(path, nulls=("", "#N/A"))] == [2, None, 6, 8]
    assert [row["n"] for row in read_rows(path, columns=("n",))] == [1, 3, 5, 7]


def test_formulas_without_a_value(tmp_path: Path) -> None:
    """Programs write formulas that nothing has computed: no empty cells."""
    path = xlsx(tmp_path / "a.xlsx", [["n", "m"], [1, "=A2+1"]])
    found = "Sheet1, row 2, column 'm': found a formula without a value"
    with pytest.raises(DataError, match=found):
        read_rows(path)
    assert read_rows(path, nulls=("", "a formula without a value")) == [{"n": 1, "m": None}]


def test_sheets(tmp_path: Path) -> None:
    """One of several sheets is named, or the run asks."""
    path = xlsx(tmp_path / "a.xlsx", [["a"], [1]], Other=[["b"], [2]])
    [message] = problems_of(path).values()
    assert "found 2 sheets" in message
    assert re.findall(r"'sheet: (.*?)'", message) == ["Sheet1"]
    assert read_rows(path, sheet="Sheet1") == [{"a": 1}]
    assert read_rows(path, sheet="Other") == [{"b": 2}]
    assert "Did you mean 'Other'" in problems_of(path, sheet="other")["sources", "s", "sheet"]


@pytest.mark.end_to_end
def test_a_recipe_of_a_named_sheet(tmp_path: Path) -> None:
    """``init`` takes ``book.xlsx#Prices``, and its recipe converts."""
    path = xlsx(tmp_path / "book.xlsx", [["a"], [1]], Prices=[["price"], [2.5], [3.5]])
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "out"
    assert run(["init", f"{path}#Prices", "--output", str(recipe)]) == 0
    assert yaml.safe_load(recipe.read_text())["sources"]["book"]["sheet"] == "Prices"
    assert run(["convert", str(recipe), "--output", str(out), "--quiet"]) == 0
    assert bp.open(out).splits["train"] == 2


def test_headers(tmp_path: Path) -> None:
    """Names are texts; without them the recipe says so."""
    path = xlsx(tmp_path / "a.xlsx", [[1, "x"], [2, "y"]])
    with pytest.raises(
        DataError, match=r"Sheet1, row 1, column 1: found 1\.0, expected the name of the column"
    ):
        read_rows(path)
    assert read_rows(path, header=False) == [
        {"column1": 1, "column2": "x"},
        {"column1": 2, "column2": "y"},
    ]
    assert read_rows(path, header=False, columns=("a", "b"))[0] == {"a": 1, "b": "x"}
    assert (
        "expected 3"
        in problems_of(path, header=False, columns=("a", "b", "c"))["sources", "s", "columns"]
    )


def test_an_index_of_pandas(tmp_path: Path) -> None:
    """A nameless column that counts the rows is left out."""
    frame = pd.DataFrame({"n": [5, 6, 7], "x": ["a", "b", "c"]})
    path = tmp_path / "a.xlsx"
    frame.to_excel(path)
    assert read_rows(path) == frame.to_dict("records")
    [decision] = plan_of(path).decisions
    assert "column 1 has no name and counts the rows: left out" in decision
    assert read_rows(path, columns=("index", "n"))[2] == {"index": 2, "n": 7}
    frame[frame.n != 6].to_excel(path)
    assert read_rows(path) == [{"index": 0, "n": 5, "x": "a"}, {"index": 2, "n": 7, "x": "c"}]
    frame.rename(columns={"x": "index"}).to_excel(path)
    with pytest.raises(DataError, match="found an empty cell, expected the name of the column"):
        read_rows(path)
    xlsx(path, [[None, "Title"], ["name", "amount"], ["a", 1]])
    with pytest.raises(DataError, match="found an empty cell, expected the name of the column"):
        read_rows(path)


def test_merged_cells(tmp_path: Path) -> None:
    """Merged cells are refused, unless they are above the table."""
    path = xlsx(tmp_path / "a.xlsx", [["Title", None], ["n", "m"], [1, 2]])
    book = openpyxl.load_workbook(path)
    book.active.merge_cells("A1:B1")
    book.save(path)
    with pytest.raises(DataError, match=r"Sheet1, row 1: found merged cells") as caught:
        read_rows(path)
    [lines] = re.findall(r"skip_lines: ([0-9]+)", str(caught.value))
    assert read_rows(path, skip_lines=int(lines)) == [{"n": 1, "m": 2}]


def test_nearly_numeric_columns_are_asked_about(tmp_path: Path) -> None:
    """A few texts among numbers stop the run; each remedy works."""
    path = xlsx(tmp_path / "a.xlsx", [["n"], *([number] for number in range(200)), ["unknown"]])
    message = problems_of(path)["sources", "s", "types"]
    assert "'unknown'" in message
    assert "a.xlsx, row 202" in message
    assert read_rows(path, nulls=("unknown",))[-1] == {"n": None}
    assert read_rows(path, types={"n": "text"})[-2:] == [{"n": "199"}, {"n": "unknown"}]
    assert read_rows(path, infer="lenient")[-1] == {"n": "unknown"}
    with pytest.raises(DataError, match=r"Sheet1, row 202, column 'n': found 'unknown'"):
        read_rows(path, types={"n": "int64"})


def test_several_files_agree(tmp_path: Path) -> None:
    """Types are those of all files; names must be the same."""
    xlsx(tmp_path / "a1.xlsx", [["n", "m"], [1, None]])
    xlsx(tmp_path / "a2.xlsx", [["n", "m"], [1.5, "x"]])
    assert read_rows(tmp_path / "a*.xlsx") == [{"n": 1, "m": None}, {"n": 1.5, "m": "x"}]
    xlsx(tmp_path / "a3.xlsx", [["n", "other"], [1, 2]])
    with pytest.raises(DataError, match="found no column 'm'"):
        read_rows(tmp_path / "a*.xlsx")


def test_files_that_are_refused(tmp_path: Path) -> None:
    """Damaged, empty and oversized workbooks say what is wrong."""
    path = xlsx(tmp_path / "a.xlsx", ROWS)
    data = path.read_bytes()
    for damaged in (data[:-400], b"a,b\n1,2\n", data[:40] + bytes(2_000)):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.xlsx: found a damaged workbook"):
            read_rows(path)
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as archive:
        archive.writestr("content.xml", "<office:document-content/>")
    with pytest.raises(DataError, match=r"it is no Excel workbook.* save it as \.xlsx"):
        read_rows(tmp_path / "a.ods")
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000))
    with pytest.raises(DataError, match=r"an \.xls file is saved as \.xlsx first"):
        read_rows(tmp_path / "a.xls")
    xlsx(path, [])
    with pytest.raises(DataError, match=r"Sheet1: found no row with a value"):
        read_rows(path)
    xlsx(path, [["n"]])
    with pytest.raises(DataError, match="found no rows"):
        read_rows(path)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells far away, bombs and large files are refused early."""
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "n", 1
    book.save(path)
    with pytest.raises(DataError, match=r"spans more than 67,108,864 cells"):
        read_rows(path)
    xlsx(path, [["n"], *([number] for number in range(3_000))])
    monkeypatch.setattr("beam_pipelines.core.limits.FREE_BYTES", 1_000)
    with pytest.raises(DataError, match="decompression_ratio"):
        read_rows(path, limits=Limits(decompression_ratio=2))
    monkeypatch.setattr("beam_pipelines_plugins.formats.excel_workbook.MOST_FILE_BYTES", 1_000)
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        read_rows(path)


def changed(path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """Changes a file of a workbook."""
    with zipfile.ZipFile(path) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    files[name] = change(files.get(name, b""))
    with zipfile.ZipFile(path, "w") as archive:
        for one, data in files.items():
            archive.writestr(one, data)
    return path


def test_texts_that_cells_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a long text, and their count, are checked."""
    path, shared = xlsx(tmp_path / "a.xlsx", [["n"], *[["x"]] * 41]), "xl/sharedStrings.xml"
    own = b't="inlineStr"><is><t>x</t></is>'
    changed(path, "xl/worksheets/sheet1.xml", lambda data: data.replace(own, b't="s"><v>0</v>'))
    part = f'<Override PartName="/{shared}" ContentType="{SHARED}"/></Types>'.encode()
    changed(path, "[Content_Types].xml", lambda data: data.replace(b"</Types>", part))
    texts = f"<sst xmlns='{MAIN}' uniqueCount='1'><si><t>{'x' * 500}</t></si></sst>".encode()
    changed(path, shared, lambda _: texts)
    assert [row["n"] for row in read_rows(path)] == ["x" * 500] * 41
    with monkeypatch.context() as patch:
        patch.setattr(excel_workbook, "MOST_BYTES", 20_000)
        with pytest.raises(DataError, match="Sheet1: found copies of texts of more than 20,000"):
            read_rows(path)
    changed(path, shared, lambda _: texts.replace(b"'1'", b"'4000000000'"))
    with pytest.raises(DataError, match="texts in few bytes"):
        read_rows(path)


def test_document_types_are_refused(tmp_path: Path) -> None:
    """XML with entities, which could grow without bounds, is damage."""
    path = xlsx(tmp_path / "a.xlsx", [["n"], ["#N/A"]])
    entity = b'<!DOCTYPE x [<!ENTITY a "b">]>'
    changed(path, "xl/workbook.xml", lambda data: entity + data.partition(b"?>")[2])
    with pytest.raises(DataError, match="found a damaged workbook"):
        read_rows(path)


@pytest.mark.parametrize("size", [*range(1, 40), 64, 100, 1000])
def test_a_sheet_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Errors and the last cell are found wherever a piece ends."""
    path = xlsx(tmp_path / "a.xlsx", [["n", "t"], [1, "a"], ["#N/A", "=1+1"]])
    monkeypatch.setattr(excel_workbook, "_PIECE_BYTES", size)
    found = excel_workbook.read_sheet(str(path), Limits(), lambda names: names[0])
    assert found.faults == [(3, 0, "#N/A"), (3, 1, "a formula without a value")]
    monkeypatch.setattr(excel_workbook, "MOST_CELLS", 5)
    with pytest.raises(DataError, match="spans more than 5 cells"):
        read_rows(path)


def test_titles_above_the_names(tmp_path: Path) -> None:
    """The error of a nameless column says how to leave them out."""
    path = xlsx(tmp_path / "a.xlsx", [["Sales of 2024"], ["id", "price"], [1, 2.5]])
    with pytest.raises(DataError, match=r"row 1, column 2: found an empty cell.*'skip_lines' if"):
        plan_of(path)
    assert read_rows(path, skip_lines=1) == [{"id": 1, "price": 2.5}]
