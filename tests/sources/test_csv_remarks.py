"""Remarks on columns of texts, and the lines that read them."""

from __future__ import annotations

import csv
import datetime
import io
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sql.expressions import evaluate, parse_expression
from tests.sources.support import plan_of, read_rows, write

DAY, TIME, MOMENT = datetime.date, datetime.time, datetime.datetime
WHEN = MOMENT(2024, 2, 29, 1, 4, 5, tzinfo=datetime.timezone.utc)


def put(tmp_path: Path, cells: list[str], name: str = "a") -> str:
    """Writes a file whose first column has the cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [(name, "b"), *((cell, n) for n, cell in enumerate(cells))]
    )
    return write(tmp_path / "a.csv", text.getvalue())


FORMATTED = [
    ([f"{n} kg" for n in range(20)], "numbers with a unit, such as '0 kg'", 5),
    ([f"{n}.5cm" for n in range(20)], "numbers with a unit, such as '0.5cm'", 5.5),
    ([f"{n},5 km/h" for n in range(20)], "numbers with a unit, such as '0,5 km/h'", 5.5),
    ([f"1,{n}00 m²" for n in range(10, 30)], "numbers with a unit, such as '1,1000 m²'", None),
    ([f"1,{n},000 m²" for n in range(110, 130)], "numbers with a unit", 1115000),
    ([f'{n}"' for n in range(20)], "numbers with a unit", 5),
    ([f"-{n}.5°C" for n in range(20)], "numbers with a unit, such as '-0.5°C'", -5.5),
    (["January 2024", "May 2024"] * 9, "months, such as 'January 2024'", DAY(2024, 5, 1)),
    (["Jan-24", "May-24"] * 9, "months, such as 'Jan-24'", DAY(2024, 5, 1)),
    (["2024-01", "2024-12"] * 9, "months, such as '2024-01'", DAY(2024, 12, 1)),
    (["6:50", "10:20"] * 9, "perhaps times of day, such as '6:50'", TIME(10, 20)),
    (["06h50", "10h20"] * 9, "perhaps times of day, such as '06h50'", TIME(10, 20)),
    (["2024-02-29 03:04:05 +0200"] * 12, "times, such as '2024-02-29 0", WHEN),
    (["29/Feb/2024:03:04:05 +0200"] * 12, "times, such as '29/Feb", WHEN),
    (["Thu Feb 29 03:04:05 +0200 2024"] * 12, "times, such as 'Thu Feb 29", WHEN),
    (["Thu, 29 Feb 2024 01:04:05 GMT"] * 12, "times, such as 'Thu, 29", WHEN),
]


@pytest.mark.parametrize(("cells", "words", "value"), FORMATTED)
def test_a_format_reads_the_texts(tmp_path, cells, words, value):
    """The finding has the format, and the format works."""
    path = put(tmp_path, cells)
    (finding,) = plan_of(path).decisions
    assert finding.startswith(f"types: {{a: text}}  # {words}")
    assert read_rows(path)[5]["a"] == cells[5]
    if value is None:
        return
    line = finding.partition("; ")[2].rpartition(" read")[0]
    options: dict[str, Any] = yaml.safe_load(line)
    assert read_rows(path, **options)[5]["a"] == value


@pytest.mark.parametrize("mark", [".", ","])
def test_the_minus_may_stand_behind_the_number(tmp_path: Path, mark: str) -> None:
    """Accounts write it so, and programs such as SAP."""
    numbers = [n * 123.25 * (-1) ** n for n in range(1, 40)]
    other = "," if mark == "." else "."
    cells = [f"{abs(n):,.2f}".translate({44: other, 46: mark}) + "-" * (n < 0) for n in numbers]
    assert [row["a"] for row in read_rows(put(tmp_path, cells))] == numbers


DERIVED = [
    (['="007"', '="x, 1"'], "007"),
    (["'0042", "'7"], "0042"),
    (["24:04:05", "7:00:00"], 86_645),
    (["1 days 00:00:01.5", "0 days 07:00:00"], 86_401.5),
    (["PT1H1M1S", "PT5S"], 3_661),
    (["2024-W05", "2020-W53"], DAY(2024, 1, 29)),
    (["2024Q3", "2020Q1"], DAY(2024, 7, 1)),
    (["19M", "201k"], 19e6),
    (["[1.5, -2e1]", "[0, 3]"], [1.5, -20]),
    (["[1.5  2.]", "[ 0 3\n4]"], [1.5, 2]),
    (["POINT (-1.5 2)", "POINT (0 3)"], [-1.5, 2]),
    (["0 1 2 3 4 5 6 7", "7 6 5 4 3 2 1 0"], [*range(8)]),
    (["['a', 'b']", "[]"], ["a", "b"]),
    (['{"a": "x", "b": 2}', '{"a": null}'], "x"),
    (["5/10", "7 / 10"], 5),
    (
        ["2024/01/15 9:04:05 PM GMT+5:30", "2024/01/15 11:00:00 AM GMT-8"],
        MOMENT(2024, 1, 15, 15, 34, 5, tzinfo=datetime.timezone.utc),
    ),
    (["1,000+", "500+"], 1000),
    (["<0.5", "0.7"], 0.5),
    (["-12.5 p", "3"], -12.5),
    (["66.4 [65.2-67.6]", "60 [1-99]"], 66.4),
]


@pytest.mark.parametrize(("cells", "value"), DERIVED)
def test_an_expression_reads_the_texts(tmp_path, cells, value):
    """The finding has SQL, which works, also with other texts."""
    for others in ([], ["12 other"]):
        path = put(tmp_path, [*cells * 20, *others])
        (finding,) = plan_of(path).decisions
        derive = yaml.safe_load(re.findall("(derive: .*}) reads them", finding)[0])["derive"]
        rows = pa.RecordBatch.from_pylist([{"a": row["a"]} for row in read_rows(path)])
        values = evaluate(rows, parse_expression("a", derive["a_value"], ["a"])).to_pylist()
        assert values[0] == value
        assert len(values) == 40 + len(others)


def test_a_unit_with_two_readings(tmp_path: Path) -> None:
    """The finding has both formats."""
    path = put(tmp_path, [f"1,{n} km" for n in range(110, 130)])
    (finding,) = plan_of(path).decisions
    assert 'formats: {a: "1234,5 km"} or {a: "1,234.5 km"} reads numbers' in finding
    assert read_rows(path, formats={"a": "1234,5 km"})[5]["a"] == 1.115
    assert read_rows(path, formats={"a": "1,234.5 km"})[5]["a"] == 1115


def test_a_unit_that_a_cell_lacks(tmp_path: Path) -> None:
    """The finding names the cell, and its remedies work together."""
    path = put(tmp_path, [*(f"{n} kg" for n in range(30)), "heavy"])
    (finding,) = plan_of(path).decisions
    assert "such as '0 kg', but not 'heavy'; formats: {a: \"1234.5 kg\"} reads numbers" in finding
    assert finding.endswith("; add 'heavy' to 'nulls' if it means null")
    rows = read_rows(path, formats={"a": "1234.5 kg"}, nulls=("", "heavy"))
    assert [row["a"] for row in rows] == [*range(30), None]


def test_few_rows_have_a_finding_if_all_agree(tmp_path: Path) -> None:
    """Three times in three rows are enough, but not with another text."""
    assert "times of day" in plan_of(put(tmp_path, ["6:50", "10:20", "7:05"])).decisions[0]
    assert plan_of(put(tmp_path, ["6:50", "10:20", "late"])).decisions == ()


def test_days_that_are_whole_numbers(tmp_path: Path) -> None:
    """If all numbers are days, the finding has the format, which works."""
    cells = [f"202401{day:02}" for day in range(1, 21)]
    path = put(tmp_path, cells)
    (finding,) = plan_of(path).decisions
    assert finding.startswith("types: {a: int64}  # perhaps days, such as 20240101; formats: ")
    options = yaml.safe_load(finding.partition("; ")[2].rpartition(" reads")[0])
    assert read_rows(path, **options)[5]["a"] == DAY(2024, 1, 6)
    assert plan_of(path, types={"a": "int64"}).decisions == ()
    for other in ("20240132", "7", "99991231"):
        assert plan_of(put(tmp_path, [*cells, other])).decisions == ()
    assert plan_of(put(tmp_path, cells[:5])).decisions == ()


TEXTS = [
    ["75:30", "2:05"] * 9,
    ["x|y", "x"],
    ["1-may-be", "2 jan and 3"],
    ["75 kg", "12.5 lb"] * 9,
    [f"{n} {street}" for n in range(9) for street in ("Main St", "Oak Avenue", "Elm Street")],
    ["iPhone 12", "7 Up", "3M tape", "5 kg rice", "Windows 11", "12 Monkeys"] * 5,
    [f"{n}.{n % 3}.{n % 5}" for n in range(20)],
    [f"10.0.{n}.{n}" for n in range(20)],
    [f"555-{n}" for n in range(1000, 1020)],
    [f"{n}-{n + 9}" for n in range(20)],
    [f"{n}A" for n in range(20)],
    [f"A{n}" for n in range(20)],
    [f"user_{n}" for n in range(20)],
    [f"{n}th" for n in range(4, 20)],
    ["May", "June", "March"] * 9,
    ["May 2024 was warm", "June 2024 was not"] * 9,
    ["Mon", "Tue"] * 9,
    ["16:9", "4:3"] * 9,
    ["00501 kg", "00502 kg"] * 9,
    ["5 kg"] * 5,
]


@pytest.mark.parametrize("cells", TEXTS)
def test_other_texts_need_no_word(tmp_path: Path, cells: list[str]) -> None:
    """Addresses, products, codes and scores have no finding."""
    assert plan_of(put(tmp_path, cells)).decisions == ()


@pytest.mark.parametrize(
    "cells", [["12E10", "13E11"], ["4758331096E100"], ["007.5", "13.5"], ["00E5", "1E5"]]
)
def test_codes_that_parse_as_numbers_are_texts(tmp_path: Path, cells: list[str]) -> None:
    """Exponents without a point in all cells, and leading zeros.

    Keep their form.
    """
    path = put(tmp_path, cells)
    (finding,) = plan_of(path).decisions
    assert finding.startswith(f"types: {{a: text}}  # codes, such as {cells[0]!r}")
    assert [row["a"] for row in read_rows(path)] == cells
    assert read_rows(path, types={"a": "float64"})[0]["a"] == float(cells[0])
    assert plan_of(path, types={"a": "text"}).decisions == ()


def test_numbers_with_exponents_among_others_stay_numbers(tmp_path: Path) -> None:
    """A point, a sign or a fraction shows that cells are numbers."""
    for cells in (["1e5", "2.5"], ["1e-5", "2e5"], ["0.5", "1e5"], ["1.0e5"]):
        assert [row["a"] for row in read_rows(put(tmp_path, cells))] == [float(c) for c in cells]


def test_white_space_around_texts_has_a_finding(tmp_path: Path) -> None:
    """The option in it takes all kinds off, before nulls are found."""
    path = put(tmp_path, [" x", " ?", "y\u00a0", "\u3000z\t", "w"])
    (blanks, nulls) = plan_of(path).decisions
    assert blanks.startswith("trim: false  # 4 values of 'a' with white space around, such as ' x'")
    assert "' ?' may mean null: 1 of 5 values of 'a'" in nulls
    rows = read_rows(path, trim=True, nulls=(*Source.nulls, "?"))
    assert [row["a"] for row in rows] == ["x", None, "y", "z", "w"]
    assert plan_of(path, trim=False).decisions == (nulls,)


def test_a_text_for_null_alone_has_a_finding(tmp_path: Path) -> None:
    """No other value tells what it is."""
    (finding,) = plan_of(write(tmp_path / "a.csv", "a,b\n1,-\n2,-\n")).decisions
    assert "'-' may mean null: 2 of 2 values of 'b'" in finding


def test_numbers_with_white_space_around_texts_that_mean_null(tmp_path: Path) -> None:
    """Declared or not, ``trim`` reads them as numbers."""
    path = put(tmp_path, ["\u30001", " ?", "3 "])
    for types in ({}, {"a": "int64"}):
        rows = read_rows(path, trim=True, types=types, nulls=("?",))
        assert [row["a"] for row in rows] == [1, None, 3]
    with pytest.raises(DataError, match="line 3, column 'a': found ' x', expected an integer"):
        read_rows(put(tmp_path, ["1", " x"]), trim=True, types={"a": "int64"})


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["DE", "NA", "FR"], "NA"),
        (["usd", "eur", "nan"], "nan"),
        (["ABCD", "NULL", "EFGH"], "NULL"),
        (["DE", "NA", "DE"], ""),  # one other code
        (["de", "NA", "fr"], ""),
        (["Smith", "NA", "Jones"], ""),
        (["1", "NA", "3"], ""),
        (["DE", "", "FR"], ""),
    ],
)
def test_null_texts_that_look_like_codes(tmp_path: Path, cells: list[str], read: str) -> None:
    """A null text that looks like all others has a finding."""
    path = write(tmp_path / "a.csv", "a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    found = [line for line in plan_of(path).decisions if "is read as null" in line]
    assert len(found) == bool(read)
    for line in found:
        assert f"'{read}' is read as null: 1 cells of 'a'" in line
        options = yaml.safe_load(line.rpartition("; ")[2].removesuffix(" keeps it"))
        assert [row["a"] for row in read_rows(path, **options)] == cells
        assert plan_of(path, **options).decisions == ()


@pytest.mark.parametrize("second", ["s,m/s,", "int,float,string", ",Total,x"])
def test_a_line_of_units_below_the_names_is_a_question(tmp_path: Path, second: str) -> None:
    """The error has the keys that leave it out."""
    path = write(tmp_path / "a.csv", f"t,v,w\n{second}\n" + "1,2.5,2\n" * 20)
    words = r"line 2: .*'header: false', 'skip_lines: 2' and 'columns: \[t, v, w\]'; set 'header: t"
    with pytest.raises(DataError, match=words):
        plan_of(path)
    rows = read_rows(path, header=False, skip_lines=2, columns=("t", "v", "w"))
    assert rows == [{"t": 1, "v": 2.5, "w": 2}] * 20
    assert len(read_rows(path, header=True)) == 21


@pytest.mark.parametrize("rows", ["fig plum", "Ann Bob", "u@x v@y", "Al,Lee Bob,Ray", ">s1 A >s2"])
def test_names_may_be_a_row(tmp_path: Path, rows: str) -> None:
    """A finding has the keys that read it."""
    path = write(tmp_path / "a.txt", rows.replace(" ", "\n"))
    found = read_rows(path, header=False, columns=re.findall(r"column\d", *plan_of(path).decisions))
    assert " ".join(",".join(row.values()) for row in found) == rows


@pytest.mark.parametrize("second", ["x,1,y", ",n/a,y", "x,,"])
def test_a_row_of_texts_is_no_line_of_units(tmp_path: Path, second: str) -> None:
    """One with a number, or with one text, is a row."""
    path = write(tmp_path / "a.csv", f"t,v,w\n{second}\n" + "1,2.5,2\n" * 20)
    assert len(read_rows(path)) == 21


@pytest.mark.parametrize(
    ("first", "row", "is_header"),
    [
        ("name,code,2019,2020,2021,", "a,b,1,2,,", True),
        ("label,0,1,2,3", "7,0,255,0,9", True),
        (",0,1,2", "0,5.1,3.5,1.4", True),
        ("0,1,2,class", "5.1,3.5,1.4,setosa", True),
        ("0,1,2,setosa", "5.1,3.5,1.4,setosa", False),
        ("0,1,2,3", "5,3,1,4", False),
        ("x,0,2,3", "y,3,1,4", False),
    ],
)
def test_numbers_may_be_names(tmp_path: Path, first: str, row: str, is_header: bool) -> None:
    """Years, and columns that pandas has counted, are names."""
    path = write(tmp_path / "a.csv", "\n".join([first, *[row] * 9]))
    assert len(read_rows(path)) == 9 + (not is_header)


def test_a_declared_column_needs_no_word(tmp_path: Path) -> None:
    """The recipe has decided."""
    path = put(tmp_path, [f"{n} kg" for n in range(20)])
    assert plan_of(path, types={"a": "text"}).decisions == ()


@pytest.mark.parametrize(
    "part", ["1", "0", "'1", "[1", "1 ", ".1", "1e", "[ ", "{ ", '" ', "1,", "a|", "-", " \u00a0"]
)
def test_a_long_text_takes_no_square_of_time(tmp_path, part):
    """A megabyte in one cell is planned as fast as many cells."""
    path = put(tmp_path, [part * (1_000_000 // len(part)) + "x", "y0", "z1"])
    begin = time.process_time()
    plan_of(path)
    assert time.process_time() - begin < 5


SENTENCES = "This is one sentence here\nAnd this is another one\n"
PAIRS = "I was there.\tIch war da.\nYou were not.\tDu nicht.\n" * 2


@pytest.mark.parametrize(
    ("text", "columns"), [(SENTENCES, ("column1",)), (PAIRS, ("column1", "column2"))]
)
def test_sentences_may_be_names_or_a_row(tmp_path, text, columns):
    """The question has both answers, which work; no row is lost."""
    path = write(tmp_path / "a.tsv", text)
    with pytest.raises(DataError, match="may be names of columns or a row") as caught:
        plan_of(path)
    assert f"columns: [{', '.join(columns)}]'" in str(caught.value)
    assert len(read_rows(path, header=False, columns=columns)) == text.count("\n")
    assert len(read_rows(path, header=True)) == text.count("\n") - 1


def test_units_of_japan_and_years_of_two_digits(tmp_path: Path) -> None:
    """Yen are numbers, and the finding says the century."""
    path = write(tmp_path / "a.tsv", "a\tb\n\uffe51,200,000\t31.01.68\n\uffe5980\t01.02.69\n")
    assert [(row["a"], row["b"].year) for row in read_rows(path)] == [
        (1_200_000, 2068),
        (980, 1969),
    ]
    assert "years of two digits are 1969 to 2068" in plan_of(path).decisions[-1]
