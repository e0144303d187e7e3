"""CSV and TSV: types inferred once, every range parsed with them.

Compressed files are read as one stream.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import columns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import bad_rows, inference, whole_numbers
from beam_pipelines.sources.compression import compression_of, read_head
from beam_pipelines.sources.csv.bad_cells import without_plus
from beam_pipelines.sources.csv.parser import CsvParser, dialect_of, read_table, split_cells
from beam_pipelines.sources.format import Contents, combine, problem
from beam_pipelines.sources.libsvm.recognise import HEAD_BYTES, sparse_format
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.format import TextFormat, digits_type
from beam_pipelines.sources.text.quotes import (
    NEWLINE,
    OUTSIDE,
    Dialect,
    Positions,
    record_spans,
    toggling_quotes,
)
from beam_pipelines.storage import files

# An integer with leading zeros, or in hexadecimal, is a name and not a number: an int64 would lose
# its spelling.
_NOT_A_NUMBER = r"^\s*[+-]?0[0-9xX]"
_WITH_PLUS = r"^\s*\+[0-9]"
_DECIMAL = r"^\s*[+-]?[0-9]+\s*$"


@dataclasses.dataclass(frozen=True)
class Csv(TextFormat):
    """Text with one record a line, or more lines inside quotes.

    Attributes:
      suffixes: see ``Format``.
      delimiter: separates cells, unless the recipe names another one.
    """

    suffixes: tuple[str, ...]
    delimiter: str

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = super().check(source)
        for key, value, empty_allowed in (
            ("delimiter", source.delimiter, False),
            ("quote", source.quote, True),
        ):
            if value is None or (value == "" and empty_allowed):
                continue
            if len(value) != 1 or not value.isascii() or value in "\r\n\0":
                problems.append(
                    problem(
                        source,
                        key,
                        f"found {value!r}, expected one ASCII character, neither a line end nor "
                        "NUL.",
                    )
                )
        if (
            not problems
            and dialect_of(source, self.delimiter).delimiter
            == dialect_of(source, self.delimiter).quote
        ):
            problems.append(
                problem(source, "quote", "the quote is the delimiter, too. Change one of them.")
            )
        if not source.header and not source.columns:
            problems.append(
                problem(
                    source,
                    "header",
                    "without a header, name the columns in file order with 'columns'.",
                )
            )
        for name, type_ in source.types.items():
            if type_.startswith("list<"):
                message = (
                    f"column '{name}': found {type_}, but a CSV cell is no list. Declare "
                    "another type, or make a list with 'derive', as in "
                    "{x: \"string_split(x_text, ' ')::DOUBLE[]\"}."
                )
                problems.append(problem(source, "types", message))
        return problems

    def dialect(self, source: Source) -> Dialect:
        """Returns delimiter and quote of a source."""
        return dialect_of(source, self.delimiter)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        dialect = self.dialect(source)
        if source.format is None and source.header:
            _check_not_sparse(source, files[0])
        names = read_header(source, files[0], dialect)
        wanted = inference.selected(source, names)
        found = pa.schema([(name, pa.null()) for name in wanted])
        rows = 0
        for sampled in inference.sample_rounds(source, files):
            for file, body in blocks.sample_bodies(source, sampled, dialect):
                records = body
                if source.header and body.begins_file:
                    records, header = cut_header(body, dialect, file.path, source.limits)
                    _check_same_columns(files[0].path, names, file.path, header)
                blocks.check_lines(
                    source, file, records, toggling_quotes(records.data, OUTSIDE, NEWLINE, dialect)
                )
                schema, number = _infer_body(source, file, records, names, wanted, dialect)
                found, rows = inference.merge_schemas(found, schema), rows + number
            if rows:
                break
        if not rows:
            raise DataError(
                f"{files[0].path}: found a header and no rows, expected data. Check 'path' of the "
                "source."
            )
        nulls = tuple(name for name in wanted if pa.types.is_null(found.field(name).type))
        read_schema = pa.schema([(name, _read_type(source, found.field(name))) for name in wanted])
        return Contents(
            names, pa.schema([(name, pa.string()) for name in names]), read_schema, nulls
        )

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole records, after the header of a file; see ``TextFormat``."""
        parser = self._parser(plan)
        if plan.source.header and body.begins_file:
            body, header = cut_header(
                body, self.dialect(plan.source), file.path, plan.source.limits
            )
            _check_same_columns(plan.files[0].path, parser.names, file.path, header)
        return _read_body(parser, plan, file, body, reject)

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, Positions, Positions]:
        """Returns the body after the header, and its records; see ``TextFormat``."""
        dialect = self.dialect(plan.source)
        if plan.source.header and body.begins_file:
            body, _ = cut_header(body, dialect, file.path, plan.source.limits)
        toggles = toggling_quotes(body.data, OUTSIDE, NEWLINE, dialect)
        return body, *record_spans(body.data, toggles)

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
        for file in some:
            if compression_of(plan.source, file.path) != "none":
                return None
            with files.open_read(file.path) as opened:
                data = opened.read()
            checksums.append(google_crc32c.value(data))
            if plan.source.header and not header:
                header = data[: _first_record(data, dialect)[1]]
                cells = tuple(split_cells(header.rstrip(b"\r\n"), dialect))
                if not header.endswith(b"\n") or cells != parser.names:
                    return None
            is_usual = (
                len(data) == file.size_bytes
                and data.startswith(header)
                and not data.startswith(blocks.MARKS)
            )
            data = data[len(header) :]
            if not is_usual or (_may_quote(data, dialect) and len(parser.toggles(data)) % 2):
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
        exact = frozenset(
            field.name
            for field in plan.read_schema
            if field.type == pa.float64() and field.name not in plan.source.types
        )
        return CsvParser(names, plan.read_schema, plan.schema, dialect, plan.source.nulls, exact)


def _may_quote(data: bytes, dialect: Dialect) -> bool:
    return dialect.quote is not None and bytes([dialect.quote]) in data


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
    if len(toggles) % 2:
        raise DataError(
            f"{file.path}, line {lines.line(int(toggles[-1]))}: found a quote that is never "
            "closed, expected "
            "another one before the end of the file. Close it, or set 'quote' of the source."
        )
    blocks.check_lines(plan.source, file, body, toggles)
    good: list[pa.RecordBatch] = []
    rejected: list[Rejected] = []
    for found in parser.sift(body.data, toggles):
        if isinstance(found, pa.RecordBatch):
            good.append(found)
            continue
        start, end, column, reason = found
        record = shorten(
            body.data[start:end].decode("utf-8", errors="backslashreplace").rstrip("\r\n")
        )
        bad = Rejected(
            plan.source.name, file.path, f"line {lines.line(start)}", column, reason, record
        )
        bad_rows.reject_or_raise(bad, rejected, reject)
    return combine(good, plan.schema), tuple(rejected)


def _check_same_columns(
    first: str, names: tuple[str, ...], path: str, header: tuple[str, ...]
) -> None:
    """Checks that a file has the columns of the source's first one.

    Raises:
      DataError: it has not; the message names both files.
    """
    if header == names:
        return
    difference = f"found {len(header)} columns, expected {len(names)}"
    for number, (found, wanted) in enumerate(zip(header, names, strict=False), start=1):
        if found != wanted:
            difference = f"found column {number} named '{found}', expected '{wanted}'"
            break
    raise DataError(
        f"{path}: {difference} as in {first}. Files of one source must agree: make them two "
        "sources, or mend one."
    )


def read_header(source: Source, file: FileInfo, dialect: Dialect) -> tuple[str, ...]:
    """Returns the column names of a file.

    Raises:
      DataError: no name, or no UTF-8, in a header; a name twice.
    """
    if not source.header:
        return source.columns
    head = read_head(
        file.path, compression_of(source, file.path), inference.SAMPLE_BYTES, source.limits
    )
    return cut_header(
        blocks.Body(*blocks.without_mark(0, head, file.path)), dialect, file.path, source.limits
    )[1]


def _check_not_sparse(source: Source, file: FileInfo) -> None:
    """Raises ``RecipeProblems`` for libsvm text that only a suffix calls CSV."""
    compression = compression_of(source, file.path)
    found, line = sparse_format(read_head(file.path, compression, HEAD_BYTES, source.limits))
    if found:
        others = " ('libfm' if indices count from 0)" if found == "libsvm" else ""
        message = (
            f"found {shorten(line, 60)!r} at the beginning of {file.path}, expected a header of "
            f"CSV. Set 'format': {found}{others}, or csv if this is the header."
        )
        raise RecipeProblems([problem(source, "format", message)])


def cut_header(
    body: blocks.Body, dialect: Dialect, path: str, limits: Limits
) -> tuple[blocks.Body, tuple[str, ...]]:
    """Cuts the header off a body; returns the rest and the names.

    Raises:
      DataError: no name, or no UTF-8, in the header; a name twice; too many names, or too long a
        one.
    """
    start, end = _first_record(body.data, dialect)
    record = body.data[start:end].rstrip(b"\r\n")
    if not blocks.is_utf8(record):
        raise DataError(
            f"{path}, line 1: found bytes in the header that are not UTF-8. Convert the file to "
            "UTF-8."
        )
    names = tuple(split_cells(record, dialect))
    if not names:
        raise DataError(
            f"{path}: found no header, expected one. Name the columns with 'header: false' and "
            "'columns'."
        )
    if len(names) > limits.columns:
        raise DataError(f"{path}, line 1: {exceeded(limits, 'columns', f'{len(names):,} columns')}")
    known: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if known.setdefault(name, number) != number:
            raise DataError(
                f"{path}, line 1: found the column name '{shorten(name)}' twice, as columns "
                f"{known[name]} and {number}; "
                "expected every name once. Rename one of them in the file."
            )
    return body._replace(offset=body.offset + end, data=body.data[end:]), names


def _first_record(data: bytes, dialect: Dialect) -> tuple[int, int]:
    """Returns where the first record begins and ends; scans no further."""
    length = 4096
    while True:
        head = data[:length]
        toggles = toggling_quotes(head, OUTSIDE, NEWLINE, dialect)
        starts, ends = record_spans(head, toggles)
        if len(starts) and (ends[0] < len(head) or length >= len(data)):
            return int(starts[0]), int(ends[0])
        if length >= len(data):
            return 0, 0
        length *= 4


def _infer_body(
    source: Source,
    file: FileInfo,
    body: blocks.Body,
    names: tuple[str, ...],
    wanted: tuple[str, ...],
    dialect: Dialect,
) -> tuple[pa.Schema, int]:
    """Infers the types of the wanted columns, and counts the records.

    Raises:
      DataError: no record has as many cells as there are columns; a column of numbers has an
        integer beyond int64, or one that float64 rounds.
    """
    parse = functools.partial(read_table, names=names, dialect=dialect, nulls=source.nulls)
    try:
        table = parse(body.data, wanted)
    except pa.ArrowInvalid:
        data = _without_ragged(source, file, body, names, dialect)
        body = body._replace(data=data)
        table = parse(data, wanted)
    undeclared = [field for field in table.schema if field.name not in source.types]
    numbers = [field.name for field in undeclared if field.type in (pa.int64(), pa.float64())]
    types = {
        field.name: pa.string() if pa.types.is_binary(field.type) else field.type
        for field in table.schema
    }
    if numbers:
        texts = parse(body.data, tuple(numbers), {name: pa.string() for name in numbers})
        types |= {
            name: _checked_number(file, name, types[name], texts.column(name)) for name in numbers
        }
    for field in undeclared:
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            micros = pa.timestamp("us", field.type.tz)
            with contextlib.suppress(pa.ArrowInvalid):  # there are parts of microseconds
                parse(body.data, (field.name,), {field.name: micros})
                types[field.name] = micros
    return pa.schema(list(types.items())), table.num_rows


def _checked_number(
    file: FileInfo, name: str, type_: pa.DataType, texts: pa.ChunkedArray
) -> pa.DataType:
    if type_ == pa.int64() or _are_integers(texts):
        is_name = pc.any(pc.match_substring_regex(texts, _NOT_A_NUMBER)).as_py()
        return pa.string() if is_name else pa.int64()
    for long in texts.filter(whole_numbers.refused(texts)).slice(0, 1).to_pylist():
        raise DataError(
            f"{file.path}, column '{name}': found the integer {shorten(long.strip(), 100)}, "
            f"expected {whole_numbers.why_text_refused(long)}. Declare 'types: {{{name}: text}}' "
            f"to keep it, or 'types: {{{name}: float64}}' to round it."
        )
    return type_


def _are_integers(texts: pa.ChunkedArray) -> bool:
    """Whether texts are integers of 64 bits, some with a plus sign.

    Nulls are fine. Arrow calls such a column float64.
    """
    if not pc.any(pc.match_substring_regex(texts, _WITH_PLUS)).as_py():
        return False
    if not pc.all(pc.match_substring_regex(texts, _DECIMAL)).as_py():
        return False
    try:
        for chunk in texts.chunks:
            without_plus(pc.ascii_trim(chunk, characters=" \t")).cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _without_ragged(
    source: Source, file: FileInfo, body: blocks.Body, names: tuple[str, ...], dialect: Dialect
) -> bytes:
    """Returns the records that have the right number of cells.

    The others are reported when they are read.
    """
    binary = pa.schema([(name, pa.binary()) for name in names])
    parser = CsvParser(names, binary, binary, dialect, ())
    bad = [
        found
        for found in parser.sift(body.data, parser.toggles(body.data))
        if isinstance(found, tuple)
    ]
    kept, position = [], 0
    for start, end, _, _ in bad:
        kept.append(body.data[position:start])
        position = end
    data = b"".join([*kept, body.data[position:]])
    if not data.strip(b"\r\n"):
        start, _, _, reason = bad[0]
        line = blocks.LineNumbers(source, file, body).line(start)
        raise DataError(f"{file.path}, line {line}: {reason}")
    return data


def _read_type(source: Source, field: pa.Field) -> pa.DataType:
    """Returns the type that the reader checks.

    It is the declared type, else the inferred one in a unit that columns have.
    """
    types = pa.types
    if field.name in source.types:
        declared = columns.parse_type(source.types[field.name])
        if types.is_timestamp(declared) and types.is_timestamp(field.type):
            return pa.timestamp("us", field.type.tz)
        return digits_type(declared)
    if types.is_null(field.type):
        return pa.string()
    if types.is_timestamp(field.type) and field.type.unit == "s":
        return pa.timestamp("us", field.type.tz)
    return pa.time64("us") if types.is_time(field.type) else field.type
