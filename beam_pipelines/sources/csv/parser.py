"""Parses whole CSV records: fast if good, else with exact errors."""

from __future__ import annotations

import csv
import dataclasses
import heapq
import io
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from beam_pipelines.core import columns
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import bad_rows, whole_numbers
from beam_pipelines.sources.bad_rows import BadRow
from beam_pipelines.sources.csv import native
from beam_pipelines.sources.csv.bad_cells import (
    Flags,
    bad_cells,
    other_number,
    plain_integers,
)
from beam_pipelines.sources.csv.codes import leads_with_zero, loses_digits
from beam_pipelines.sources.csv.cures import code_cure, cure, float_cure
from beam_pipelines.sources.csv.options import CsvOptions
from beam_pipelines.sources.exact_cast import INFINITY
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.blocks import BYTE_ORDER_MARK, joined
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect, Positions

# With 40,000 cells more than expected, pyarrow 18, which TFX allows, corrupted its memory; pyarrow
# 25 did not.
_OVERFLOWS = int(pa.__version__.split(".")[0]) < 25
_MOST_MORE_CELLS = 10_000
# Parsed cells stay in the processor's cache until they are converted: a quarter quicker than a
# whole range at once (benchmarks/bench_stages.py).
_BLOCK_BYTES = 1 << 20

# Bytes behind a leading zero, and those before a zero that leads none.
_BEHIND_ZERO, _BEFORE_ZERO = (
    np.isin(np.arange(256), list(some)) for some in (b"0123456789xX", b"0123456789.")
)

# What any number of 18 digits has.
_MANY_DIGITS = re.compile(rb"[0-9][0-9.]{17}")

# A bad record: where it begins and ends, its column and error.
BadRecord = tuple[int, int, str, str]


@dataclasses.dataclass(frozen=True)
class CsvParser:
    """Parses records of one source.

    Attributes:
      names: all columns of the files, in order.
      read_schema: the columns to read, as pyarrow.csv checks them.
      schema: the same as column types.
      dialect: delimiter and quote.
      nulls: texts that mean null.
      exact: columns of int64 and float64 whose type is inferred: no integer is rounded, no zero
        leads, and no fraction loses digits.
      long: those of ``exact`` in which fractions may lose digits.
    """

    names: tuple[str, ...]
    read_schema: pa.Schema
    schema: pa.Schema
    dialect: Dialect
    nulls: tuple[str, ...]
    exact: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()

    def toggles(self, data: bytes) -> Positions:
        """Returns the quotes that open or close in whole records."""
        return quotes.toggling_quotes(data, OUTSIDE, NEWLINE, self.dialect)

    def parse(self, data: bytes, multi_line: bool = True) -> pa.RecordBatch:
        """Parses records into one batch.

        Raises:
          pa.ArrowInvalid: any of them is ragged or has a value that does not fit its column.
        """
        batch = self.parse_natively(data)
        return self.parse_with_arrow(data, multi_line) if batch is None else batch

    def parse_natively(self, data: bytes, line_bytes: int | None = None) -> pa.RecordBatch | None:
        """Parses records as ``parse`` does, or returns ``None``.

        It does so if the kernel is not certain of the result, or a record may have more than
        ``line_bytes``.
        """
        batch = native.parse(
            data,
            self.names,
            self.read_schema,
            self.schema,
            self.dialect,
            self.nulls,
            line_bytes,
            self.exact,
            self.long,
        )
        return None if batch is None or self._rounds(data, batch) else batch

    def parse_with_arrow(self, data: bytes, multi_line: bool = True) -> pa.RecordBatch:
        """Parses records with pyarrow.csv, which decides all cases; see ``parse``."""
        types = {field.name: field.type for field in self.read_schema}
        read = partial(
            read_table,
            data,
            tuple(types),
            names=self.names,
            dialect=self.dialect,
            nulls=self.nulls,
        )
        try:
            table = read(types, multi_line=multi_line, block_bytes=_BLOCK_BYTES)
        except pa.ArrowInvalid:
            if len(data) <= _BLOCK_BYTES and not _may_be_odd(data):
                raise
            # Perhaps a record is only longer than a block.
            table = _with_odd_integers(data, read, types, multi_line)
        self._check_infinite(data, table)
        if self._rounds(data, table) or self._has_codes(data) or self._loses(data):
            raise pa.ArrowInvalid(whole_numbers.ROUNDED)
        arrays = [columns.normalise(columns.only_chunk(column)) for column in table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _check_infinite(self, data: bytes, table: pa.Table) -> None:
        """Raises ``pa.ArrowInvalid`` if a finite number in the text became infinite."""
        found = {
            name: pc.is_inf(table.column(name))
            for name in table.column_names
            if pa.types.is_floating(table.schema.field(name).type)
        }
        infinite = [name for name, flags in found.items() if pc.any(flags).as_py()]
        if not infinite:
            return
        texts = self._texts(data, infinite)
        for name in infinite:
            column = texts.column(name).combine_chunks()
            named = pc.match_substring_regex(column, INFINITY)
            if pc.any(pc.and_(found[name].combine_chunks(), pc.invert(named))).as_py():
                raise pa.ArrowInvalid("a number beyond the range of its type")

    def _rounds(self, data: bytes, table: pa.Table | pa.RecordBatch) -> bool:
        """Whether one of the ``exact`` columns rounded an integer."""
        floats = [n for n in self.exact if pa.types.is_floating(self.read_schema.field(n).type)]
        large = [name for name in floats if whole_numbers.may_be_rounded(table.column(name))]
        return self._have(data, large, whole_numbers.refused)

    def _has_codes(self, data: bytes) -> bool:
        """Whether an ``exact`` column has a number with a leading zero."""
        may_have = bool(self.exact) and _may_lead_with_zero(data)
        return may_have and self._have(data, list(self.exact), leads_with_zero)

    def _loses(self, data: bytes) -> bool:
        """Whether a fraction of an ``exact`` column loses digits."""
        names = [name for name in self.exact if self._is_told(self.read_schema.field(name))]
        may_lose = bool(names) and _MANY_DIGITS.search(data) is not None
        return may_lose and self._have(data, names, loses_digits)

    def _have(
        self, data: bytes, names: list[str], rule: Callable[[pa.ChunkedArray], pa.Array]
    ) -> bool:
        """Whether a rule holds for a text of some columns."""
        texts = self._texts(data, names).columns if names else ()
        return any(pc.any(rule(column)).as_py() for column in texts)

    def _is_told(self, field: pa.Field) -> bool:
        """Whether the digits of a column's numbers are looked at."""
        return field.name in self.exact - self.long and pa.types.is_floating(field.type)

    def _texts(self, data: bytes, columns: list[str]) -> pa.Table:
        """Returns the texts of some columns of good records."""
        types = dict.fromkeys(columns, pa.string())
        return read_table(
            data, tuple(columns), types, names=self.names, dialect=self.dialect, nulls=self.nulls
        )

    def sift(self, data: bytes, toggles: Positions) -> Iterator[pa.RecordBatch | BadRecord]:
        """Parses records; yields batches of good ones, and bad ones in order.

        A bad record is (start, end, column, reason).
        """
        badly_closed = quotes.badly_closed(data, toggles, self.dialect)
        if not len(badly_closed):
            try:
                yield self.parse_with_arrow(data, multi_line=len(toggles) > 0)
                return
            except bad_rows.ERRORS:
                pass
        starts, ends = quotes.record_spans(data, toggles)
        is_closed = np.zeros(len(starts), bool)
        is_closed[np.searchsorted(starts, badly_closed, side="right") - 1] = True
        is_bad = is_closed | (
            quotes.count_cells(data, toggles, starts, self.dialect) != len(self.names)
        )
        ragged = (
            (start, (start, end, *self._explain(data[start:end].rstrip(b"\r\n"), closed, None)))
            for start, end, closed in zip(
                starts[is_bad].tolist(),
                ends[is_bad].tolist(),
                is_closed[is_bad].tolist(),
                strict=True,
            )
        )
        starts, ends = starts[~is_bad], ends[~is_bad]
        # All rows may be wrong, or many: parsing them one by one would take long.
        cells, is_bad = self._bad_cells(data, starts, ends)
        for _, found in heapq.merge(
            ragged, cells, self._sift_types(data, starts[~is_bad], ends[~is_bad]), key=itemgetter(0)
        ):
            yield found

    def _bad_cells(
        self, data: bytes, starts: Positions, ends: Positions
    ) -> tuple[Iterator[tuple[int, BadRecord]], Flags]:
        """Finds bad cells in records with the right number of cells.

        Returns:
          Where each bad record begins, and its error as ``sift`` words it, of the first bad column;
            and flags of these records.
        """
        is_bad = np.zeros(len(starts), np.bool_)
        types = dict.fromkeys(self.read_schema.names, pa.binary())
        try:
            table = read_table(
                joined(data, starts, ends),
                tuple(types),
                types,
                names=self.names,
                dialect=self.dialect,
                nulls=(),
            )
        except bad_rows.ERRORS:
            table = None
        if table is None or table.num_rows != len(starts):
            return iter(()), is_bad
        wrong = np.full(len(starts), -1)
        for number, (field, column) in enumerate(zip(self.read_schema, table.columns, strict=True)):
            cells = columns.only_chunk(column)
            bad = bad_cells(cells, field.type, self.nulls)
            if field.name in self.exact:
                found = leads_with_zero(cells)
                if pa.types.is_floating(field.type):
                    found = pc.or_(found, whole_numbers.refused(cells))
                if self._is_told(field):
                    found = pc.or_(found, loses_digits(cells))
                is_null = pc.is_in(cells, value_set=pa.array(self.nulls).cast(pa.binary()))
                bad |= pc.and_not(found, is_null).to_numpy(zero_copy_only=False)
            wrong[(wrong < 0) & bad] = number
        return self._described(table, wrong, starts, ends), wrong >= 0

    def _described(
        self, table: pa.Table, wrong: Positions, starts: Positions, ends: Positions
    ) -> Iterator[tuple[int, BadRecord]]:
        """Yields where each bad record begins, and it as ``sift`` yields it.

        Args:
          table: the records' cells as bytes, n rows.
          wrong: int64[n], number of the bad column, or -1.
          starts, ends: int64[n], of the records.
        """
        rows = np.flatnonzero(wrong >= 0)
        known: dict[tuple[int, bytes], str] = {}
        for row, number, start, end in zip(
            rows.tolist(),
            wrong[rows].tolist(),
            starts[rows].tolist(),
            ends[rows].tolist(),
            strict=True,
        ):
            field, cell = self.read_schema.field(number), table.column(number)[row].as_py()
            if (number, cell) not in known:
                known[number, cell] = self._describe_cell(
                    field, cell.decode("utf-8", errors="backslashreplace")
                )
            yield start, (start, end, field.name, known[number, cell])

    def _sift_types(
        self, data: bytes, starts: Positions, ends: Positions
    ) -> Iterator[tuple[int, pa.RecordBatch | BadRecord]]:
        """Parses records without known errors; yields where each finding begins, and it.

        Findings are those of ``sift``. If parsing finds an error, rows are parsed one by one.
        """
        records = joined(data, starts, ends)
        edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
        place = 0
        for found in bad_rows.sift(
            lambda start, end: self.parse(records[edges[start] : edges[end]]), 0, len(starts)
        ):
            if isinstance(found, BadRow):
                start, end = int(starts[found.number]), int(ends[found.number])
                yield (
                    start,
                    (
                        start,
                        end,
                        *self._explain(data[start:end].rstrip(b"\r\n"), False, found.error),
                    ),
                )
                place = found.number + 1
            else:
                yield int(starts[place]), found
                place += found.num_rows

    def _explain(
        self, record: bytes, badly_closed: bool, error: Exception | None
    ) -> tuple[str, str]:
        """Returns the column and the error of a record that was refused."""
        if badly_closed:
            quote = chr(self.dialect.quote or 0)
            return "", (
                "found text after a closing quote, expected the delimiter "
                f"{chr(self.dialect.delimiter)!r} or the end of "
                f"the line. Write a quote inside quotes twice ({quote}{quote}), or set 'quote' of "
                "the source."
            )
        cells = split_cells(record, self.dialect)
        if len(cells) != len(self.names):
            return "", other_number(len(cells), len(self.names), chr(self.dialect.delimiter))
        for field in self.read_schema:
            one = dataclasses.replace(
                self,
                read_schema=pa.schema([field]),
                schema=pa.schema([self.schema.field(field.name)]),
            )
            try:
                one.parse(record)
            except bad_rows.ERRORS:
                return field.name, self._describe_cell(field, cells[self.names.index(field.name)])
        return "", str(error)

    def _describe_cell(self, field: pa.Field, found: str) -> str:
        if field.name in self.exact and (code := code_cure(field, found)):
            return bad_rows.wrong_value(found, "a number without a leading zero", code)
        is_exact = field.name in self.exact and pa.types.is_floating(field.type)
        expected = whole_numbers.why_text_refused(found) if is_exact else ""
        if self._is_told(field) and pc.any(loses_digits(pa.array([found]))).as_py():
            expected = expected or "no more digits than float64 keeps"
        if expected:
            return f"found {shorten(found, 100)!r}, expected {expected}. {float_cure(field.name)}"
        return bad_rows.wrong_value(found, field.type, cure(field, found))


def _may_lead_with_zero(data: bytes) -> bool:
    """Whether a number or part of a text begins with zero."""
    text = np.frombuffer(b"\n" + data, np.uint8)
    zeros = np.flatnonzero(text[1:-1] == ord("0")) + 1
    zeros = zeros[_BEHIND_ZERO[text[zeros + 1]]]
    return not _BEFORE_ZERO[text[zeros - 1]].all()


def _may_be_odd(data: bytes) -> bool:
    """Whether integers may be written in a way that pyarrow.csv refuses."""
    return b"+" in data or b".0" in data


def _with_odd_integers(
    data: bytes,
    read: Callable[..., pa.Table],
    types: Mapping[str, pa.DataType],
    multi_line: bool,
) -> pa.Table:
    """Parses records as one block; integers may be written ``+5`` and ``5.0``."""
    integers = [name for name, type_ in types.items() if pa.types.is_integer(type_)]
    if not integers or not _may_be_odd(data):
        return read(types, multi_line=multi_line)
    as_texts = {**types, **dict.fromkeys(integers, pa.string())}
    table = read(as_texts, multi_line=multi_line)
    for name in integers:
        place = table.schema.get_field_index(name)
        texts = pc.ascii_trim(columns.only_chunk(table.column(name)), characters=" \t")
        table = table.set_column(place, name, plain_integers(texts).cast(types[name]))
    return table


def dialect_of(source: Source, delimiter: str) -> Dialect:
    """Returns the dialect of a source; ``delimiter`` is the format's default."""
    options = source.options_of(CsvOptions)
    quote = '"' if options.quote is None else options.quote
    return Dialect(ord(options.delimiter or delimiter), ord(quote) if quote else None)


def read_table(
    data: bytes,
    wanted: tuple[str, ...],
    types: Mapping[str, pa.DataType] | None = None,
    *,
    names: tuple[str, ...],
    dialect: Dialect,
    nulls: tuple[str, ...],
    multi_line: bool = True,
    block_bytes: int | None = None,
) -> pa.Table:
    """Parses records with pyarrow.csv, in one thread.

    Args:
      data: whole records, without a header.
      wanted: columns to convert, in this order.
      types: their types; ``None`` infers them.
      names: all columns.
      dialect: delimiter and quote.
      nulls: texts that mean null in a column of any type, quoted or not.
      multi_line: whether cells may contain line ends.
      block_bytes: bytes that are parsed and converted at a time; no record may be longer. ``None``
        takes one block.
    """
    if not data or (data[0] in b"\r\n" and not data.strip(b"\r\n")):
        return pa.schema(
            [(name, (types or {}).get(name, pa.null())) for name in wanted]
        ).empty_table()
    if _OVERFLOWS:
        _check_cells(data, len(names), dialect)
    # pyarrow would skip a mark, or miss the rest of one, also in the middle of a file.
    if BYTE_ORDER_MARK.startswith(data[:3]):
        data = BYTE_ORDER_MARK + data
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            use_threads=False,
            block_size=min(block_bytes or len(data), len(data)) + 1,
            column_names=list(names),
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=chr(dialect.delimiter),
            quote_char=chr(dialect.quote) if dialect.quote is not None else False,
            newlines_in_values=multi_line,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            include_columns=list(wanted),
            null_values=list(nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _check_cells(data: bytes, cells: int, dialect: Dialect) -> None:
    """Raises ``pa.ArrowInvalid`` for a record with very many more cells than others.

    An older pyarrow writes past its buffers for it.
    """
    toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, dialect)
    starts, _ = quotes.record_spans(data, toggles)
    if (
        len(starts)
        and quotes.count_cells(data, toggles, starts, dialect).max() > cells + _MOST_MORE_CELLS
    ):
        raise pa.ArrowInvalid(f"CSV parse error: Expected {cells} columns")


def split_cells(record: bytes, dialect: Dialect) -> list[str]:
    """Splits one record with Python's csv module, for headers and messages.

    Bytes that are not UTF-8 become escapes.
    """
    # Python's own limit of a cell is one for the whole process, not of a recipe.
    csv.field_size_limit(max(csv.field_size_limit(), len(record)))
    lines = io.StringIO(record.decode("utf-8", errors="backslashreplace"), newline="")
    if dialect.quote is None:
        reader = csv.reader(
            lines, delimiter=chr(dialect.delimiter), quoting=csv.QUOTE_NONE, quotechar=None
        )
    else:
        reader = csv.reader(lines, delimiter=chr(dialect.delimiter), quotechar=chr(dialect.quote))
    return next(reader, [])
