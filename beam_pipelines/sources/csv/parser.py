"""Parses whole CSV records: by the kernel, else by Python.

Plain Python (``csv`` and ``cell_parser``) defines values, errors and places.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import whole_numbers
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.csv import codes
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.cells import cell_parser
from beam_pipelines.sources.text.format import BadRecord, try_pieces
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect, Positions

# Float64 has all integers with fewer digits.
_LONG = 16
# The kernel's names of types.
_KERNEL_TYPES = {
    pa.int8(): "c",
    pa.uint8(): "C",
    pa.int16(): "s",
    pa.uint16(): "S",
    pa.int32(): "i",
    pa.uint32(): "I",
    pa.int64(): "l",
    pa.uint64(): "L",
    pa.float32(): "f",
    pa.float64(): "g",
    pa.bool_(): "b",
    pa.string(): "u",
    pa.binary(): "z",
    pa.date32(): "tdD",
    pa.time64("us"): "ttu",
    pa.timestamp("us"): "tsu:",
}
_NUL = "\udc00"


@dataclasses.dataclass(frozen=True)
class CsvParser:
    """Parses records of one source.

    Attributes:
      names: all columns of the files, in order.
      read_schema: the columns to read, as pyarrow.csv checks them.
      schema: the same as column types.
      dialect: delimiter and quote.
      nulls: texts that mean null.
      exact: columns of int64 and float64 whose type is inferred: no integer is rounded, and no
        zero leads.
    """

    names: tuple[str, ...]
    read_schema: pa.Schema
    schema: pa.Schema
    dialect: Dialect
    nulls: tuple[str, ...]
    exact: frozenset[str] = frozenset()

    def toggles(self, data: bytes) -> Positions:
        """Returns the quotes that open or close in whole records."""
        return quotes.toggling_quotes(data, OUTSIDE, NEWLINE, self.dialect)

    def parse_natively(self, data: bytes, line_bytes: int | None = None) -> pa.RecordBatch | None:
        """Parses good records into one batch, or returns ``None``.

        It does so if the kernel is not certain of the result, or a record may have more than
        ``line_bytes``.
        """
        types = [type_ for field in self.read_schema if (type_ := _kernel_type(field.type))]
        if not types or len(types) < len(self.read_schema):
            return None
        place_of = {name: place for place, name in enumerate(self.names)}
        wanted = [
            (place_of[name], "!" * (name in self.exact) + type_)
            for name, type_ in zip(self.read_schema.names, types, strict=True)
        ]
        batch: pa.RecordBatch | None = _native.parse_csv(
            data, *self.dialect, len(self.names), wanted, self.nulls, self.schema, line_bytes
        )
        return batch

    def sift(self, data: bytes, toggles: Positions) -> Iterator[pa.RecordBatch | BadRecord]:
        """Parses records; yields batches of good ones, and bad ones in order.

        A bad record is (start, end, column, reason).
        """
        spans = quotes.record_spans(data, toggles)
        slow = functools.partial(self.by_python, data)
        return try_pieces(data, spans, self.parse_natively, slow)

    def by_python(
        self, data: bytes, starts: Sequence[int], ends: Sequence[int]
    ) -> Iterator[pa.RecordBatch | BadRecord]:
        """Parses records as ``sift`` does; this is the definition."""
        records = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        wrong: dict[int, tuple[str, str]] = {}
        rows: dict[int, list[str]] = {}
        for number, cells in enumerate(_split(records, self.dialect)):
            if cells is None:
                wrong[number] = "", _badly_closed(self.dialect)
            elif len(cells) != len(self.names):
                delimiter = chr(self.dialect.delimiter)
                wrong[number] = "", other_number(cells, len(self.names), delimiter)
            else:
                rows[number] = cells
        numbers, texts = list(rows), list(zip(*rows.values(), strict=True))
        arrays = [
            self._values(field, texts[self.names.index(field.name)], numbers, wrong)
            for field in self.read_schema
            if rows
        ]
        for number in sorted(wrong):
            yield (starts[number], ends[number], *wrong[number])
        if rows:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            good = pa.array([number not in wrong for number in numbers])
            yield batch.filter(good) if wrong else batch

    def _values(
        self,
        field: pa.Field,
        texts: Sequence[str],
        numbers: Sequence[int],
        wrong: dict[int, tuple[str, str]],
    ) -> pa.Array:
        """Returns a column's values; notes records with a bad cell."""
        parse, nulls, values = cell_parser(field.type), frozenset(self.nulls), []
        is_exact, is_float = field.name in self.exact, pa.types.is_floating(field.type)
        for number, text in zip(numbers, texts, strict=True):
            value: Any = None
            if text not in nulls:
                try:
                    value = parse(text)
                    if is_exact:
                        _check_digits(text, is_float)
                except ValueError:
                    if number not in wrong:
                        wrong[number] = field.name, self._describe_cell(field, _escaped(text))
            values.append(value)
        return pa.array(values, self.schema.field(field.name).type)

    def _describe_cell(self, field: pa.Field, found: str) -> str:
        if field.name in self.exact:
            if code := codes.code_cure(field, found):
                return bad_rows.wrong_value(found, "a number without a leading zero", code)
            expected = whole_numbers.why_text_refused(found)
            if expected and pa.types.is_floating(field.type):
                return bad_rows.wrong_value(found, expected, codes.float_cure(field.name))
        return bad_rows.wrong_value(found, field.type, codes.cure(field, found))


def _kernel_type(type_: pa.DataType) -> str | None:
    if pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz is not None:
        return "tsu:UTC"
    return _KERNEL_TYPES.get(type_)


def _check_digits(text: str, is_float: bool) -> None:
    """Raises ``ValueError`` for leading zeros, and integers that float64 rounds."""
    is_code = text[:1] <= "0" and codes.LEADING_ZERO.match(text)
    if is_code or (is_float and len(text) >= _LONG and whole_numbers.why_text_refused(text)):
        raise ValueError(text)


def other_number(cells: Sequence[str], expected: int, delimiter: str) -> str:
    """Returns the error of a record of another length."""
    found, shown = len(cells), f" {shorten(cells[0], 40)!r}," if len(cells) == 1 else ""
    remedy = (
        "Complete the line; remove it, or leave some such lines out with 'on_error: {reject: "
        "10}', if it is no row, as a count below a table; or set 'delimiter' of the source if it "
        f"is not {delimiter!r}."
        if found < expected
        else f"Quote cells that contain the delimiter {delimiter!r}, or set 'delimiter' and "
        "'quote' of the source."
    )
    counted = f"{found} cell{'' if found == 1 else 's'},{shown}"
    return f"found {counted} expected {expected}, one for each column. {remedy}"


def check_closed(file: FileInfo, lines: blocks.LineNumbers, toggles: Positions) -> None:
    """Checks that no quote is open where a text ends."""
    if len(toggles) % 2:
        raise DataError(
            f"{file.path}, line {lines.line(int(toggles[-1]))}: found a quote that is never "
            "closed, expected another one before the end of the file. Close it, or "
            f"{quotes.OTHER_QUOTE}"
        )


def _badly_closed(dialect: Dialect) -> str:
    quote = chr(dialect.quote or 0)
    return (
        f"found text after a closing quote, expected the delimiter {chr(dialect.delimiter)!r} or "
        f"the end of the line. Write a quote inside quotes twice ({quote}{quote}), not behind a "
        f"backslash (pandas.read_csv has 'escapechar'), or {quotes.OTHER_QUOTE}"
    )


def _escaped(text: str) -> str:
    """Returns a text with escapes for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def dialect_of(source: Source, delimiter: str) -> Dialect:
    """Returns the dialect of a source; ``delimiter`` is the format's default."""
    options = source.options_of(CsvOptions)
    quote = '"' if options.quote is None else options.quote
    return Dialect(ord(options.delimiter or delimiter), ord(quote) if quote else None)


def split_cells(record: bytes, dialect: Dialect) -> list[str]:
    """Splits one record with Python's csv module, for headers and messages.

    Bytes that are not UTF-8 become escapes.
    """
    text = record.decode("utf-8", errors="backslashreplace")
    return next(_reader([text], dialect, is_strict=False), [])


def _split(records: Sequence[bytes], dialect: Dialect) -> list[list[str] | None]:
    """Splits records with Python's csv module.

    Returns:
      Cells with surrogates for bytes that are not UTF-8; ``None`` for a record with text after a
      closing quote.
    """
    # The csv module of Python 3.10 refuses NUL. No byte becomes that surrogate.
    texts = [record.decode("utf-8", "surrogateescape").replace("\0", _NUL) for record in records]
    try:
        rows: list[list[str] | None] = list(_reader(texts, dialect))
    except csv.Error:
        rows = []
    # After an error the reader has lost its place, and an open quote takes other records in.
    if len(rows) != len(texts):
        rows = [_cells(text, dialect) for text in texts]
    if any(b"\0" in record for record in records):
        rows = [row and [cell.replace(_NUL, "\0") for cell in row] for row in rows]
    return rows


def _cells(text: str, dialect: Dialect) -> list[str] | None:
    try:
        return next(_reader([text], dialect), [])
    except csv.Error as error:
        # In a sample, the last quote may be open.
        is_open = "unexpected end" in str(error)
        return next(_reader([text], dialect, is_strict=False), []) if is_open else None


def _reader(texts: Sequence[str], dialect: Dialect, is_strict: bool = True) -> Iterator[list[str]]:
    """Returns the csv module's reader; ``is_strict`` refuses text after quotes."""
    # Python's own limit of a cell is one for the whole process, not of a recipe.
    longest = max(map(len, texts), default=0)
    if longest > csv.field_size_limit():
        csv.field_size_limit(longest)
    quote = None if dialect.quote is None else chr(dialect.quote)
    return csv.reader(
        texts,
        delimiter=chr(dialect.delimiter),
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        quotechar=quote,
        strict=is_strict,
    )
