"""The records of a sample, parsed with pyarrow.csv, which infers types."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from beam_pipelines.core.arrow.columns import only_chunk
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.cell_formats import CellFormat
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.csv.header import cut_top, equal_lines
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.blocks import BYTE_ORDER_MARK
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect, Positions
from beam_pipelines.sql.database import identifier, literal

# With 40,000 cells more than expected, pyarrow 18, which TFX allows, corrupted its memory; pyarrow
# 25 did not.
OVERFLOWS = int(pa.__version__.split(".")[0]) < 25
_EMPTY_LINES, _END_BYTES = re.compile(rb"(?:\r?\n){2,}"), 1 << 16
_CURE = "another table needs a file of its own; 'filter' leaves out what is no row"
# What spreadsheets call the sums below a table.
_TOTALS = re.compile(
    r"(?i)\W*(?:(?:grand |sub)?totals?|sums?|total g[eé]n[eé]ral|summe|gesamt\w*)\W*"
)
_EXPONENT = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+\s*$"


class Misfit(NamedTuple):
    """The file, line and text of a value that does not fit."""

    file: str
    line: int
    text: str


@dataclasses.dataclass
class CsvSample:
    """The records of some files of a source.

    Attributes:
      source: with its dialect.
      dialect: delimiter and quote.
      first: the source's first file.
      names: all columns of the files.
      header: the first record of the first file; empty: none.
      files: those that are looked at.
      again: file and line of records that are the header again.
      behind: file and line of records behind an empty line.
    """

    source: Source
    dialect: Dialect
    first: FileInfo
    names: tuple[str, ...]
    header: bytes
    files: tuple[FileInfo, ...] = ()
    again: dict[tuple[str, int], None] = dataclasses.field(default_factory=dict)
    behind: dict[tuple[str, int], None] = dataclasses.field(default_factory=dict)

    def bodies(self) -> Iterator[tuple[FileInfo, blocks.Body]]:
        """Yields the records of the files, without headers.

        Lines that are the header again are left empty, and noted: no type follows from them. A
        single column may have its name as a value.
        """
        source, header = self.source, self.header
        for file, body in blocks.sample_bodies(source, self.files, self.dialect):
            # Files that were put together have their marks in the middle.
            data = body.data.replace(b"\n" + blocks.BYTE_ORDER_MARK, b"\n")
            whole = body._replace(data=data)
            records = cut_top(whole, source, self.dialect, file.path, (self.first.path, self.names))
            toggles = quotes.toggling_quotes(records.data, OUTSIDE, NEWLINE, self.dialect)
            blocks.check_lines(source, file, records, toggles)
            if b"\n\n" in records.data or b"\n\r\n" in records.data:
                begins, ends = quotes.record_spans(records.data, toggles)
                after = begins[1:][begins[1:] > ends[:-1]]
                # Some programs write an empty line behind each row.
                if len(after) + 1 < len(begins):
                    lines = blocks.LineNumbers(source, file, records).lines(after)
                    self.behind |= {(file.path, line): None for line in lines.tolist()}
            starts = equal_lines(records.data, header) if len(self.names) > 1 and header else []
            # Where most lines are the same, they are rows.
            if 0 < 2 * len(starts) <= records.data.count(b"\n"):
                numbers = blocks.LineNumbers(source, file, records)
                self.again |= {(file.path, numbers.line(start)): None for start in starts}
                spans = zip([0, *(at + len(header) for at in starts)], [*starts, None], strict=True)
                data = b"".join(records.data[start:end] for start, end in spans)
                records = records._replace(data=data)
            yield file, records

    def table(
        self,
        data: bytes,
        wanted: tuple[str, ...],
        types: Mapping[str, pa.DataType] | None = None,
        nulls: tuple[str, ...] | None = None,
    ) -> pa.Table:
        """Parses records with pyarrow.csv, in one thread.

        Args:
          data: whole records, without a header.
          wanted: columns to convert, in this order.
          types: their types; ``None`` infers them.
          nulls: texts that mean null in a column of any type, quoted or not; by default the
            source's.
        """
        if not data or (data[0] in b"\r\n" and not data.strip(b"\r\n")):
            return pa.schema(
                [(name, (types or {}).get(name, pa.null())) for name in wanted]
            ).empty_table()
        # pyarrow would skip a mark, or miss the rest of one, also in the middle of a file.
        if BYTE_ORDER_MARK.startswith(data[:3]):
            data = BYTE_ORDER_MARK + data
        quote = self.dialect.quote
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=list(self.names)
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=chr(self.dialect.delimiter),
                quote_char=chr(quote) if quote is not None else False,
                newlines_in_values=True,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=list(wanted),
                null_values=list(self.source.nulls if nulls is None else nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )

    def whole_rows(self, data: bytes) -> tuple[bytes, Positions]:
        """Returns records with a cell for each column, and their starts."""
        toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, self.dialect)
        starts, ends = quotes.record_spans(data, toggles)
        is_whole = quotes.count_cells(data, toggles, starts, self.dialect) == len(self.names)
        if len(toggles) % 2:  # a quote that is never closed
            is_whole[-1:] = False
        return blocks.joined(data, starts[is_whole], ends[is_whole]), starts[is_whole]

    def apart(self) -> Iterator[str]:
        """Yields findings of rows behind empty lines.

        Behind the sample they are fewer than those before. Texts may have empty lines, too: whether
        a quote is open follows from the end.
        """
        mark = chr(self.dialect.delimiter)
        cure = _CURE
        if self.behind:
            (path, line), number = next(iter(self.behind)), len(self.behind)
            words = f"rows behind an empty line, from {path}, line {line}"
            if number > 1:
                words = f"groups behind empty lines: {number:,}, from {path}, line {line}"
                first = 'NR == 1 {print "group", $0; next} ' * bool(self.header)
                cure = (
                    f"awk -v OFS={mark!r} '{first}NF {{print n+0, $0}} !NF "
                    f"{{n++}}' {shlex.quote(os.path.basename(path))} > new.txt numbers them"
                )
            yield f"{words}  # {cure}"
        for file in self.files:
            if blocks.is_stream(self.source, file.path):
                continue
            start = max(0, file.size_bytes - _END_BYTES)
            with files.open_read(file.path) as opened:
                data = blocks.read_exactly(opened, file.path, start, file.size_bytes)
            before, *rest = _EMPTY_LINES.split(data.rstrip(b"\r\n"))
            number, quote = sum(part.count(b"\n") + 1 for part in rest), self.dialect.quote or 0
            is_open = b"".join(rest).count(quote) % 2
            if len(rest) == 1 and number <= before.count(b"\n") and not is_open:
                numbers = blocks.LineNumbers(self.source, file, blocks.Body(start, data))
                place = f"{file.path}, line {numbers.line(data.rindex(rest[0]))}"
                yield f"rows behind an empty line, from {place}  # {_CURE}"
            last = data.rstrip(b"\r\n").decode(errors="replace").rpartition("\n")[2]
            for name, cell in zip(self.names, last.split(mark), strict=False):
                if _TOTALS.fullmatch(cell) and data.count(cell.encode()) == 1:
                    sql = f"{identifier(name)} IS DISTINCT FROM {literal(cell.strip(chr(34)))}"
                    words = f"a last row of totals in {file.path}: {cell}"
                    yield f"{words}  # filter: {yaml_text(sql)} leaves it out"

    def misfits(self, name: str, format_: CellFormat) -> list[Misfit]:
        """Returns the values of a column that are not in a format."""
        found = []
        for file, body in self.bodies():
            data, starts = self.whole_rows(body.data)
            texts = only_chunk(self.table(data, (name,), {name: pa.string()}).column(name))
            plain = pc.or_(
                to_plain(texts, format_).is_valid(),
                pc.fill_null(pc.match_substring_regex(texts, _EXPONENT), fill_value=False),
            )
            wrong = pc.and_not(texts.is_valid(), plain)
            rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
            lines = blocks.LineNumbers(self.source, file, body).lines(starts[rows]).tolist()
            cells = texts.take(pa.array(rows)).to_pylist()
            found += [Misfit(file.path, *one) for one in zip(lines, cells, strict=True)]
        return found
