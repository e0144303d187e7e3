"""Bad cells of a CSV file are those that pyarrow.csv refuses alone.

They are found without asking it about each row.
"""

from __future__ import annotations

import io
import itertools
import math
import re

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow import columns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.csv.parser import CsvParser
from beam_pipelines.sources.csv.sample import CsvSample
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text.cells import parsed
from beam_pipelines.sources.text.quotes import Dialect

NULLS = ("", "NA", "0x", "-")
TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.time64("us"), pa.string(), pa.binary()),
    *(pa.timestamp("us", zone) for zone in (None, "UTC")),
]  # fmt: skip
NUMBERS = [
    str(sign * (1 << bits) + more)
    for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (-1, 1)
    for more in (-1, 0, 1)
]
PARTS = [
    *(" ", "\t", "\u00a0", "+", "-", ".", ",", ":", '"', "0", "00", "1", "9", "e", "E5", "e400", "e-400", "3.5e38", "x", "0x", "0XfF"),
    *(".0", ".000"), *("inf", "-INF", "infinity", "nan", "NaN(1)", "true", "TRUE", "tRUE", "False", "NA", "T", "Z", "z", "+02:00", "-0530", "+1", "\xff", "é", "ß\x00"),
    *("2013-01-31", "2013-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "2013-13-01", "2013-04-31", "0000-01-01", "9999-12-31"),
    *("05:15", "24:00", "23:59:59", "05:60", "05:15:60", ".1", ".123456", ".1234567", ".123456000", " 05", "T05:15:00Z"),
    *("9" * 400, "0" * 400, *NUMBERS),
]  # fmt: skip
CELLS = st.one_of(
    st.sampled_from(PARTS),
    st.lists(st.sampled_from(PARTS), max_size=4).map("".join),
    st.text(alphabet="0123456789+-.eExX:TZ aFinNty\t\xff", max_size=12),
).map(lambda text: text.encode("latin-1"))


def bad_cells(cells: list[bytes], type_: pa.DataType) -> list[bool]:
    """Asks the reference about each cell."""
    _, wrong = parsed(pa.array(cells, pa.binary()), type_)
    is_null = [cell.decode("latin-1") in NULLS for cell in cells]
    return [bool(flag) and not null for flag, null in zip(wrong, is_null, strict=True)]


def quoted(cell: bytes) -> bytes:
    """Returns a cell as it may stand in a file."""
    return b'"' + cell.replace(b'"', b'""') + b'"'


def as_arrow(cell: bytes, type_: pa.DataType) -> bytes:
    """Returns a cell as pyarrow takes it.

    It refuses the plus sign and the zeros behind the point of an integer, and zeros in the place of
    parts of a microsecond.
    """
    if pa.types.is_integer(type_):
        cell = re.sub(rb"^([ \t]*)\+(?=[0-9])", rb"\1", cell)
        return re.sub(rb"^([ \t]*-?[0-9]+)\.0+(?=[ \t]*\Z)", rb"\1", cell)
    is_time = pa.types.is_temporal(type_)
    return re.sub(rb"(\.[0-9]{6})0{1,3}(?![0-9])", rb"\1", cell) if is_time else cell


def is_bad(cell: bytes, type_: pa.DataType) -> bool:
    """Asks pyarrow.csv about one cell.

    Another one keeps lines from being empty.
    """
    cell = as_arrow(cell, type_)
    try:
        table = pa_csv.read_csv(
            io.BytesIO(quoted(cell) + b",1\n"),
            pa_csv.ReadOptions(column_names=["a", "b"], use_threads=False),
            pa_csv.ParseOptions(newlines_in_values=True),
            pa_csv.ConvertOptions(
                column_types={"a": type_}, null_values=list(NULLS), strings_can_be_null=True
            ),
        )
        value = columns.normalise(table.column("a").combine_chunks())
    except ValueError:
        return True
    is_infinite = pa.types.is_floating(type_) and math.isinf(value[0].as_py() or 0)
    return is_infinite and "inf" not in cell.decode("latin-1").lower()


@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from(TYPES))
def test_bad_cells_are_those_that_pyarrow_refuses_alone(cells, type_):
    """Blanks, signs, hexadecimal, ranges, infinities, dates, offsets, nulls, bad UTF-8."""
    found = bad_cells(cells, type_)
    assert found == [is_bad(cell, type_) for cell in cells]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_each_part_alone_and_joined_with_common_ones(type_: pa.DataType) -> None:
    """Each part of the property's texts is right, alone and joined.

    It is joined with a common part: a blank, a digit, a date or a time.
    """
    cells = [
        text.encode("latin-1")
        for part in PARTS
        for text in (
            part,
            f" {part}",
            f"{part} ",
            f"1{part}",
            f"{part}1",
            f"2013-01-31{part}",
            f"05:15:00{part}",
            f"2013-01-31 05:15:00{part}",
        )
    ]
    found = bad_cells(cells, type_)
    assert found == [is_bad(cell, type_) for cell in cells]


def parser_of(types: list[pa.DataType]) -> CsvParser:
    """Returns a parser of columns ``0``, ``1`` and so on."""
    schema = pa.schema([(str(number), type_) for number, type_ in enumerate(types)])
    return CsvParser(
        tuple(schema.names),
        schema,
        columns.normalise_schema(schema, ""),
        Dialect(ord(","), ord('"')),
        NULLS,
    )


@given(st.data())
def test_rows_are_rejected_as_if_each_were_parsed_alone(data: st.DataObject) -> None:
    """Bad rows are rejected in order, with first bad column and value.

    The others are read.
    """
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    cell = st.one_of(
        CELLS, st.sampled_from([b"1", b"2013-01-31", b"05:15", b"true", b"2013-01-31 05:15:00"])
    )
    row = st.lists(cell, min_size=len(types), max_size=len(types))
    rows = data.draw(
        st.lists(st.one_of(row, st.lists(cell, min_size=1, max_size=5)), min_size=1, max_size=12)
    )
    lines = [b",".join(map(quoted, cells)) + b"\n" for cells in rows]
    parser, text = parser_of(types), b"".join(lines)
    found = list(parser.sift(text, parser.toggles(text)))
    place, good = 0, []
    bad = [part for part in found if not isinstance(part, pa.RecordBatch)]
    for cells, line in zip(rows, lines, strict=True):
        wrong = [
            number
            for number, (cell, type_) in enumerate(zip(cells, types, strict=False))
            if is_bad(cell, type_)
        ]
        if len(cells) != len(types):
            start, end, column, reason = bad.pop(0)
            assert (start, end, column) == (place, place + len(line), "")
            assert reason.startswith(f"found {len(cells)} cell")
        elif wrong:
            start, end, column, reason = bad.pop(0)
            assert (start, end, column) == (place, place + len(line), str(wrong[0]))
            shown = cells[wrong[0]].decode(errors="backslashreplace")
            assert reason.startswith(
                f"found {shown if len(shown) <= 100 else shown[:99] + '…'!r}, expected "
            )
        else:
            good.append(alone(parser, cells))
        place += len(line)
    assert not bad
    batches = [part for part in found if isinstance(part, pa.RecordBatch)]
    assert repr([row for batch in batches for row in rows_of(batch)]) == repr(
        [row for batch in good for row in rows_of(batch)]
    )


def alone(parser: CsvParser, cells: list[bytes]) -> pa.RecordBatch:
    """Returns a good record by pyarrow.csv, the independent oracle."""
    line = b",".join(
        quoted(as_arrow(cell, field.type))
        for cell, field in zip(cells, parser.read_schema, strict=True)
    )
    types = {field.name: field.type for field in parser.read_schema}
    source, file = Source("a", nulls=parser.nulls), FileInfo("a.csv", len(line))
    sample = CsvSample(source, parser.dialect, file, parser.names, b"")
    table = sample.table(line, tuple(types), types)
    arrays = [columns.normalise(columns.only_chunk(column)) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=parser.schema)


def rows_of(batch: pa.RecordBatch) -> list[list[str]]:
    """Returns the values as texts, since Python lacks some of Arrow's dates."""
    return [
        [
            str(column[row]) if pa.types.is_string(column.type) else str(column.slice(row, 1))
            for column in batch.columns
        ]
        for row in range(batch.num_rows)
    ]


BAD_ROWS = {
    "text": lambda number: b"x%d,1.5,2013-01-31,y" % number,
    "beyond int64": lambda number: b"%d,1.5,2013-01-31,y" % (number + (1 << 64)),
    "half a number": lambda number: b"1,%d-5,2013-01-31,y" % number,
    "infinite": lambda number: b"1,1e%d,2013-01-31,y" % (number + 400),
    "no such day": lambda number: b"1,1.5,%04d-02-30,y" % (number % 10_000),
    "not UTF-8": lambda number: b"1,1.5,2013-01-31,\xff%d" % number,
    "a cell too many": lambda number: b"1,1.5,2013-01-31,y,%d" % number,
}


@pytest.mark.parametrize("kind", BAD_ROWS)
@pytest.mark.parametrize("every", [1, 10])
def test_bad_rows_of_each_kind_are_found(kind: str, every: int) -> None:
    """All rows, or one in ten, are bad, over several pieces."""
    parser = parser_of([pa.int64(), pa.float64(), pa.date32(), pa.string()])
    lines = [
        (BAD_ROWS[kind](number) if number % every == 0 else b"1,1.5,2013-01-31,y") + b"\n"
        for number in range(5_000)
    ]
    starts = [0, *itertools.accumulate(map(len, lines))]
    text = b"".join(lines)
    found = list(parser.sift(text, parser.toggles(text)))
    bad = [part for part in found if not isinstance(part, pa.RecordBatch)]
    assert [start for start, *_ in bad] == starts[:-1:every]
    good = sum(part.num_rows for part in found if isinstance(part, pa.RecordBatch))
    assert len(bad) + good == len(lines)


def test_pieces_have_the_records_of_one() -> None:
    """The kernel reads the pieces without bad records, in order.

    Blank lines and NUL are no reason for plain Python to change a value.
    """
    parser = parser_of([pa.int64(), pa.string()])
    lines = [b'%d,"a\n%d"' % (number, number) for number in range(20_000)]
    lines[3] = b'3,\0 5" disk'
    lines[9_000] += b"\n\r\n"
    lines[19_999] = b"x,y"
    text = b"\n".join(lines)
    found = list(parser.sift(text, parser.toggles(text)))
    bad = [part[2] for part in found if not isinstance(part, pa.RecordBatch)]
    table = pa.Table.from_batches([part for part in found if isinstance(part, pa.RecordBatch)])
    assert bad == ["0"]
    assert table.column(0).to_pylist() == list(range(19_999))
    assert table.column(1)[3].as_py() == '\0 5" disk'
    assert table.column(1)[9_000].as_py() == "a\n9000"
