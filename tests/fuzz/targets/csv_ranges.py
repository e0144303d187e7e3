"""CSV, cut into ranges anywhere, against Python's csv module, or an error.

Input: a byte of switches, one that chooses declared types, two that choose cuts; then the text.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import io
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text import blocks as text_bodies
from beam_pipelines.sources.text import encodings
from beam_pipelines.transforms import read
from tests.fuzz import cells, mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.support.kernels import without_kernels
from tests.support.made_source import made_source

HEAD = 4
_DIALECTS = ((",", '"'), (";", "'"), ("\t", '"'), (",", ""))
_TYPES = (
    "text", "bytes", "int8", "int64", "uint64", "float16", "float32", "float64", "bool", "date",
    "time", "timestamp",
)  # fmt: skip
_TOKENS = [
    b"9" * 4_400,
    *(bytes([byte]) for byte in b"\"',;\t\n\r\0 #\\-+.x\xff\xc3"),
    b'""', b'"\n"', b'",\n"', b"\r\n", b"\n\n", b"\r\r\n", b'"a""b"', b'"a"b', b"\xef\xbb\xbf", b"\xff\xfe", "é€😀".encode(), b"\xed\xa0\x80",
    b"1", b"-5", b"+7", b"007", b"0x1F", b"1e5", b"1e999", b"-inf", b"nan", b"NaN", b"NA", b"null", b"true", b"FALSE", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551615", b"0.1", b".5", b"5.", b"1_0", b" 1 ", b"2013-01-31", b"2013-02-30", b"2013-01-31 05:15:00", b"2013-01-31T05:15:00.123456789Z",
    b"2013-01-31 05:15:00+02:00", b"05:15:00", b"24:00:00", b"05:15", b"a,b\n", b"1,2\n", b'"x","y"\n', b"x" * 70,
]  # fmt: skip


class Record(NamedTuple):
    """A record by Python's csv module.

    It holds the line where it begins, its cells as bytes, and whether strict mode takes it.
    """

    line: int
    cells: list[bytes]
    is_strict: bool


def records_by_python(text: bytes, delimiter: str, quote: str) -> list[Record]:
    """Reads text with Python's csv module, byte for byte.

    It leaves empty lines out.
    """
    csv.field_size_limit(1 << 30)
    lines = list(io.StringIO(text.decode("latin-1"), newline=""))
    options: dict[str, Any] = (
        {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    )
    reader = csv.reader(iter(lines), delimiter=delimiter, **options)
    records, before = [], 0
    for row in reader:
        if row:
            is_strict = _takes("".join(lines[before : reader.line_num]), delimiter, options)
            records.append(Record(before + 1, [cell.encode("latin-1") for cell in row], is_strict))
        before = reader.line_num
    return records


def table_by_python(
    text: bytes, delimiter: str, quote: str, has_header: bool
) -> tuple[list[Record], tuple[str, ...]]:
    """Returns the rows, and the names of the columns."""
    records = records_by_python(text, delimiter, quote)
    first = records[0].cells if records else [b""] * 2
    if has_header and records:
        return records[1:], tuple(cell.decode("utf-8", "surrogateescape") for cell in first)
    return records, tuple(f"c{place}" for place in range(len(first)))


def _takes(text: str, delimiter: str, options: dict[str, Any]) -> bool:
    try:
        list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, **options))
    except csv.Error:
        return False
    return True


def cut(plan: SourcePlan, places: Sequence[int]) -> SourcePlan:
    """Returns a plan of a file with cuts at some bytes.

    The cuts come after bytes that may be a byte order mark.
    """
    file = plan.files[0]
    edges = sorted(
        {0, file.size_bytes, *(place for place in places if 3 < place < file.size_bytes)}
    )
    return dataclasses.replace(plan, ranges=tuple(ranges_at(file, edges)))


def ranges_at(file: FileInfo, edges: Sequence[int]) -> Iterator[ByteRange]:
    """Yields the ranges between edges."""
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        yield ByteRange(number, number, file, start, end)


def places(head: bytes, size: int) -> list[int]:
    """Returns the cuts of two bytes.

    Both cut at a place, or the first one every so many bytes.
    """
    if head[0] < 64:
        return list(range(head[0] + 1, size, head[0] + 1))
    return [head[0] * size // 256, head[1] * size // 256, head[1] * size // 256 + 1]


def read_all(
    data: bytes, name: str, head: bytes, **options: Any
) -> tuple[tuple[SourcePlan, Any] | None, str]:
    """Plans a file and reads it.

    Two bytes choose the cuts; or the file is compressed, and they choose small blocks of a stream.

    Returns:
      The plan and the result of ``read_table``, or nothing and the explanation.
    """
    file_name, reject = options.pop("file_name"), options.pop("reject")
    is_streamed = options.pop("is_streamed", False)
    path = scratch.write(
        name,
        f"{file_name}.gz" if is_streamed else file_name,
        gzip.compress(data, 1, mtime=0) if is_streamed else data,
    )

    def call() -> tuple[SourcePlan, Any]:
        plan = planner.plan_source(made_source("s", (path,), **options), "")
        if not text_bodies.is_stream(plan.source, path):
            plan = cut(plan, places(head, len(data)))
        return plan, read.read_table(plan, reject)

    # A first block always has room for a byte order mark.
    with mock.patch.object(
        text_bodies, "CHUNK_BYTES", 4 + head[0] % 64 if is_streamed else text_bodies.CHUNK_BYTES
    ):
        return explained(call)


def run(data: bytes) -> None:
    """Compares what the product reads with what Python's csv module reads."""
    head, text = data[:HEAD].ljust(HEAD, b"0"), data[HEAD:]
    delimiter, quote = _DIALECTS[head[0] & 3]
    has_header, is_text, reject, has_nulls = (bool(head[0] & bit) for bit in (4, 8, 16, 32))
    marked = text.removeprefix(b"\xef\xbb\xbf")
    records, names = table_by_python(marked, delimiter, quote, has_header)
    types = declared(names, head[1], is_text)
    options: dict[str, Any] = {
        "delimiter": delimiter,
        "quote": quote,
        "header": has_header,
        "types": types,
    }
    options |= {} if has_header else {"columns": names}
    options |= {} if has_nulls else {"nulls": ()}
    options |= {"file_name": "a.csv", "reject": reject, "is_streamed": bool(head[0] & 64)}
    # The parser in C++ and what stands in for it, both.
    with contextlib.nullcontext() if head[0] < 128 else without_kernels():
        found, why = read_all(text, "csv", head[2:4], **options)
    is_easy = (
        set(types.values()) <= {"bytes"}
        and bool(types)
        and len(set(names)) == len(names)
        and "" not in names
    )
    if found is None:
        is_good = records and all(
            len(record.cells) == len(names) and record.is_strict for record in records
        )
        # UTF-16; or empty lines, which can fill a whole first range.
        is_strange = marked.startswith((b"\xff\xfe", b"\xfe\xff", b"\n", b"\r"))
        require(
            not (is_easy and is_good and not is_strange and is_utf8(names)),
            "csv: an error without a reason",
            why,
        )
        return
    plan, (table, counts, rejected) = found
    if encoding := encodings.transcoded_from(plan.source):
        marked = text.decode(encoding).encode()
        records, names = table_by_python(marked, delimiter, quote, has_header)
    require(
        tuple(plan.read_schema.names) == names,
        "csv: other columns",
        f"{plan.read_schema.names} {names}",
    )
    require(reject or not rejected, "csv: rejected without being asked")
    left = without_rejected(records, rejected)
    require(
        len(left) == table.num_rows == counts["read"],
        "csv: another number of rows",
        f"{len(left)} {counts}",
    )
    compare(plan, table, left, Source.nulls if has_nulls else ())
    by_line = {record.line: record for record in records}
    for bad in rejected:
        record = by_line[int(bad.position.removeprefix("line "))]
        is_fine = is_easy and len(record.cells) == len(names) and record.is_strict
        require(bool(bad.reason) and not is_fine, "csv: rejected without a reason", bad)


def is_utf8(names: Sequence[str]) -> bool:
    """Whether names with surrogate escapes are valid text."""
    return not any("\ud800" <= character <= "\udfff" for name in names for character in name)


def declared(names: Sequence[str], choice: int, is_text: bool) -> dict[str, str]:
    """Returns types of columns.

    They are bytes, none, or the same few in another order.
    """
    if is_text:
        return dict.fromkeys(names, "bytes" if choice & 1 else "text")
    if choice < 128:
        return {}
    return {name: _TYPES[(choice + place) % len(_TYPES)] for place, name in enumerate(names)}


def without_rejected(records: Sequence[Record], rejected: Sequence[Rejected]) -> list[Record]:
    """Returns the records that were not rejected.

    It checks that each rejected one exists.
    """
    lines = [int(bad.position.removeprefix("line ")) for bad in rejected]
    require(len(set(lines)) == len(lines), "csv: a line rejected twice", lines)
    known = {record.line for record in records}
    require(
        set(lines) <= known,
        "csv: rejected a line where no record begins",
        f"{lines} {sorted(known)}",
    )
    return [record for record in records if record.line not in lines]


def compare(plan: SourcePlan, table: Any, records: Sequence[Record], nulls: Sequence[str]) -> None:
    """Compares cells, but for columns in a format that was found."""
    columns = [column.to_pylist() for column in table.columns]
    formats = plan.source.options_of(CsvOptions).formats
    kinds = ["" if field.name in formats else str(field.type) for field in plan.read_schema]
    for row, record in enumerate(records):
        require(record.is_strict, "csv: a quote closed within a cell, and no error", record)
        require(len(record.cells) == len(columns), "csv: a ragged row, and no error", record)
        for kind, column, cell in zip(kinds, columns, record.cells, strict=True):
            is_same = not kind or cells.means(cell, column[row], kind, nulls)
            require(is_same, f"csv: another {kind}", f"row {row}: {cell!r} became {column[row]!r}")


def seeds() -> list[bytes]:
    """Texts of every kind of quoting, line end and value."""
    table = b'name,size,when\n"a ""b""",1,2013-01-31\n"c\nd",22,2013-02-01\r\n5" disk,,2013-02-02\n'
    numbers = b"a,b,c\n1,0.5,true\n-2,1e3,false\n,NA,\n9223372036854775807,-0.0,true\n"
    times = b"t,z,d,s\n2013-01-31 05:15:00,2013-01-31T05:15:00Z,2013-01-31,05:15:00\n"
    strange = '\ufeffé,b\n€,"x\r\ny"\r\n\n\n,\n'.encode()
    heads = (
        b"\x04@AB", b"\x0cAAA", b"\x1cA\x01A", b"\x14\xc0\x03A", b"\x34\xd0\x90\xc0", b"\x3f@\x07A", b"\x5cA\x05A", b"\x74\xd0\x01A",
    )  # fmt: skip
    return [head + text for head in heads for text in (table, numbers, times, strange)]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Splices cells, quotes and line ends."""
    return mutations.keep_head(data, HEAD, mutations.splice(data[HEAD:], _TOKENS, chance), chance)


TARGET = Target(run, seeds, mutate, max_bytes=6_000)
