"""Texts that parse as numbers and are codes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.csv.codes import are_codes, lost_by_float32, plain_numbers
from beam_pipelines.sources.csv.column_formats import may_be_grouped
from beam_pipelines.sources.csv.parser import CsvParser
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.quotes import Dialect
from beam_pipelines.sources.whole_numbers import refused
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, types_of, write


def put(tmp_path: Path, cells: list[str], name: str = "a") -> str:
    """Writes a file whose first column has the cells."""
    return write(tmp_path / "a.csv", f"{name},b\n" + "".join(f"{cell},1\n" for cell in cells))


CODES = [
    ["007", "12"], ["-007", "5"], ["00.5", "1.5"], ["+4915112345678", "+13334445555"],
    ["+49 151 123", "+49 151 124"], ["12E10", "13e11"], ["1_000", "2_000"], ["Infinity", "Nan"],
    ["inf", "Inf"], ["0x1F", "0x2A"], ["-0x1F", "0x2A"],
]  # fmt: skip


NUMBER = r"\A[+-]?[0-9]{0,9}[0-9](\.[0-9]{0,4})?(0{0,9})(e[0-9])?\Z"


@given(st.lists(st.from_regex(NUMBER), min_size=1, max_size=4))
def test_plain_numbers_need_no_closer_look(cells: list[str]) -> None:
    """They are no codes, lose nothing, and have no grouping."""
    texts = pa.chunked_array([cells])
    if plain_numbers(pa.table({"a": texts}), [True], 500):
        assert not are_codes("a", texts)
        assert not lost_by_float32("a", texts, texts.cast(pa.float64()))
        assert not may_be_grouped(texts)
        assert not pc.any(refused(texts)).as_py()
    table = pa.table(
        {"a": ["1.5", None], "b": ["7", "-1"], "c": ["7", "07"], "version": ["1.5"] * 2}
    )
    assert plain_numbers(table, [True, False, False, True], 9) == {"a", "b"}


@pytest.mark.parametrize("cells", CODES)
def test_codes_are_texts(tmp_path: Path, cells: list[str]) -> None:
    """They keep their digits, also next to a null."""
    path = put(tmp_path, [*cells, ""])
    assert [row["a"] for row in read_rows(path)] == [*cells, None]


@pytest.mark.parametrize("name", ["version", "app version", "os_version_2", "Release"])
def test_versions_are_texts(tmp_path: Path, name: str) -> None:
    """1.10 is another version than 1.1; other names have numbers."""
    path = put(tmp_path, ["1.10", "1.20"], name)
    assert [row[name] for row in read_rows(path)] == ["1.10", "1.20"]
    (finding,) = plan_of(path).decisions
    assert "codes, such as '1.10'" in finding
    assert types_of(put(tmp_path, ["1.10", "1.20"], "conversion")) == {
        "conversion": "double",
        "b": "int64",
    }


LOST: list[tuple[list[str], str, Any]] = [
    (["+1.5", "4758331096E+100"], "'4758331096E+100' is beyond float32", None),
    (["17031000001.0", "17031000002.0"], "whole numbers, such as '17031000001.0'", 17031000002),
]


@pytest.mark.parametrize(("cells", "words", "value"), LOST)
def test_numbers_that_lose_something_have_a_finding(tmp_path, cells, words, value):
    """They are numbers, and the type in the finding keeps all digits."""
    path = put(tmp_path, cells)
    (finding,) = plan_of(path).decisions
    assert finding.startswith(f"types: {{a: float64}}  # {words}")
    options = yaml.safe_load(finding.rpartition("; ")[2].partition(" keeps ")[0])
    assert read_rows(path, **options)[1]["a"] == (cells[1] if value is None else value)
    assert plan_of(path, types={"a": "float64"}).decisions == ()


@pytest.mark.parametrize(
    "cells",
    [
        ["1.50", "2.00"],
        ["1.5", "0.12345678901234567891", "4503599627370497.3"],
        ["0.30000000000000004", "0.1"],
        ["1.000000000000000056e-01", "2.999999999999999889e-01"],  # as numpy's savetxt writes
        ["5.0", "6.0"],
        ["Infinity", "1.5"],
        ["+5", "-3", "1.5"],
        ["1e5", "100"],
        ["104", "12E10"],
        ["1.9", "1.10"],
        ["1.5", " 2.5 ", "-Infinity"],
    ],
)
def test_numbers_are_numbers(tmp_path: Path, cells: list[str]) -> None:
    """Whatever programs write, without a finding."""
    path = put(tmp_path, cells)
    assert [row["a"] for row in read_rows(path)] == [float(cell) for cell in cells]
    assert plan_of(path).decisions == ()


@pytest.mark.parametrize("cell", ["12345678901234567.25", "9007199254740993", "9007199254740993.0"])
def test_long_numbers_among_fractions_are_asked_about(tmp_path: Path, cell: str) -> None:
    """In the sample and behind it; both remedies work."""
    path = put(tmp_path, [cell, "1.5"])
    with pytest.raises(DataError, match=f"column 'a': found the .* {re.escape(cell)}, .*rounds"):
        plan_of(path)
    assert read_rows(path, types={"a": "text"})[0]["a"] == cell
    assert read_rows(path, types={"a": "float64"})[0]["a"] == float(cell)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_header_among_numbers(tmp_path: Path, end: str, mark: str) -> None:
    """No type follows from it; it is a bad row."""
    lines = ["a,b", *["1,2.5"] * 3, f"{mark}a,b", "3,4", f"{mark}a,b"]
    path = write(tmp_path / "a.csv", end.join(lines) + end)
    assert types_of(path) == {"a": "int64", "b": "double"}
    (finding,) = plan_of(path).decisions
    assert finding.startswith(f"headers among the rows: 2, first in {path}, line 5")
    assert "on_error: {reject: 2}" in finding
    with pytest.raises(DataError, match=r"line 5, column 'a': found '.*a', .*a header again"):
        read_rows(path)
    _, counts, _ = read.read_table(plan_of(path), reject=True)
    assert counts == {"read": 4, "rejected": 2}


def test_a_header_among_texts(tmp_path: Path) -> None:
    """The filter in the finding leaves it out."""
    path = write(tmp_path / "a.csv", "a's,b\nx,y\na's,b\n,z\n\"it, a's\",b\n")
    (finding,) = plan_of(path).decisions
    sql = yaml.safe_load(finding.partition("  # ")[2].removesuffix(" leaves such rows out"))
    batch = pa.RecordBatch.from_pylist(read_rows(path))
    kept = evaluate(batch, parse_expression("filter", sql["filter"], batch.schema.names))
    assert kept.to_pylist() == [True, False, True, True]
    assert plan_of(write(tmp_path / "b.csv", "word\nA\nword\nB\n")).decisions == ()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("k,1 l,2  Total,3", 5),
        ("k,1 l,2 m,2   , Total,3 ", 7),
        ("k,1 l,2  c,d Total,3 m,4", 5),
        *((rows, 0) for rows in ("k,1 l,2  ", "k,1  l,2  m,3", '"k  l",1 m,2')),
    ],
)
def test_rows_behind_an_empty_line(tmp_path: Path, end: str, rows: str, found: int) -> None:
    """They stay rows, and a finding has their line."""
    path = write(tmp_path / "a.csv", f"a,b {rows}".replace(" ", end))
    words = [line.partition("  # ")[0] for line in plan_of(path).decisions if "empty" in line]
    assert words == [f"rows behind an empty line, from {path}, line {found}"] * bool(found)
    assert ("Total" in [row["a"] for row in read_rows(path)]) == bool(found)


@pytest.mark.parametrize(("names", "mark"), [("w,t", ","), ("w\tt", "\t"), ("", "\t")])
def test_groups_behind_empty_lines(tmp_path, monkeypatch, names: str, mark: str) -> None:
    """The command in the finding numbers them, as sentences of CoNLL."""
    monkeypatch.chdir(tmp_path)
    groups = [[f"w{n}{k}{mark}{k % 2}" for k in range(n % 3 + 1)] for n in range(9)]
    write(tmp_path / "a b.tsv", f"{names}\n" * bool(names) + "\n\n".join(map("\n".join, groups)))
    (finding,) = [line for line in plan_of("a b.tsv").decisions if "empty lines" in line]
    assert finding.startswith(f"groups behind empty lines: 8, from a b.tsv, line {3 + bool(names)}")
    cure = finding.partition("# ")[2].removesuffix(" numbers them")
    subprocess.run(cure, shell=True, check=True)  # noqa: S602 - the remedy
    rows = [[str(value) for value in row.values()] for row in read_rows("new.txt")]
    assert rows == [[str(n), *row.split(mark)] for n, group in enumerate(groups) for row in group]


@pytest.mark.parametrize(("cell", "is_one"), [("Total", 1), ('"Grand total:"', 1), ("Totality", 0)])
def test_a_last_row_of_totals(tmp_path: Path, cell: str, is_one: int) -> None:
    """The filter in the finding leaves it out."""
    path = write(tmp_path / "a.csv", "a,b\nx,1\ny,2\n" + f"{cell},3\n")
    findings = [line for line in plan_of(path).decisions if "totals" in line]
    assert len(findings) == is_one
    batch = pa.RecordBatch.from_pylist(read_rows(path))
    for finding in findings:
        sql = yaml.safe_load(finding.partition("  # ")[2].removesuffix(" leaves it out"))
        kept = evaluate(batch, parse_expression("filter", sql["filter"], batch.schema.names))
        assert kept.to_pylist() == [True, True, False]


def parser_of(type_: pa.DataType, is_inferred: bool = True) -> CsvParser:
    """Returns a parser of numbers, whose nulls are empty or 000."""
    schema = pa.schema([("a", type_)])
    exact = frozenset("a" if is_inferred else "")
    return CsvParser(("a",), schema, schema, Dialect(44, 34), ("", "000"), exact)


NUMBER = st.from_regex(r"\A[ ]?[+-]?[017]{1,3}(\.[05]{1,2})?[ ]?\Z")


@given(st.lists(NUMBER, min_size=1, max_size=5), st.booleans())
def test_no_inferred_number_loses_a_leading_zero(cells: list[str], is_float: bool) -> None:
    """Codes are bad cells, also for the kernel; declared numbers are numbers."""
    data = "".join(f"{cell}\n" for cell in cells).encode()
    type_ = pa.float64() if is_float else pa.int64()
    parser, declared = parser_of(type_), parser_of(type_, is_inferred=False)
    codes = [cell for cell in cells if re.match(r" ?[+-]?0[0-9]", cell) and cell != "000"]
    expected = declared.parse_natively(data)
    if expected is None:  # a part in a column of integers
        return
    found = list(parser.sift(data, np.empty(0, np.int64)))
    if not codes:
        assert found == [expected] == [parser.parse_natively(data)]
        return
    assert parser.parse_natively(data) is None
    bad = [one[3] for one in found if not isinstance(one, pa.RecordBatch)]
    assert [re.findall("'(.*?)', expected", error)[0] for error in bad] == codes
    assert all("Declare 'types: {a: text}' to keep such codes" in error for error in bad)


def test_codes_behind_the_sample_are_no_numbers(tmp_path, monkeypatch):
    """The error has place, text and both remedies, which work."""
    monkeypatch.setattr(blocks, "SAMPLE_BYTES", 1000)
    path = put(tmp_path, [*map(str, range(1000, 2000)), "007"])
    with pytest.raises(DataError, match="line 1002, column 'a': found '007'") as error:
        read_rows(path)
    for line in re.findall(r"'types: ({.*?})'", str(error.value)):
        last = read_rows(path, types=yaml.safe_load(line))[-1]
        assert last["a"] == ("007" if "text" in line else 7)
