"""CSV files that are not plain: findings and questions."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.cell_formats import parse_format
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, types_of, write

DAY, TIME = datetime.date, datetime.datetime

FOUND = [
    ("a;b\n1;x\n", [{"a": 1, "b": "x"}], ["delimiter"]),
    ("a\tb\n1\tx\n", [{"a": 1, "b": "x"}], ["delimiter"]),
    ("a|b\n1|x\n", [{"a": 1, "b": "x"}], ["delimiter"]),
    ("'a';'b'\n'1';'x; y'\n", [{"a": 1, "b": "x; y"}], ["delimiter", "quote"]),
    ("1,x\n2,y\n", [{"column1": 1, "column2": "x"}, {"column1": 2, "column2": "y"}], ["header"]),
    (" a , b\n1,x\n", [{"a": 1, "b": "x"}], ["names"]),
    (",a\n0,x\n1,y\n", [{"a": "x"}, {"a": "y"}], ["column 1"]),
    (",a\nu,x\nv,y\n", [{"index": "u", "a": "x"}, {"index": "v", "a": "y"}], ["column 1"]),
    ("a\nZ\xfcrich\n".encode("latin-1"), [{"a": "Zürich"}], ["encoding: latin-1"]),
    ("a\n5 €\n".encode("cp1252"), [{"a": 5}], ["encoding: cp1252", "formats"]),
    ("a,b\n1,é\n".encode("utf-16"), [{"a": 1, "b": "é"}], ["encoding: utf-16"]),
    ("a,b\n1,é\n".encode("utf-32"), [{"a": 1, "b": "é"}], ["encoding: utf-32"]),
    ("a,b\n1,x\n".encode("utf-16-be"), [{"a": 1, "b": "x"}], ["encoding: utf-16-be"]),
    ("a;b\n1,5;1.250,25\n", [{"a": 1.5, "b": 1250.25}], ["delimiter", "formats", "formats"]),
    ("a;b\n1,5;1.250\n", [{"a": 1.5, "b": 1250}], ["delimiter", "formats", "formats"]),
    ('a,b\n"1,234,567",x\n', [{"a": 1234567, "b": "x"}], ["formats"]),
    ('a,b\n"1,234",0.5\n', [{"a": 1234, "b": 0.5}], ["formats"]),
    ('a\n"1,23,456"\n"12,34,567"\n999\n', [{"a": 123456}, {"a": 1234567}, {"a": 999}], ["formats"]),
    ('a\n"₹1,23,456.50"\n₹7.25\n', [{"a": 123456.5}, {"a": 7.25}], ["formats"]),
    ("a\n12.5%\n5 %\n", [{"a": 0.125}, {"a": 0.05}], ["formats"]),
    ("a\n$5\n-$7.25\n", [{"a": 5.0}, {"a": -7.25}], ["formats"]),
    ("a;b\n\u22125;\u2212$1,250.5\n7.5;$3\n", [{"a": -5.0, "b": -1250.5}, {"a": 7.5, "b": 3.0}], ["delimiter", 'formats: {a: "1234.5"}  # such as', "formats"]),
    ("a\n(1999)\n(2001)\n", [{"a": "(1999)"}, {"a": "(2001)"}], []),
    ("a\nyes\nNo\n\n", [{"a": True}, {"a": False}], ["formats"]),
    ("a\n31/12/2024\n1/2/2024\n", [{"a": DAY(2024, 12, 31)}, {"a": DAY(2024, 2, 1)}], ["formats"]),
    ("t\n2024-01-05 10:00:00 UTC\n2024-01-06 10:00:00.5 UTC\n",
     [{"t": TIME(2024, 1, 5, 10)}, {"t": TIME(2024, 1, 6, 10, 0, 0, 500_000)}], ["formats"]),
    ('t\n"2024-01-05 10:00:00,123"\n', [{"t": TIME(2024, 1, 5, 10, 0, 0, 123_000)}], ["formats"]),
    ("t\n31.12.2024 10:00:00.25\n", [{"t": TIME(2024, 12, 31, 10, 0, 0, 250_000)}], ["formats"]),
    ("a\n1.2.2024\n", [{"a": DAY(2024, 2, 1)}], ["formats"]),
    ("a,b\n1,x\n", [{"a": 1, "b": "x"}], []),
    ("sep=;\na;b\n1;2\n", [{"a": 1, "b": 2}], ["skip_lines: 1", 'delimiter: ";"']),
    ("SEP=\t\r\na\tb\r\n1\t2\r\n", [{"a": 1, "b": 2}], ["skip_lines: 1", "delimiter"]),
    ("Report\n\na;b\n1;2\n3;4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}], ["skip_lines: 2", "delimiter"]),
    ("# by x\n# on 1, 2\na,b,c\n1,2,3\n", [{"a": 1, "b": 2, "c": 3}], ["skip_lines: 2"]),
    ("Sales,,,\nBerlin,,,\n,,,\na,b,c,d\n1,2,3,4\n", [{"a": 1, "b": 2, "c": 3, "d": 4}], ["skip_lines: 3"]),
    ('"Source","Indicators",\n\n"Updated","2024-01-02",\n\n"a","2020","2021","2022",\n"x","1","2","3",\n"y","4","5","6",\n',
     [{"a": "x", "2020": 1, "2021": 2, "2022": 3, "column5": None}, {"a": "y", "2020": 4, "2021": 5, "2022": 6, "column5": None}],
     ["skip_lines: 4", "column 5"]),
    ("make,n\nAMC 10,1\nAMC 12,2\n", [{"make": "AMC 10", "n": 1}, {"make": "AMC 12", "n": 2}], []),
    ("Date:,2024-01-02,,\na,b,c,d\n1,2,3,4\n", [{"a": 1, "b": 2, "c": 3, "d": 4}], ["skip_lines: 1"]),
    ("Title\nx;y;z\n1,5;a;b\n2,5;a;c\n",
     [{"x": 1.5, "y": "a", "z": "b"}, {"x": 2.5, "y": "a", "z": "c"}], ["skip_lines: 1", "delimiter", "formats"]),
    ("a,b\n1,x;y\n2,z;w\n3,u;v\n", [{"a": n, "b": b} for n, b in ((1, "x;y"), (2, "z;w"), (3, "u;v"))], []),
    ("a,b\n1.250,2024-01-02\n", [{"a": 1.25, "b": DAY(2024, 1, 2)}], []),
    ("zip,n\n00501,5kg\n12345,6kg\n", [{"zip": "00501", "n": "5kg"}, {"zip": "12345", "n": "6kg"}], []),
    ("a\nyes\nyes\n", [{"a": "yes"}, {"a": "yes"}], []),
]  # fmt: skip


@pytest.mark.parametrize(("content", "rows", "found"), FOUND)
def test_a_file_shows_how_it_is_written(tmp_path, content, rows, found):
    """Values are right, and each finding begins with its key."""
    path = write(tmp_path / "a.csv", content)
    assert read_rows(path) == rows
    decisions = plan_of(path).decisions
    assert [line[: len(key)] for line, key in zip(decisions, found, strict=True)] == found


OVERRULED = [
    ("a;b\n1;x\n", {"delimiter": ","}, [{"a;b": "1;x"}]),
    ("'a','b'\n'1','x'\n", {"quote": '"'}, [{"'a'": "'1'", "'b'": "'x'"}]),
    ("1,x\n2,y\n", {"header": True}, [{"1": 2, "x": "y"}]),
    (" a ,b\n1,x\n", {"header": True}, [{" a ": 1, "b": "x"}]),
    (",a\n0,x\n1,y\n", {"columns": ("index", "a")}, [{"index": 0, "a": "x"}, {"index": 1, "a": "y"}]),
    ("a\n\xb3\xf3d\xbc\n".encode("latin-1"), {"encoding": "cp1250"}, [{"a": "łódĽ"}]),
    ("a;b\n1,5;x\n", {"types": {"a": "text"}}, [{"a": "1,5", "b": "x"}]),
    ("a;b\n1,5;x\n", {"types": {"a": "float32"}}, [{"a": 1.5, "b": "x"}]),
    ("a\nyes\nno\n", {"types": {"a": "text"}}, [{"a": "yes"}, {"a": "no"}]),
    ("a\n01/02/2024\n", {"formats": {"a": "%m/%d/%Y"}}, [{"a": DAY(2024, 1, 2)}]),
    ("a\nda\n", {"formats": {"a": "da/net"}}, [{"a": True}]),
    ("a\n1.234\n", {"formats": {"a": "1.234"}}, [{"a": 1234}]),
    ("Title\nx,y,z\n1,2,3\n", {"skip_lines": 0, "columns": ("Title",), "delimiter": ";"},
     [{"Title": "x,y,z"}, {"Title": "1,2,3"}]),
    ("a,b\n\n1,2\n3,4\n", {"skip_lines": 2, "header": False, "columns": ("c", "d")}, [{"c": 1, "d": 2}, {"c": 3, "d": 4}]),
    ("a\n7\n", {"formats": {"a": "1.234,5"}, "types": {"a": "int8"}}, [{"a": 7}]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "rows"), OVERRULED)
def test_a_key_overrules_a_finding(tmp_path, content, options, rows):
    """An option of the recipe is not doubted."""
    assert read_rows(write(tmp_path / "a.csv", content), **options) == rows


ASKED = [
    ("day|x\n31.12.2024|1.234\n30.12.2024|25.600\n", "different numbers as 1234.5 and as 1.234,5",
     [{"formats": {"x": "1234.5"}}, {"formats": {"x": "1.234,5"}}]),
    ("day\n04/03/2024\n", "different days as %d/%m/%Y and as %m/%d/%Y",
     [{"formats": {"day": "%d/%m/%Y"}}, {"formats": {"day": "%m/%d/%Y"}}, {"types": {"day": "text"}}]),
    ("a|b\n1|\n,x,2\n,y,3\n", "", []),
    ('a,b\n"1,234",x\n', "different numbers as 1234,5 and as 1,234.5",
     [{"formats": {"a": "1234,5"}}, {"formats": {"a": "1,234.5"}}, {"types": {"a": "text"}}]),
    ("a;b\n1.234;x\n", "different numbers as 1234.5 and as 1.234,5",
     [{"formats": {"a": "1234.5"}}, {"formats": {"a": "1.234,5"}}, {"types": {"a": "text"}}]),
    ("id,2000,x\n1,2,3\n4,5,6\n", "may be names of columns or a row",
     [{"header": True}, {"header": False, "columns": ("p", "q", "r")}]),
    ("a\n\xef\xf0\xe8\xe2\xe5\xf2\n".encode("latin-1"), "is not UTF-8",
     [{"encoding": "latin-1"}, {"encoding": "cp1251"}]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message", "cures"), [row for row in ASKED if row[1]])
def test_two_readings_are_asked_about(tmp_path, content, message, cures):
    """The error shows both readings, and each proposed line settles it."""
    path = write(tmp_path / "a.csv", content)
    with pytest.raises((DataError, RecipeProblems)) as caught:
        plan_of(path)
    text = str(caught.value) + str(getattr(caught.value, "problems", ""))
    assert message in text
    for cure in cures:
        for key, value in cure.items():
            if key in ("formats", "types"):
                ((column, shown),) = value.items()
                assert f"{key}: {{{column}: " in text
                assert shown in text
        assert read_rows(path, **cure)


def test_a_cell_of_another_format_is_a_bad_row(tmp_path: Path) -> None:
    """A later cell of another format is an error; its remedies work."""
    head = "a;b\n" + "1,5;1\n" * 200
    path = write(tmp_path / "a.csv", head + "2.5;2\n")
    options = {"formats": {"a": "1234,5"}, "types": {"a": "float64"}}
    with pytest.raises(DataError) as caught:
        read_rows(path, **options)
    assert str(caught.value).startswith(
        f"{path}, line 202, column 'a': found '2.5', expected it written as '1234,5'. Add '2.5' to"
    )
    nulls = ("", "2.5")
    assert read_rows(path, **options, nulls=nulls)[-1] == {"a": None, "b": 2}
    assert read_rows(path, types={"a": "text"})[-1] == {"a": "2.5", "b": 2}


def test_formats_are_the_same_in_every_range(tmp_path: Path) -> None:
    """Cells of all ranges are read as those of one."""
    lines = [
        f"{n % 28 + 1}.{n % 12 + 1}.2024;{n},5;{'ja' if n % 3 else 'nein'}" for n in range(3000)
    ]
    path = write(tmp_path / "a.csv", "\n".join(["tag;x;ok", *lines]))
    rows = read_rows(path)
    assert len(plan_of(path, range_bytes=5000).ranges) > 5
    assert read_rows(path, range_bytes=5000) == rows
    assert rows[5] == {"tag": DAY(2024, 6, 6), "x": 5.5, "ok": True}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252", "shift_jis"])
def test_other_encodings_are_one_range(tmp_path: Path, encoding: str) -> None:
    """Text of another encoding is read whole, with right line numbers."""
    word = "日本" if encoding == "shift_jis" else "é"
    lines = [f"{n},{word}" for n in range(3000)]
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join(["a,b", *lines, "x,y"]).encode(encoding))
    options: dict[str, Any] = {"encoding": encoding, "types": {"a": "int64"}}
    plan = plan_of(path, range_bytes=1000, **options)
    assert len(plan.ranges) == 1
    with pytest.raises(DataError, match="line 3002, column 'a': found 'x'"):
        read_rows(path, **options)
    path.write_bytes("\n".join(["a,b", *lines]).encode(encoding))
    assert read_rows(path, **options)[-1] == {"a": 2999, "b": word}
    path.write_bytes("\n".join(["a,b", *lines]).encode(encoding) + b"\n1,\x81")
    if encoding == "cp1252":
        with pytest.raises(DataError, match=f"found bytes that are not {encoding}.*'encoding'"):
            read_rows(path, **options)


def test_a_few_bytes_that_are_not_utf_8_are_bad_rows(tmp_path: Path) -> None:
    """Damaged text is not taken for another encoding; the remedies work."""
    path = write(tmp_path / "a.csv", "a\n" + "größe\n" * 50 + "x\n")
    Path(path).write_bytes(Path(path).read_bytes() + b"\xff\n")
    with pytest.raises(
        DataError, match=r"line 53, column 'a'.*Set 'encoding' of the source, such as cp1252"
    ):
        read_rows(path)
    assert read_rows(path, encoding="cp1252")[-1] == {"a": "ÿ"}
    assert read_rows(path, types={"a": "bytes"})[-1] == {"a": b"\xff"}


@pytest.mark.parametrize(
    "text",
    [
        "1.234,5 €", "$1,234.5", "1234,5", "1 234,5%", "1'234.5", "%d/%m/%Y", "%m-%d-%y %I:%M %p",
        "yes/no", "1,23,456.5", "₹1,23,456.5", "1234.5 km/h", "%B %d, %Y", "%b-%y", "%a, %d %b %Y",
        "%I:%M %p",
    ],
)  # fmt: skip
def test_a_format_is_shown_as_it_is_read(text: str) -> None:
    """The text of a format reads as the same format."""
    format_ = parse_format(text)
    assert str(format_) == text
    assert parse_format(str(format_)) == format_


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1.234.5", "%d/%q/%Y", "%d/%m", "a/a", "12345", "%Y-%m-%d %p", "%a"),
        *("1,23,456,5", "($1,234.5)", "1.234,5-"),
    ],
)
def test_a_text_that_is_no_format(text: str) -> None:
    """Another text is refused with examples of formats."""
    with pytest.raises(ValueError, match=r"expected the number 1234\.5 as the file writes it"):
        parse_format(text)


def test_columns_with_equal_types(tmp_path: Path) -> None:
    """Plain columns next to formatted ones keep their types."""
    path = write(tmp_path / "a.csv", "i;f;d;s\n1;0.5;2024-01-01;x\n2;1.25;2024-01-02;1,5\n")
    assert types_of(path) == {"i": "int64", "f": "double", "d": "date32[day]", "s": "string"}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("is_zipped", [False, True])
def test_lines_above_a_table_in_ranges(tmp_path: Path, newline: str, is_zipped: bool) -> None:
    """Titles are left out of each file; line numbers stay."""
    titles = ["Sales, by month", "", '"Berlin", 2024']
    texts = []
    for number in range(2):
        lines = [*titles, "n,x,s", *(f'{n},{n / 2},"a{n}"' for n in range(500))]
        texts.append(newline.join([*lines, f"{number}", ""]))
    paths = [tmp_path / f"{n}.csv{'.gz' if is_zipped else ''}" for n in range(2)]
    for path, text in zip(paths, texts, strict=True):
        data = text.encode()
        path.write_bytes(gzip.compress(data) if is_zipped else data)
    plan = plan_of(*paths, range_bytes=3_000)
    assert plan.decisions == (
        "skip_lines: 3  # 3 lines above the table, such as 'Sales, by month'",
    )
    table, _, rejected = read.read_table(plan, reject=True)
    assert table.column("n").to_pylist() == [*range(500), *range(500)]
    assert [bad.position for bad in rejected] == ["line 505", "line 505"]


SECOND = [
    ("a,b\n1,x\n2,y\n", "a;b\n3;x\n4;y\n", "found the delimiter ';', expected ','"),
    ("a;b\n1;x\n2;y\n", "a\tb\n3\tx\n4\ty\n", "expected ';'"),
    ("a,b\n1,x\n2,y\n", "Title\n\na,b\n1,x\n2,y\n3,z\n", "found the skip_lines 2, expected 0"),
    ("a,b\n1,h\xe9\n2,y\n".encode("cp1252"), "a,b\n1,hé\n2,y\n", "found the encoding 'utf-8', expected 'latin-1'"),
    ("a,b\n1,hé\n2,y\n", "a,b\n1,h\xe9\n2,y\n".encode("cp1252"), "found the encoding 'latin-1', expected 'utf-8'"),
    ("a,b\n1,h\xe9\n".encode("cp1252"), "a,b\n1,h€\n".encode("cp1252"), "found the encoding 'cp1252', expected 'latin-1'"),
    ("a,b\n1,x\n2,y\n", "a,b\n1,x\n2,y\n".encode("utf-16"), "found the encoding 'utf-16', expected 'utf-8'"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "message"), SECOND)
def test_a_file_with_another_dialect_is_an_error(tmp_path, first, second, message):
    """The error names both files, and what differs."""
    paths = write(tmp_path / "a.csv", first), write(tmp_path / "b.csv", second)
    with pytest.raises(DataError) as caught:
        plan_of(*paths)
    assert str(caught.value).startswith(f"{paths[1]}: found")
    assert message in str(caught.value)
    assert paths[0] in str(caught.value)


def test_backslashes_before_quotes_are_refused(tmp_path: Path) -> None:
    """Escapes by backslashes are an error that says what to do."""
    for cell in (r'"say \"hi\", he"', r'"\"hi\""', r'"{\"k\": 1}"'):
        path = write(tmp_path / "a.csv", f'a,b\n1,{cell}\n2,"x"\n')
        with pytest.raises(DataError, match=r"line 2: found text after .* twice .* backslash"):
            read_rows(path)
    path = write(tmp_path / "b.csv", 'a,b\n1,"C:\\"\n2,"x ""y"""\n')
    assert read_rows(path)[0] == {"a": 1, "b": "C:\\"}


@pytest.mark.parametrize(
    ("cell", "encoding"),
    [("5,50 €", "cp1252"), ("21°", "latin-1"), ("£3", "latin-1"), ("“7” – §8", "cp1252")],
)
def test_signs_of_western_text(tmp_path: Path, cell: str, encoding: str) -> None:
    """A table with signs beyond ASCII is read, with a note."""
    lines = "".join(f"{n};{cell}\n" for n in range(50))
    path = write(tmp_path / "a.csv", f"id;a\n{lines}".encode(encoding))
    assert plan_of(path).decisions[0].startswith(f"encoding: {encoding}  # a guess: check")
    assert read_rows(path, types={"a": "text"})[7] == {"id": 7, "a": cell}


@pytest.mark.parametrize(
    ("cell", "encoding"),
    [
        ("台北", "big5"),
        ("名字城市年龄", "gb18030"),
        ("カメラ", "euc_jp"),
        ("Москва", "cp1251"),
        ("Łódź", "cp1250"),
        ("서울", "cp949"),
        ("ｱｲ", "cp932"),
    ],
)
def test_text_of_other_languages(tmp_path: Path, cell: str, encoding: str) -> None:
    """Other text is asked about, and the right encoding settles it."""
    lines = "".join(f"{n},{cell}\n" for n in range(50))
    path = write(tmp_path / "a.csv", f"id,a\n{lines}".encode(encoding))
    with pytest.raises(DataError, match=rf"Set 'encoding: .* another one: .*{encoding}"):
        plan_of(path)
    assert read_rows(path, encoding=encoding)[7] == {"id": 7, "a": cell}
    path = write(tmp_path / "a.jsonl", (f'{{"a": "{cell}"}}\n' * 9).encode(encoding))
    with pytest.raises(DataError, match=r"Set 'encoding: .*' of the source, or another one"):
        plan_of(path)
    assert read_rows(path, encoding=encoding)[7] == {"a": cell}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('id, name, v\n0, "n, x", 2\n1, "m", 3\n', "a blank before the quote"),
        ('a; "b"\n1; "x"\n2; "y"\n', "a blank before the quote"),
        ('a,b\n1,"x \\"y, z\\""\n2,"\\"x, y\\""\n', "quotes behind a backslash"),
    ],
)
def test_odd_quotes_are_written_anew(tmp_path, monkeypatch, text, message):
    """Quotes behind blanks or backslashes are an error, whose remedy works."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=f"found {message}") as caught:
        read_rows("a.csv")
    exec(str(caught.value).partition("for example: ")[2], {"pandas": pd})  # noqa: S102 - the remedy
    found = list(read_rows("new.csv")[0].values())
    assert found in ([0, "n, x", 2], [1, "x"], [1, 'x "y, z"'])


def test_a_blank_before_a_quote_in_text(tmp_path: Path) -> None:
    """One such cell is a text like others."""
    path = write(tmp_path / "a.csv", 'a,b\n1,x\n2, "y"\n3,z\n')
    assert read_rows(path)[1]["b"] == ' "y"'


def test_single_quotes_of_one_column(tmp_path: Path) -> None:
    """Single quotes are found that enclose cells, but no names."""
    path = write(tmp_path / "a.csv", "id,a,b\n" + "".join(f"{n},'x, {n}',1.5\n" for n in range(20)))
    assert read_rows(path)[3] == {"id": 3, "a": "x, 3", "b": 1.5}


@pytest.mark.parametrize(
    ("cells", "pattern", "value"),
    [
        (["01-Jan-2024", "9-SEP-1999"], "%d-%b-%Y", "1999-09-09"),
        (["31 Dec 24", "1 may 70"], "%d %b %y", "1970-05-01"),
        (["31/Dec/2024 10:05", "1/Feb/2024 9:00"], "%d/%b/%Y %H:%M", "2024-02-01 09:00:00"),
        (["January 31, 2024", "May 5, 2024"], "%b %d, %Y", "2024-05-05"),
        (["Jan 31, 2024", "May 5, 2024"], "%b %d, %Y", "2024-05-05"),
        (["1 May 2024", "31 December 2024"], "%d %b %Y", "2024-12-31"),
        (["2024 Mar 09", "2024 May 10"], "%Y %b %d", "2024-05-10"),
        (["Sat, 9 Mar 2024", "Sun, 10 Mar 2024"], "%a, %d %b %Y", "2024-03-10"),
        (["March 9, 2024 at 8:30 PM", "March 10, 2024 at 12:05 AM"], "%b %d, %Y at %I:%M %p",
         "2024-03-10 00:05:00"),
        (["3/31/2024, 8:30:00 PM", "3/1/2024, 9:05:10 AM"], "%m/%d/%Y, %I:%M:%S %p",
         "2024-03-01 09:05:10"),
        (["8:30 PM", "12:05 am"], "%I:%M %p", "00:05:00"),
        (["8:30:01PM", "12:05:00PM"], "%I:%M:%S%p", "12:05:00"),
    ],
)  # fmt: skip
def test_names_of_months(tmp_path: Path, cells: list[str], pattern: str, value: str) -> None:
    """Dates with English names of months are found and checked."""
    path = write(tmp_path / "a.csv", "a,b\n" + "".join(f'"{cell}",1\n' for cell in cells * 9))
    (decision,) = plan_of(path).decisions
    assert f'"{pattern}"' in decision
    rows = read_rows(path)
    assert str(rows[1]["a"]) == value
    assert read_rows(path, formats={"a": pattern}) == rows


@pytest.mark.parametrize(
    ("wrong", "pattern", "type_"),
    [
        ("31-Feb-2024", "%d-%b-%Y", "date"),
        ("01-Foo-2024", "%d-%b-%Y", "date"),
        ("01-Janu-2024", "%d-%b-%Y", "date"),
        ("Xxx, 1 Jan 2024", "%a, %d %b %Y", "date"),
        ("13:00 PM", "%I:%M %p", "time"),
        ("24:00", "%H:%M", "time"),
    ],
)
def test_what_is_no_date(tmp_path: Path, wrong: str, pattern: str, type_: str) -> None:
    """Days that no calendar has, and other words, are errors."""
    path = write(tmp_path / "a.csv", f'a,b\n"{wrong}",1\n')
    with pytest.raises(DataError, match=f"found '{wrong}', expected it written as '{pattern}'"):
        read_rows(path, formats={"a": pattern}, types={"a": type_})


def test_a_format_of_another_type_than_declared(tmp_path: Path) -> None:
    """A time of day is no timestamp; the remedy works."""
    path = write(tmp_path / "a.csv", "a,b\n" + "8:30 PM,1\n" * 20)
    with pytest.raises(
        DataError, match=r"found '8:30 PM', expected a timestamp.*types: \{a: text\}"
    ):
        read_rows(path, types={"a": "timestamp"})
    assert read_rows(path, types={"a": "text"})[0]["a"] == "8:30 PM"
    assert read_rows(path)[0]["a"] == datetime.time(20, 30)


def test_comments_above_two_tables_are_no_rows(tmp_path: Path) -> None:
    """The error names the second table, as Google Analytics writes it."""
    first, second = "day,users,from\n" + "1,2,x\n" * 20, "day,visits\n" + "1,2\n" * 15
    path = write(tmp_path / "a.csv", f"# All data\n# 2024\n\n{first}\n{second}")
    assert plan_of(path).decisions[0].startswith("skip_lines: 3")
    with pytest.raises(DataError, match="line 26: found 2 cells, expected 3"):
        read_rows(path)
