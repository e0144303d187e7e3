"""CSV and TSV files: types, options, and bad files."""

from __future__ import annotations

import bz2
import datetime
import gzip
import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.csv.header import equal_lines
from beam_pipelines.sources.text import blocks
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of, write


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["1", "-2", ""], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["1", "2.5"], "double"),
        (["true", "False"], "bool"),
        (["2013-01-31", "NA"], "date32[day]"),
        (["2013-01-31", "2013-01-31 05:15:00"], "timestamp[us]"),
        (["2013-01-31 05:15:00.123456"], "timestamp[us]"),
        (["9999-12-31 00:00:00"], "timestamp[us]"),
        (["2013-01-31T05:15:00Z"], "timestamp[us, tz=UTC]"),
        (["05:15:00"], "time64[us]"),
        (["x", "1"], "string"),
        (["007", "1"], "string"),
        (["0x1F"], "string"),
        (["0", "10"], "int64"),
        (["", "NA"], "string"),
    ],
)
def test_types_are_inferred(tmp_path: Path, cells: list[str], type_: str) -> None:
    """Each kind of text becomes the column type that keeps it."""
    path = write(tmp_path / "a.csv", "id,x\n" + "".join(f"k,{cell}\n" for cell in cells))
    assert types_of(path) == {"id": "string", "x": type_}


def test_values_come_back_exactly(tmp_path: Path) -> None:
    """Values are read to the last bit.

    They are int64 extremes, offsets from UTC, quoted nulls, and line ends in cells.
    """
    path = write(
        tmp_path / "a.csv",
        'i,t,s\n9223372036854775807,2013-01-31T05:15:00+02:00,"x\r\ny"\n-9223372036854775808,"NA","a ""b"" 5"" c"\n',
    )
    assert read_rows(path) == [
        {
            "i": 2**63 - 1,
            "t": datetime.datetime(2013, 1, 31, 3, 15, tzinfo=datetime.timezone.utc),
            "s": "x\r\ny",
        },
        {"i": -(2**63), "t": None, "s": 'a "b" 5" c'},
    ]


def test_a_column_of_nulls_is_text_and_named(tmp_path: Path) -> None:
    """A column of nulls in the sample becomes text, and is named."""
    plan = plan_of(write(tmp_path / "a.csv", "x,y\n1,\n2,NA\n"))
    assert plan.null_columns == ("y",)
    assert plan.schema.field("y").type == pa.string()


@pytest.mark.parametrize("value", ["+9007199254740993", "9223372036854774783", "-9007199254740995"])
def test_an_integer_that_a_float_rounds(tmp_path: Path, value: str) -> None:
    """An integer that its float column would round is refused, unless declared."""
    path = write(tmp_path / "a.csv", f"a\n{value}\n1.5\n+1\n")
    with pytest.raises(
        DataError,
        match=f"column 'a': found the integer {re.escape(value)}, expected none that float64",
    ):
        read_rows(path)
    assert read_rows(path, types={"a": "float64"})[0] == {"a": float(value)}
    assert read_rows(write(tmp_path / "a.csv", "a\n+9007199254740992\n1.5\n"))[0] == {
        "a": 9007199254740992.0
    }


@pytest.mark.usefixtures("with_and_without_kernels")
def test_an_integer_may_have_a_plus_sign(tmp_path):
    """``+5`` is an integer, inferred and declared, as in TFDV's CSV reader.

    With leading zeros it is a text, among fractions a float.
    """
    path = write(tmp_path / "a.csv", "i,z,f,u\n+5,+07,+5,+255\n-3,1,2.5,0\n +7 ,,,\n")
    assert types_of(path) == {"i": "int64", "z": "string", "f": "double", "u": "int64"}
    assert read_rows(path, types={"u": "uint8"}) == [
        {"i": 5, "z": "+07", "f": 5.0, "u": 255},
        {"i": -3, "z": "1", "f": 2.5, "u": 0},
        {"i": 7, "z": None, "f": None, "u": None},
    ]
    for cell in ("+256", "+-5", "++5", "+", "+ 5", "5+"):
        path = write(tmp_path / "b.csv", f"u\n+255\n{cell}\n")
        with pytest.raises(DataError, match=f"line 3.*found '{re.escape(cell)}', expected an int"):
            read_rows(path, types={"u": "uint8"})


@pytest.mark.usefixtures("with_and_without_kernels")
def test_digits_with_a_zero_fraction_are_integers(tmp_path):
    """``5.00`` is an integer where one is declared.

    By its digits and not as a float.
    """
    cells = ["17031000001.0", "5.00", "-3.0", "+7.0", " 8.0 ", "9223372036854775807.0", "", "6"]
    path = write(tmp_path / "a.csv", "k,x\n" + "".join(f"k,{cell}\n" for cell in cells))
    expected = [17031000001, 5, -3, 7, 8, 2**63 - 1, None, 6]
    assert [row["x"] for row in read_rows(path, types={"x": "int64"})] == expected
    many = write(tmp_path / "b.csv", "x\n" + "1\n" * 3_000 + "2.0\n" * 3_000)
    assert sum(row["x"] for row in read_rows(many, types={"x": "int64"})) == 9_000
    formatted = write(tmp_path / "c.csv", 'x\n"1.234.567,00"\n"12,0"\n')
    options = {"types": {"x": "int64"}, "formats": {"x": "1.234,5"}}
    assert [row["x"] for row in read_rows(formatted, **options)] == [1_234_567, 12]
    for cell in ("5.", ".0", "5.01", "5.0.0", "1e3", "9223372036854775808.0", "0x1.0"):
        bad = write(tmp_path / "d.csv", f"k,x\nk,1\nk,{cell}\n")
        with pytest.raises(DataError, match=f"line 3.*found '{re.escape(cell)}', expected an int"):
            read_rows(bad, types={"x": "int64"})


@pytest.mark.parametrize("value", ["9223372036854775808", "-99999999999999999999"])
def test_an_integer_beyond_int64_does_not_become_a_float(tmp_path: Path, value: str) -> None:
    """A column of integers beyond int64 has to be declared."""
    path = write(tmp_path / "a.csv", f"x\n1\n{value}\n")
    with pytest.raises(
        DataError, match=rf"column 'x': found the integer {value}.*types: \{{x: text\}}"
    ):
        plan_of(path)
    assert read_rows(path, types={"x": "text"}) == [{"x": "1"}, {"x": value}]
    assert types_of(path, types={"x": "float64"}) == {"x": "double"}


@pytest.mark.parametrize(
    ("options", "content", "rows"),
    [
        ({"delimiter": ";"}, "a;b\n1;2,5\n", [{"a": 1, "b": 2.5}]),
        ({"quote": "'"}, "a,b\n1,'x,''y'\n", [{"a": 1, "b": "x,'y"}]),
        ({"quote": ""}, 'a,b\n1,"x\n', [{"a": 1, "b": '"x'}]),
        ({"header": False, "columns": ("p", "q")}, "1,2\n", [{"p": 1, "q": 2}]),
        ({"columns": ("b",)}, "a,b\n1,2\n", [{"b": 2}]),
        ({"columns": ("c", "a")}, "a,b,c\n1,2,3\n", [{"c": 3, "a": 1}]),
        ({"nulls": ("?",)}, "a,b\n?,NA\n1,?\n", [{"a": None, "b": "NA"}, {"a": 1, "b": None}]),
        ({"types": {"a": "text", "b": "float32"}}, "a,b\n1,2\n", [{"a": "1", "b": 2.0}]),
        ({"types": {"a": "bool"}}, "a,b\n1,2\n0,3\n", [{"a": True, "b": 2}, {"a": False, "b": 3}]),
        ({"types": {"b": "bytes"}}, b"a,b\n1,\xff\n", [{"a": 1, "b": b"\xff"}]),
        ({}, b"\xef\xbb\xbfa,b\r\n1,2\r\n", [{"a": 1, "b": 2}]),
        ({}, b'\xef\xbb\xbf"a","b"\n1,2\n', [{"a": 1, "b": 2}]),
        ({}, "a,b\n1,2", [{"a": 1, "b": 2}]),
        ({}, "a,b\r1,2\r3,4\r", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ({}, "\na,b\n\n1,2\n\n\n3,4\n\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ({}, 'a,"b\nc"\n1,5" disk\n', [{"a": 1, "b\nc": '5" disk'}]),
        ({"format": "tsv"}, "a\tb\n1\t2,3\n", [{"a": 1, "b": 2.3}]),
        ({"types": {"b": "text"}}, "a;b\n1;2,5\n", [{"a": 1, "b": "2,5"}]),
        ({}, 'a\n""\n"x"\n', [{"a": None}, {"a": "x"}]),
    ],
)
def test_options(tmp_path: Path, options: dict, content: str, rows: list[dict]) -> None:
    """Delimiter, quote, header, columns, nulls, types, marks and line ends are honoured."""
    assert read_rows(write(tmp_path / "a.csv", content), **options) == rows


def test_tsv_and_compression_go_by_suffix(tmp_path: Path) -> None:
    """The suffix before the compression's names the format."""
    path = tmp_path / "a.TSV.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    assert read_rows(path) == [{"a": 1, "b": 2}]
    assert plan_of(path).format == "tsv"


COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_streamed(tmp_path, suffix, monkeypatch):
    """A compressed file is cut where records end, and never held whole."""
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 1000)
    rows = [{"a": number, "b": f'line\n"{number}"'} for number in range(500)]
    content = "a,b\n" + "".join('{},"line\n""{}"""\n'.format(row["a"], row["a"]) for row in rows)
    path = tmp_path / f"a.csv{suffix}"
    half = len(content) // 2
    path.write_bytes(
        b"".join(COMPRESS[suffix](part.encode()) for part in (content[:half], content[half:]))
    )
    plan = plan_of(path)
    chunks = list(read.read_range(plan, plan.ranges[0], {}, reject=False))
    assert len(chunks) > 5
    assert [chunk.part for chunk in chunks] == list(range(len(chunks)))
    assert [row for chunk in chunks for row in chunk.batch.to_pylist()] == rows
    assert [chunk.crc32c is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compression_is_an_error(tmp_path: Path, suffix: str) -> None:
    """A compressed file that is cut off names itself."""
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a,b\n" + b"1,2\n" * 1000)[:-6])
    with pytest.raises(DataError, match=r"a\.csv.*damaged"):
        read_rows(path)


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("own", ["", *COMPRESS])
def test_compressed_otherwise_than_named(tmp_path: Path, suffix: str, own: str) -> None:
    """The error names the compression that reads the file."""
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(COMPRESS.get(own, bytes)(b"a,b\n1,2\n"))
    if own != suffix:
        with pytest.raises(DataError, match="Set 'compression: ") as caught:
            read_rows(path)
        compression = str(caught.value).split("'")[-2].split(": ")[1]
        assert read_rows(path, compression=compression) == [{"a": 1, "b": 2}]


HEAD = "id,age,name\n"
BAD = [
    ("1,n/b,x\n", "line 4, column 'age': found 'n/b', expected an integer from -128 to 127. Add 'n/b' to 'nulls'"),
    ("1,300,x\n", "line 4, column 'age': found '300', expected an integer from -128 to 127. Declare"),
    ("1,2\n", "line 4: found 2 cells, expected 3"),
    ("1,2,x,y\n", "line 4: found 4 cells, expected 3"),
    ('1,2,"x"y\n', "line 4: found text after a closing quote"),
    (b"1,2,\xff\n", "line 4, column 'name': found '\\\\xff', expected text in UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), BAD)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_bad_row_is_found(tmp_path, line, message, *, compressed):
    """The error names file, line, column, value, type and cure.

    Rejecting leaves out that row and no other.
    """
    line = line.encode() if isinstance(line, str) else line
    content = HEAD.encode() + b'1,2,"a\nb"\n' + line + b"2,3,z\n" * 50 + line + b"4,5,y\n"
    path = tmp_path / ("a.csv.gz" if compressed else "a.csv")
    path.write_bytes(gzip.compress(content) if compressed else content)
    types = {"age": "int8", "name": "text", "id": "int64"}
    plan = plan_of(path, types=types, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read.read_table(plan, reject=False)
    assert str(caught.value).startswith(f"{path}, {message}"), str(caught.value)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert (
        counts == {"read": 52, "rejected": 2} == {"read": table.num_rows, "rejected": len(rejected)}
    )
    assert [bad.position for bad in rejected] == ["line 4", "line 55"]
    assert rejected[0].source == "s"
    assert rejected[0].text == line.decode("utf-8", "backslashreplace").strip()


def test_lines_are_counted_over_ranges(tmp_path: Path) -> None:
    """A bad row's line is that of the file, in every range."""
    lines = ["x,y"] + [f"{number},{number}" for number in range(2000)]
    lines[1500] = "oops,1"
    path = write(tmp_path / "a.csv", "\r\n".join(lines))
    plan = plan_of(path, range_bytes=1000, types={"x": "int64"})
    assert len(plan.ranges) > 10
    _, _, rejected = read.read_table(plan, reject=True)
    assert [(bad.position, bad.column, bad.text) for bad in rejected] == [
        ("line 1501", "x", "oops,1")
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file, expected data"),
        ("a,b\n".encode("utf-16"), "found UTF-16 text, expected UTF-8. Set 'encoding: utf-16'"),
        (b"a,b\xff\n1,x\n", "found bytes in the header that are not UTF-8"),
        (b"a,b\n", "found a header and no rows"),
        (b"a,b", "found a header and no rows"),
        (b"\n\n", "found no header, but blank lines alone"),
        (b"a,b,a\n1,2,3\n", "found the column name 'a' twice, as columns 1 and 3"),
        ("a,ü\n1,2\n".encode() + b"3,\xff\n", "line 3, column 'ü': found '\\\\xff'"),
        (b'a,b\n1,"x\n2,y\n', "line 2: found a quote that is never closed"),
        (b"a,b\n1,2,3\n1,2,3\n", "line 2: found 3 cells in each row, expected 2"),
    ],
)
@pytest.mark.parametrize("delimiter", [b",", b"\t", b"|"])
def test_a_bad_file_is_found(tmp_path, content, message, delimiter):
    """Unreadable files end in an error that says why.

    They have no data, bad headers, other encodings or open quotes.
    """
    path = write(tmp_path / "a.csv", content.replace(b",", delimiter))
    with pytest.raises(DataError) as caught:
        read_rows(path, encoding="utf-8", delimiter=delimiter.decode())
    assert str(caught.value).startswith(
        (f"{path}: {message}", f"{path}, {message}", f"{path}, line 1: {message}")
    )


def test_an_open_quote_in_a_cut_file_names_its_line(tmp_path: Path) -> None:
    """An open quote is found in every range, and never rejected."""
    path = write(tmp_path / "a.csv", "a,b\n" + '1,"x\ny"\n' * 500 + '1,"open\n' + "1,2\n" * 500)
    with pytest.raises(DataError, match=r"line 1002: found a quote that is never closed"):
        read.read_table(plan_of(path, range_bytes=1000), reject=True)


@pytest.mark.parametrize("text", ['"open', '"Halt" he said'])
def test_quotes_that_enclose_no_cells_are_read_as_the_error_says(tmp_path: Path, text: str) -> None:
    """Many writers of tabs quote nothing."""
    path = write(tmp_path / "a.tsv", f"a\tb\n1\t{text}\n2\tx\n")
    with pytest.raises(DataError, match="which turns quoting off"):
        read_rows(path)
    assert [row["b"] for row in read_rows(path, quote="")] == [text, "x"]


def test_headers_in_other_letters(tmp_path: Path) -> None:
    """The error has the keys that read both files."""
    write(tmp_path / "1.csv", "id,x\n1,2\n")
    write(tmp_path / "2.csv", "ID,X\n3,4\n")
    with pytest.raises(DataError, match="Write the names alike, or set") as caught:
        read_rows(tmp_path / "*.csv")
    lines = re.findall(r"'(\w+: [^']*)'", str(caught.value))
    keys = yaml.safe_load("\n".join(lines))
    rows = read_rows(tmp_path / "*.csv", **keys | {"columns": tuple(keys["columns"])})
    assert rows == [{"id": 1, "x": 2}, {"id": 3, "x": 4}]


def test_files_of_one_source_must_agree(tmp_path: Path) -> None:
    """A file with another header names both files, sampled or not."""
    one = write(tmp_path / "1.csv", "a,b\n1,2\n")
    two = write(tmp_path / "2.csv", "a,c\n1,2\n")
    with pytest.raises(
        DataError, match=rf"{two}: found column 2 named 'c', expected 'b' as in {one}"
    ):
        read_rows(tmp_path / "*.csv")
    write(tmp_path / "2.csv", "a\n1\n")
    with pytest.raises(DataError, match=r"2\.csv: found 1 columns, expected 2 as in .*1\.csv"):
        read_rows(tmp_path / "*.csv")


def test_types_are_inferred_over_files(tmp_path: Path) -> None:
    """Integers in one file and floats in another make a float column.

    A header alone adds nothing.
    """
    write(tmp_path / "1.csv", "a,b\n1,x\n")
    write(tmp_path / "2.csv", "a,b\n1.5,2\n")
    write(tmp_path / "3.csv", "a,b\n")
    assert read_rows(tmp_path / "*.csv") == [{"a": 1.0, "b": "x"}, {"a": 1.5, "b": "2"}]


def test_infer_full_looks_at_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late float is an error, unless ``infer: full`` finds it.

    The error has the line that declares it.
    """
    monkeypatch.setattr(blocks, "SAMPLE_BYTES", 1000)
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 1000)
    path = write(tmp_path / "a.csv", "a\n" + "1\n" * 2000 + "1.5\n")
    with pytest.raises(
        DataError,
        match=r"line 2002, column 'a': found '1\.5', expected an integer.*types: \{a: text\}",
    ):
        read_rows(path)
    assert types_of(path, infer="full") == {"a": "double"}
    assert len(read_rows(path, infer="full")) == 2001


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"delimiter": "||"}, "delimiter", "expected one ASCII character"),
        ({"quote": "\n"}, "quote", "expected one ASCII character"),
        ({"delimiter": "\0"}, "delimiter", "neither a line end nor NUL"),
        ({"quote": "\0"}, "quote", "neither a line end nor NUL"),
        ({"quote": ","}, "quote", "the quote is the delimiter"),
        ({"header": False}, "header", "name the columns"),
        ({"types": {"aa": "int64"}}, "types", "no column 'aa' in the source. Did you mean 'a'?"),
        ({"types": {"a": "int46"}}, "types", "unknown type 'int46'. Did you mean 'int64'?"),
        ({"types": {"a": "list<int64>"}}, "types", "a CSV cell is no list"),
        ({"columns": ("b", "x")}, "columns", "no column 'x'"),
        ({"columns": ("b", "b")}, "columns", "named twice"),
        ({"columns": ("b",), "key": ("a",)}, "key", "column 'a' is not read"),
        ({"key": ("c",)}, "key", "no column 'c'"),
        ({"format": "csvv"}, "format", "unknown format 'csvv'. Did you mean 'csv'?"),
        ({"compression": "gzp"}, "compression", "unknown compression 'gzp'. Did you mean 'gzip'?"),
    ],
)
def test_wrong_options_are_problems(tmp_path: Path, options: dict, key: str, message: str) -> None:
    """Each wrong option is reported at its place in the recipe."""
    problems = problems_of(write(tmp_path / "a.csv", "a,b\n1,2\n"), **options)
    assert message in problems["sources", "s", key]


def test_a_column_without_a_name(tmp_path: Path) -> None:
    """Columns without a name get their number, unless ``header: true``."""
    path = write(tmp_path / "a.csv", "b, ,,c\n0,2,,x\n")
    assert plan_of(path).decisions == (
        "names without blanks and '#' around, such as ' '  # header: true keeps them",
        "column 2 has no name: column2",
        "column 3 has no name: column3",
    )
    assert read_rows(path) == [{"b": 0, "column2": 2, "column3": None, "c": "x"}]
    assert read_rows(write(tmp_path / "n.csv", "# a,b\n1,2\n")) == [{"a": 1, "b": 2}]
    path = write(tmp_path / "b.csv", "b,\n0,2\n")
    assert "column 2 has no name" in problems_of(path, header=True)["sources", "s", "columns"]
    assert read_rows(path, header=True, columns=("b",)) == [{"b": 0}]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("mpg,cyl\ncar1,20,4\ncar2,21,6\n", {"index": "car1", "mpg": 20, "cyl": 4}),
        ("a,b\n1,2,\n3,4,\n", {"a": 1, "b": 2, "column3": None}),
        ("a,b\n1,2,,\n3,4,,\n", {"a": 1, "b": 2, "column3": None, "column4": None}),
    ],
)
def test_rows_that_are_longer_than_the_header(tmp_path, text, row):
    """The error has the keys that name all columns, and they work."""
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=f"found {len(row)} cells in each row") as caught:
        read_rows(path)
    names = ", ".join(row)
    assert f"'header: false', 'skip_lines: 1' and 'columns: [{names}]'" in str(caught.value)
    assert read_rows(path, header=False, skip_lines=1, columns=tuple(row))[0] == row


def test_a_name_twice(tmp_path: Path) -> None:
    """The error has the keys that name all columns, and they work."""
    path = write(tmp_path / "a.csv", "a,b,a\n1,2,3\n")
    with pytest.raises(DataError, match=r"'columns: \[a, b, column3\]' of the source"):
        read_rows(path)
    named = ("a", "b", "column3")
    assert read_rows(path, header=False, skip_lines=1, columns=named)[0]["column3"] == 3


@given(
    st.lists(st.sampled_from([b"a,b", b"a,bb", b"xa,b", b"", b"a", b"\ra,b"]), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", b"\r", b"\n", b"\r\n"]),
    st.sampled_from([b"a,b", b"a\na", b"a"]),
)
def test_headers_again_are_found_as_by_a_pattern(lines, end, last, header):
    """Lines that are a header again are those that an expression finds."""
    data = end.join(lines) + last
    pattern = rb"(?m)^" + re.escape(header) + rb"(?=\r?$)"
    assert equal_lines(data, header) == [found.start() for found in re.finditer(pattern, data)]


@pytest.mark.parametrize("last", ["x", "'7"])
def test_an_apostrophe_before_texts_encloses_nothing(tmp_path: Path, last: str) -> None:
    """A single quote quotes only where the second ends a cell."""
    lines = "".join(f"'{number},{number},{last}\n" for number in range(40))
    rows = read_rows(write(tmp_path / "a.csv", f"a,b,c\n{lines}"))
    assert rows == [{"a": f"'{number}", "b": number, "c": last} for number in range(40)]
    lines = "".join(f"'{number}, it''s',{number},'{last[-1]}'\n" for number in range(40))
    rows = read_rows(write(tmp_path / "a.csv", f"a,b,c\n{lines}"))
    assert [row["a"] for row in rows] == [f"{number}, it's" for number in range(40)]


@pytest.mark.parametrize("cell", ["x" * 10_000, "9" * 10_000, "1e" + "9" * 10_000])
@pytest.mark.parametrize(
    "options",
    [{"types": {"a": name}} for name in ("date", "bool", "time")]
    + [{"types": {"a": "int64"}}, {"types": {"a": "float64"}}, {"formats": {"a": "%d/%m/%Y"}}],
)
def test_errors_of_long_cells_are_short(tmp_path: Path, cell: str, options: dict) -> None:
    """An error shows the beginning of a cell only."""
    path = write(tmp_path / "a.csv", f"a,b\n{cell},1\n")
    with pytest.raises(DataError, match=r"line 2, column 'a'") as caught:
        read_rows(path, **options)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [",", "\t", "|", ";"])
@pytest.mark.parametrize("ruler", ["---{}---", ":---{} --:", "===--{}==---", "---+-----", "---"])
def test_a_line_of_dashes_below_the_header_is_no_row(tmp_path, ruler, mark, end):
    """Rows and types are those without the line; others are rows."""
    lines = [f"id{mark}name", f"1{mark}a", f"2{mark}---", f"-3{mark}c"]
    plain = write(tmp_path / "plain.csv", end.join(lines))
    lines.insert(1, ruler.format(mark))
    ruled = write(tmp_path / "ruled.csv", end.join(lines))
    assert types_of(ruled, delimiter=mark) == {"id": "int64", "name": "string"}
    assert read_rows(ruled, delimiter=mark) == read_rows(plain, delimiter=mark)
    assert any(
        one.startswith("a line of dashes") for one in plan_of(ruled, delimiter=mark).decisions
    )
