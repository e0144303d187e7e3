"""The CSV kernel parses to the result of pyarrow.csv, or declines.

It takes common input and declines unusual input.
"""

from __future__ import annotations

import csv
import datetime
import io
import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core.arrow import columns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.sources.csv.parser import CsvParser
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.quotes import Dialect
from beam_pipelines.transforms import read
from tests.support.kernels import without_kernels

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

NULLS = Source.nulls
COMMAS = Dialect(ord(","), ord('"'))
UTC = pa.timestamp("us", "UTC")
TYPES = [
    pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(),
    pa.string(), pa.binary(), pa.date32(), pa.time64("us"), pa.timestamp("us"), UTC,
]  # fmt: skip
# Texts that come near to what some type takes, or to what ends or quotes a cell.
ODD = [
    b"", b"0", b"-0", b"+1", b"00", b"007", b"-", b"--1", b"1 ", b"\t1", b" ", b"1_0", b"0x1F", b"0X", b"127", b"128", b"-128", b"-129", b"255", b"256", b"65536",
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"18446744073709551615",
    b"00000000000000000000000012", b"12345678", b"123456789", b"1.", b".5", b".", b"1e", b"1e+", b"1e5", b"1E-5", b"-1.5e+3", b"1.5.", b"1e400", b"-1e400", b"1e-400",
    b"0e9999999", b"4.9e-324", b"2.2250738585072011e-308", b"1.7976931348623157e308", b"1.7976931348623159e308", b"3.4028235e38", b"3.4028236e38", b"1e-45",
    b"9007199254740993", b"9007199254740993.00000000000000000000001", b"0.000000000000000000000000000000000001", b"1" * 30, b"0." + b"3" * 40, b"1" * 900, b"nan", b"-nan",
    b"NaN", b"NAN", b"inf", b"-Inf", b"INFINITY", b"infinit", b"+inf", b"1,5", b"true", b"TRUE", b"tRUE", b"False", b"yes", b"1970-01-01", b"2000-02-29", b"1900-02-29",
    b"2013-02-30", b"2013-13-01", b"2013-00-10", b"0000-01-01", b"9999-12-31", b"2013-1-31", b"2013-01-31 ", b"2013-01-31T05:15:00", b"2013-01-31 05:15:60",
    b"2013-01-31 24:00:00", b"2013-01-31 05:15", b"2013-01-31 05", b"2013-01-31 05:15:00.1", b"2013-01-31 05:15:00.123456", b"2013-01-31 05:15:00.1234567",
    b"2013-01-31 05:15:00.", b"2013-01-31 05:15:00Z", b"2013-01-31T05:15Z", b"2013-01-31 05:15:00+02:00", b"2013-01-31 05:15:00.5-11:59", b"2013-01-31 05:15:00+0200",
    b"2013-01-31 05:15:00+24:00", b"05:15", b"05:15:00", b"23:59:59.999999", b"24:00", b"5:15", b"05:15:00.1234567", b"05:15:00.123456000", b"+1.5", b"+1e5", b" 2013-01-31",
    b"2013-01-31 05:15:00.123456000", b"2013-01-31 05:15:00+02", b"2013-01-31T05:15-0530", b"2013-01-31 05:15:00+2", b"2013-01-31 05:15:00+0260", b"NA", b"null", b"N", b"nul", b"a" * 70,
    "é€😀".encode(), b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\0",
]  # fmt: skip


def natively(
    data: bytes,
    types: Sequence[pa.DataType],
    nulls: tuple[str, ...] = NULLS,
    dialect: Dialect = COMMAS,
    places: Sequence[int] | None = None,
) -> tuple[CsvParser, pa.RecordBatch | None]:
    """Parses with the kernel; returns the parser, too.

    ``places`` are the columns to read, in order.
    """
    names = tuple(f"c{place}" for place in range(len(types)))
    wanted = range(len(types)) if places is None else places
    read_schema = pa.schema([(names[place], types[place]) for place in wanted])
    schema = columns.normalise_schema(read_schema, "")
    parser = CsvParser(names, read_schema, schema, dialect, nulls)
    return parser, parser.parse_natively(data)


def by_python(parser: CsvParser, data: bytes) -> pa.RecordBatch:
    """Returns records that must all be good by the reference."""
    starts, ends = quotes.record_spans(data, parser.toggles(data))
    found = list(parser.by_python(data, starts.tolist(), ends.tolist()))
    assert all(isinstance(part, pa.RecordBatch) for part in found), found
    return pa.Table.from_batches(found, parser.schema).combine_chunks().to_batches()[0]


def check_same(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """Checks that two batches are equal, zeros and NaN bit by bit."""
    found.validate(full=True)
    assert found.schema == expected.schema
    assert found.num_rows == expected.num_rows
    for column, other in zip(found.columns, expected.columns, strict=True):
        assert column.null_count == other.null_count
        if pa.types.is_floating(column.type):
            bits = pa.int32() if column.type == pa.float32() else pa.int64()
            column, other = column.fill_null(0).view(bits), other.fill_null(0).view(bits)  # noqa: PLW2901
        assert column.equals(other)


def row_texts(
    rows: Sequence[Sequence[bytes]], delimiter: int, end: bytes, quote: int | None, quoted: Any
) -> bytes:
    """Joins cells; ``quoted`` says of each whether it stands in quotes."""
    lines = []
    for row in rows:
        cells = []
        for cell in row:
            mark = b"" if quote is None else bytes([quote])
            needs = any(byte in cell for byte in (mark or b"\n", b"\n", b"\r", bytes([delimiter])))
            is_quoted = quote is not None and (needs or quoted())
            cells.append(mark + cell.replace(mark, mark * 2) + mark if is_quoted else cell)
        lines.append(bytes([delimiter]).join(cells))
    return end.join(lines)


@settings(max_examples=150)
@given(st.data())
def test_equals_python_or_is_declined(data: st.DataObject) -> None:
    """Plain Python gives the same batch, or the kernel declines.

    The cells are of every type and of none, with quotes, line ends and damage.
    """
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    delimiter, quote = data.draw(
        st.sampled_from([(44, 34), (59, 39), (9, 34), (32, None), (124, None)])
    )
    cell = (
        st.sampled_from(ODD)
        | st.binary(max_size=9)
        | st.integers().map(lambda value: b"%d" % value)
        | st.floats().map(lambda value: repr(value).encode())
    )
    kind = st.sampled_from([b"1", b"12345", b"-7", b""]) if data.draw(st.booleans()) else cell
    rows = data.draw(
        st.lists(st.lists(kind, min_size=len(types), max_size=len(types)), min_size=1, max_size=6)
    )
    if data.draw(st.booleans()):
        rows = rows * data.draw(st.integers(1, 30))
    end = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    records = row_texts(
        rows, delimiter, end, quote, lambda: data.draw(st.booleans()) if len(rows) < 7 else False
    )
    records += data.draw(st.sampled_from([b"", end, end, end + end]))
    for place, damage in data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(records)),
                st.sampled_from([b'"', b"\r", b"\n", b",", b" ", b"\xe9"]),
            ),
            max_size=2,
        )
    ):
        records = records[:place] + damage + records[place:]
    nulls = data.draw(st.sampled_from([NULLS, (), ("",), ("0", "-7", '"', "a" * 70)]))
    places = (
        data.draw(
            st.permutations(range(len(types))).map(lambda order: order[: 1 + len(order) // 2])
        )
        if len(types) > 1
        else [0]
    )
    parser, found = natively(records, types, nulls, Dialect(delimiter, quote), places)
    if found is not None:
        check_same(found, by_python(parser, records))


def text_of(value: Any) -> str:
    """Writes a value in a usual form of CSV files.

    Each byte becomes a character.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)
    return text.encode().decode("latin-1")


# A carriage return needs quotes, which older versions of Python's csv module forget.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=40
)
COMMON = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 99_999),
    pa.uint32(): st.integers(0, (1 << 32) - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6),
    pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS.filter(lambda text: text not in NULLS),
    pa.binary(): st.binary(min_size=1).filter(
        lambda value: b"\r" not in value and value.decode("latin-1") not in NULLS
    ),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    UTC: st.datetimes(timezones=st.just(datetime.timezone.utc)),
}


@given(
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([1, 1, 100]),
)
def test_what_is_common_is_not_declined(data, end, quoting, times):
    """The kernel takes every common value and returns it unchanged.

    Python's csv module writes the values, which are of every type.
    """
    types = data.draw(st.lists(st.sampled_from(list(COMMON)), min_size=2, max_size=6))
    rows = (
        data.draw(
            st.lists(
                st.tuples(*(st.none() | COMMON[type_] for type_ in types)), min_size=1, max_size=8
            )
        )
        * times
    )
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(
        [text_of(value) for value in row] for row in rows
    )
    _, found = natively(text.getvalue().encode("latin-1"), types)
    assert found is not None
    expected = [
        pa.array(values, type_)
        for type_, values in zip(types, zip(*rows, strict=True), strict=True)
    ]
    check_same(
        found,
        pa.RecordBatch.from_arrays(list(map(columns.normalise, expected)), schema=found.schema),
    )


@pytest.mark.parametrize(
    ("records", "types"),
    [
        (b"1,a\n2,b\n", [pa.int64(), pa.string()]),
        (b"1,a\n2,b", [pa.int64(), pa.string()]),
        (b"1,a\r\n2,b\r\n", [pa.int64(), pa.string()]),
        (b"1,a\n2,b\n\n\n", [pa.int64(), pa.string()]),
        (b"1,a\r\n2,b\r\n\r\n", [pa.int64(), pa.string()]),
        (b"1,", [pa.int64(), pa.string()]),
        (b"a", [pa.string()]),
        (b"a\nb", [pa.string()]),
        (b'""\nb\n', [pa.string()]),
        (b" 39, 77516\n\t5 ,6 \n", [pa.int64(), pa.float64()]),
        (b'"1","2.5"\n"",""\n', [pa.int64(), pa.float64()]),
        (b'"a ""b""","c,d"\n"e\nf","g\r\nh"\n"\r","""\n"\n"""",""""""\n', [pa.string(), pa.string()]),
        (b'"a","b"\r\n"c\r","d"\r\n', [pa.string(), pa.string()]),
        (b"\xef\xbb\xbfa,b\n", [pa.string(), pa.string()]),
        (b"\xef", [pa.binary()]),
        (b"nan,-inf\nNaN,Infinity\n", [pa.float64(), pa.float32()]),
        (b"a,\0b\0\n", [pa.string(), pa.string()]),
        (b"\xe2,\x82\n", [pa.binary(), pa.binary()]),
        (b"007,-0,00\n", [pa.int64(), pa.int8(), pa.uint8()]),
        (b"+1.5,+inf\n+1e5, +.5\n", [pa.float64(), pa.float32()]),
        (b"2013-01-31 05:15:00.123456000,05:15:00.1000000\n", [pa.timestamp("us"), pa.time64("us")]),
        (b" 2013-01-31,\t2013-01-31 \n", [pa.date32(), pa.date32()]),
        (b"2013-01-31 05:15:00+0200\n2013-01-31T05:15-0530\n2013-01-31 05:15:00.5+02\n", [UTC]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nulls", [NULLS, ("",)], ids=["usual-nulls", "empty-is-null"])
def test_edges_that_are_taken(records, types, nulls):
    """The kernel takes edge cases with the result of plain Python.

    These are both kinds of line ends, a missing last one, blank lines at the end, quotes, and
    spaces around numbers.
    """
    parser, found = natively(records, types, nulls)
    assert found is not None
    check_same(found, by_python(parser, records))


@pytest.mark.parametrize(
    ("records", "type_"),
    [
        (b"", pa.string()),
        (b"\n", pa.string()),
        (b"a\n\nb\n", pa.string()),
        (b"\r\na\r\n", pa.string()),
        (b"a\rb\n", pa.string()),
        (b"a\r", pa.string()),
        (b"a\r\r\nb\r\n", pa.string()),
        (b"a,b\n", pa.string()),
        (b'5" disk\n', pa.string()),
        (b'"a"b\n', pa.string()),
        (b'"a" \n', pa.string()),
        (b'"a\n', pa.string()),
        (b'a"\n', pa.string()),
        (b'a""b\n', pa.string()),
        (b'"a""\n', pa.string()),
        (b'x\n"\n\n', pa.string()),
        (b"\xff\n", pa.string()),
        (b"ok\n\xed\xa0\x80\n", pa.string()),
        (b"\xc3\n\xa9\n", pa.string()),
        (b"\xe2\x82\n", pa.string()),
        (b"x\n", pa.int64()),
        (b"9223372036854775808\n", pa.int64()),
        (b"9223372036854775808\n", pa.uint64()),
        (b"-1\n", pa.uint8()),
        (b"128\n", pa.int8()),
        (b"0x1F\n", pa.int64()),
        (b"+-1\n", pa.int64()),
        (b"++1\n", pa.int64()),
        (b"+\n", pa.int64()),
        (b"+9223372036854775808\n", pa.int64()),
        (b"+-1\n", pa.float64()),
        (b"++inf\n", pa.float64()),
        (b"1e999\n", pa.float64()),
        (b"1e39\n", pa.float32()),
        (b"1.5\n", pa.int64()),
        (b"1,5\n", pa.float64()),
        (b"tRue\n", pa.bool_()),
        (b"2013-02-29\n", pa.date32()),
        (b"2013-01-31 05:15:00.1234567\n", pa.timestamp("us")),
        (b"2013-01-31 05:15:00Z\n", pa.timestamp("us")),
        (b"2013-01-31 05:15:00\n", UTC),
        (b"2013-01-31 05:15:00+2\n", UTC),
        (b"2013-01-31+02\n", UTC),
        (b"2013-01-31\n", pa.timestamp("ns")),
        (b"05:15\n", pa.time32("s")),
    ],
)
def test_what_is_unusual_is_declined(records: bytes, type_: pa.DataType) -> None:
    """The kernel declines ragged or badly quoted records and doubtful values."""
    assert natively(records, [type_])[1] is None


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 61, 62, 63, 64, 65, 127, 128, 129])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["newline", "return"])
def test_cells_across_blocks(length: int, quoted: bool, end: bytes) -> None:
    """Cells do not depend on positions of quotes, delimiters and line ends.

    The kernel works in blocks of 64 bytes.
    """
    rows = []
    for row in range(300):
        inner = (b'"' if row % 7 == 0 else b"x") * (length + row % 3)
        text = inner + (b"\n," if quoted and row % 5 == 0 else b"")
        rows.append([b"%d" % row, text, b"" if row % 4 == 0 else b"e"])
    records = row_texts(rows, 44, end, 34 if quoted else None, lambda: True)
    dialect = Dialect(44, 34 if quoted else None)
    parser, found = natively(records, [pa.int64(), pa.string(), pa.binary()], dialect=dialect)
    assert found is not None
    assert found.column(1).to_pylist() == [row[1].decode() for row in rows]
    check_same(found, by_python(parser, records))


@pytest.mark.parametrize(("count", "copies"), [(3_000, 1), (30, 700)])
def test_buffers_grow(count: int, copies: int) -> None:
    """A column that suddenly gets longer is complete, also one of thousands.

    It is empty in the first records and long in the others, or the other way round.
    """
    first = [["", "y" * 100, str(row)] * copies for row in range(count)]
    rows = first + [["x" * (row % 997), "", ""] * copies for row in range(count)]
    _, found = natively(
        "".join(",".join(row) + "\n" for row in rows).encode(),
        [pa.string(), pa.string(), pa.int64()] * copies,
    )
    assert found is not None
    for place, column in enumerate(found.columns):
        texts = [row[place] or None for row in rows]
        assert column.cast(pa.string()).to_pylist() == texts


@settings(max_examples=150)
@given(
    st.integers(0, 10**22) | st.integers(0, 1 << 64) | st.integers(0, 1 << 54), st.integers(-40, 30)
)
def test_numbers_are_the_nearest(mantissa: int, exponent: int) -> None:
    """Digits with an exponent become the nearest float64 and float32.

    Of two nearest ones it is the even one, by exact arithmetic.
    """
    exact = Fraction(mantissa) * Fraction(10) ** exponent
    _, found = natively(
        b"%de%d,%de%d\n" % (mantissa, exponent, mantissa, exponent), [pa.float64(), pa.float64()]
    )
    if found is not None:  # nothing is too large or small for float64 here
        assert found.column(0)[0].as_py() == float(exact)
    assert found is not None
    _, single = natively(b"%de%d,1\n" % (mantissa, exponent), [pa.float32(), pa.int64()])
    if single is None:
        assert exact >= Fraction(2) ** 127 or 0 < exact < Fraction(2) ** -148
        return
    value = np.float32(single.column(0)[0].as_py())
    if np.isinf(value):
        raise AssertionError(value)
    below, above = np.nextafter(value, np.float32(-np.inf)), np.nextafter(value, np.float32(np.inf))
    distance = abs(Fraction(float(value)) - exact)
    for other in (below, above):
        if np.isfinite(other):
            farther = abs(Fraction(float(other)) - exact)
            assert distance < farther or (
                distance == farther and struct.pack("<f", value)[0] % 2 == 0
            )


@given(st.integers(1, 1 << 23), st.integers(-60, 60), st.sampled_from([-1, 0, 1]))
def test_numbers_between_two_floats(significand: int, exponent: int, near: int) -> None:
    """A number exactly between two float32 values is rounded correctly.

    So are its neighbours in the last digit.
    """
    middle = (Fraction(2 * ((1 << 23) + significand - 1) + 1) * Fraction(2) ** exponent) / 2
    digits = 120
    text = f"{(middle.numerator * 10**digits) // middle.denominator + near}e-{digits}"
    parser, found = natively(text.encode() + b",1\n", [pa.float32(), pa.int64()])
    assert found is not None
    check_same(found, by_python(parser, text.encode() + b",1\n"))


@settings(max_examples=120)
@given(
    st.text('"",\n\rab', max_size=200),
    st.sampled_from([0, 60, 63, 64, 200]),
    st.sampled_from(b',\n\r"a'),
)
def test_quotes_are_followed(text: str, before: int, previous: int) -> None:
    """The kernel's state transitions equal those of numpy's automaton.

    This holds across blocks of 64 bytes and for each state before the text. Other tests check
    numpy's automaton.
    """
    data = b"x" * before + text.encode()
    found = _native.quote_transition(data, previous, ord(","), ord('"'))
    expected = [
        quotes.state_after(data, state, quotes.toggling_quotes(data, state, previous, COMMAS))
        for state in (quotes.OUTSIDE, quotes.CLOSED, quotes.INSIDE)
    ]
    assert list(found) == expected


@pytest.mark.parametrize(
    ("line_bytes", "is_taken"), [(None, True), (12, True), (11, True), (10, False), (9, False)]
)
def test_long_lines_are_declined(line_bytes: int | None, is_taken: bool) -> None:
    """The kernel declines a record near the limit of a line."""
    parser, _ = natively(b"a,b\n", [pa.string(), pa.string()])
    for records in (b"12345,7890\n1,2\n", b"1,2\n" * 5_000 + b"12345,7890", b'"23456,",0\n'):
        assert (parser.parse_natively(records, line_bytes) is not None) == is_taken


def test_csv_is_read_natively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel alone reads common values once their types are known.

    Plain Python reads it without the kernels, with the same result.
    """
    path = tmp_path / "a.csv"
    path.write_text(
        "i,f,s,t\n"
        + "".join(
            f'{row},{row / 7},"s ""{row}""",2013-01-31 05:15:{row % 60:02}\n'
            for row in range(5_000)
        )
    )
    plan = planner.plan_source(Source("s", (str(path),)), "")
    called = []

    def read_csv(*arguments: Any, _real: Any = pa_csv.read_csv, **options: Any) -> pa.Table:
        called.append(arguments)
        return _real(*arguments, **options)

    monkeypatch.setattr(pa_csv, "read_csv", read_csv)
    found = read.read_table(plan, False)[0]
    assert not called
    with without_kernels():
        expected = read.read_table(plan, False)[0]
    assert found.equals(expected)
    assert found.num_rows == 5_000


def test_without_kernels_or_columns_it_declines() -> None:
    """The kernel declines without the extension or without columns.

    It also declines for a type that it does not know. Python reads then.
    """
    schema, empty = pa.schema([("a", pa.int64())]), pa.schema([])
    parser = CsvParser(("a", "b"), schema, schema, COMMAS, NULLS)
    assert parser.parse_natively(b"1,2\n") is not None
    none = CsvParser(("a", "b"), empty, empty, COMMAS, NULLS)
    assert none.parse_natively(b"1,2\n") is None
    with without_kernels():
        assert parser.parse_natively(b"1,2\n") is None


def test_places_and_types_are_checked() -> None:
    """A column out of range or an unknown type is an error.

    The type has no name for the kernel.
    """
    for wanted in ([(2, "l")], [(-1, "l")], [(0, "w:3")]):
        with pytest.raises(ValueError, match="no such place or type"):
            _native.parse_csv(b"1,2\n", 44, 34, 2, wanted, [], pa.schema([]))
