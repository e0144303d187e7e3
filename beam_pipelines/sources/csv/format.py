"""CSV and TSV: types inferred once, every range parsed with them.

Compressed files are read as one stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.csv.header import cut_top, first_record, names_of
from beam_pipelines.sources.csv.infer import infer
from beam_pipelines.sources.csv.parser import CsvParser, check_closed, dialect_of, split_cells
from beam_pipelines.sources.files.compression import compression_of, read_head
from beam_pipelines.sources.libsvm.lines import HEAD_BYTES, sparse_line
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import Contents, problem
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.encodings import check_is_no_json, check_is_text
from beam_pipelines.sources.text.format import TextFormat, settled


@dataclasses.dataclass(frozen=True)
class Csv(TextFormat):
    """Text with one record a line, or more lines inside quotes.

    Attributes:
      suffixes: see ``Format``.
      delimiter: separates cells, unless the recipe names another one.
    """

    suffixes: tuple[str, ...]
    delimiter: str
    Options = CsvOptions
    reads_nulls = True
    judges_cells = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems, options = super().check(source), source.options_of(CsvOptions)

        def complain(key: str, message: str) -> None:
            problems.append(problem(source, key, message))

        one = "expected one ASCII character, neither a line end nor NUL."
        for key, value in (("delimiter", options.delimiter), ("quote", options.quote or None)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n\0"):
                complain(key, f"found {value!r}, {one}")
        if not problems and len({*self.dialect(source)}) == 1:
            complain("quote", "the quote is the delimiter, too. Change one of them.")
        if not self.has_own_names(source) and not source.columns:
            complain("header", "without a header, name the columns in file order with 'columns'.")
        for name, type_ in source.types.items():
            if type_.startswith("list<"):
                complain(
                    "types",
                    f"column '{name}': found {type_}, but a CSV cell is no list. Declare another "
                    "type, or make a list with 'derive', as in "
                    "{x: \"string_split(x_text, ' ')::DOUBLE[]\"}.",
                )
        return problems

    def has_own_names(self, source: Source) -> bool:
        """Whether a header names the columns; see ``Format``."""
        return source.options_of(CsvOptions).header is not False

    def dialect(self, source: Source) -> quotes.Dialect:
        """Returns delimiter and quote of a source."""
        return dialect_of(source, self.delimiter)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds dialect, columns and types; see ``Format``."""
        check_content(source, files[0])
        return infer(source, files, self.delimiter)

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole records, after the header of a file; see ``TextFormat``."""
        return _read_body(self._parser(plan), plan, file, self._records(plan, file, body), reject)

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, quotes.Positions, quotes.Positions]:
        """Returns the body after the header, and its records; see ``TextFormat``."""
        body, dialect = self._records(plan, file, body), self.dialect(plan.source)
        toggles = quotes.toggling_quotes(body.data, quotes.OUTSIDE, quotes.NEWLINE, dialect)
        return body, *quotes.record_spans(body.data, toggles)

    def _records(self, plan: SourcePlan, file: FileInfo, body: blocks.Body) -> blocks.Body:
        first = plan.files[0].path, tuple(plan.file_schema.names)
        return cut_top(body, plan.source, self.dialect(plan.source), file.path, first)

    def read_together(
        self, plan: SourcePlan, some: Sequence[FileInfo]
    ) -> tuple[pa.RecordBatch, list[int]] | None:
        """Parses small files as one, which saves the parser's cost for each.

        Returns:
          Their rows, and the CRC-32C of each file; ``None`` if anything is unusual, so that they
            have to be read one by one.
        """
        dialect = self.dialect(plan.source)
        parser = self._parser(plan)
        header, bodies, checksums = b"", [], []
        options = plan.source.options_of(CsvOptions)
        for file in some:
            if blocks.is_stream(plan.source, file.path) or options.skip_lines:
                return None
            with files.open_read(file.path) as opened:
                data = opened.read()
            checksums.append(google_crc32c.value(data))
            if options.header is not False and not header:
                header = data[: first_record(data, dialect)[1]]
                cells = names_of(tuple(split_cells(header.rstrip(b"\r\n"), dialect)), plan.source)
                if not header.endswith(b"\n") or cells != parser.names:
                    return None
            is_usual = (
                len(data) == file.size_bytes
                and data.startswith(header)
                and not data.startswith(blocks.MARKS)
            )
            data = data[len(header) :]
            if not is_usual or len(parser.toggles(data)) % 2:
                return None
            bodies.append(data if data.endswith(b"\n") else data + b"\n")
        try:
            return _read_body(
                parser, plan, some[0], blocks.Body(0, b"".join(bodies)), reject=False
            )[0], checksums
        except DataError:
            return None

    def _parser(self, plan: SourcePlan) -> CsvParser:
        dialect, names = self.dialect(plan.source), tuple(plan.file_schema.names)
        source, whole = plan.source, pa.int64()
        exact = frozenset(
            field.name
            for field in plan.read_schema
            if (field.type in (pa.float64(), whole) and field.name not in source.types)
            or (field.type == whole and field.name in source.planning.pinned)
        )
        return CsvParser(names, plan.read_schema, plan.schema, dialect, plan.source.nulls, exact)


def _read_body(
    parser: CsvParser, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
    # The kernel declines lines that are too long and quotes that are not closed; looking for them
    # costs as much as parsing.
    batch = parser.parse_natively(body.data, plan.source.limits.line_bytes)
    if batch is not None:
        return batch, ()
    lines = blocks.LineNumbers(plan.source, file, body)
    toggles = parser.toggles(body.data)
    check_closed(file, lines, toggles)
    blocks.check_lines(plan.source, file, body, toggles)
    return settled(plan, file, body, parser.sift(body.data, toggles), reject)


def check_content(source: Source, file: FileInfo) -> bytes:
    """Returns the beginning of a file that may be CSV.

    Raises:
      RecipeProblems: it is libsvm text or JSON, or compressed.
      DataError: it is another binary file, or a page of markup.
    """
    head = read_head(file.path, compression_of(source, file.path), HEAD_BYTES, source.limits)
    check_is_text(source, file.path, head)
    if source.format is not None or source.options_of(CsvOptions).header is False:
        return head
    check_is_no_json(source, file.path, head)
    if line := sparse_line(head):
        message = (
            f"found {shorten(line, 60)!r} at the beginning of {file.path}, expected a header of "
            "CSV. Set 'format': libsvm ('libfm' if indices count from 0), or csv if this is the "
            "header."
        )
        raise RecipeProblems([problem(source, "format", message)])
    return head
