"""Infers columns, types and formats of CSV files from a sample."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import WHITE_SPACE
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import inference, whole_numbers
from beam_pipelines.sources.csv import column_formats, evidence
from beam_pipelines.sources.csv.codes import are_codes, lost_by_float32, plain_numbers
from beam_pipelines.sources.csv.header import INDEX, cut_header, first_record, named
from beam_pipelines.sources.csv.parser import check_closed, dialect_of, other_number, split_cells
from beam_pipelines.sources.csv.resolve import check_agreement, check_no_texts, pandas_read, resolve
from beam_pipelines.sources.csv.sample import OVERFLOWS, CsvSample
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.source_format import Contents
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.format import digits_type
from beam_pipelines.sql.database import identifier, literal

# Bytes that are no row of 8 MiB, compressed or not.
_SHORT = 8_000
_WITH_PLUS = r"^\s*\+[0-9]"
_DECIMAL = r"^\s*[+-]?0*[0-9]{1,18}\s*$"


@dataclasses.dataclass
class _Found:
    """Findings in the sample so far.

    Attributes:
      schema: types of the wanted columns.
      rows: number of records.
      evidence: column -> shapes of its cells.
      counts_rows: whether the first column counts the rows.
    """

    schema: pa.Schema
    evidence: dict[str, evidence.Evidence]
    rows: int = 0
    counts_rows: bool = False


def infer(source: Source, files: tuple[FileInfo, ...], default: str) -> Contents:
    """Finds dialect, columns and types; see ``Format.infer``.

    Args:
      source, files: of the recipe.
      default: the format's delimiter.
    """
    asked = source
    check_no_texts(source, [file.path for file in files])
    source, decisions, head = resolve(asked, files[0], default)
    check_agreement(asked, source, inference.sample_files(files), default)
    dialect = dialect_of(source, default)
    names, header = source.columns, b""
    if source.options_of(CsvOptions).header is not False:
        names = cut_header(blocks.Body(0, head), dialect, files[0].path, source)[1]
        header = head[slice(*first_record(head, dialect))].rstrip(b"\r\n")
    wanted = inference.selected(source, names)
    found = _Found(
        pa.schema([(name, pa.null()) for name in wanted]),
        {name: evidence.Evidence() for name in wanted},
    )
    sample = CsvSample(source, dialect, files[0], names, header)
    for sampled in inference.sample_rounds(source, files, ""):
        sample.files = sampled
        for file, body in sample.bodies():
            _add_body(found, sample, file, body, wanted)
        if found.rows:
            break
    if not found.rows:
        long = " If a row may have more than 8 MiB, set 'infer: full'."
        raise DataError(
            f"{files[0].path}: found a header and no rows, expected data. Check 'path' of the "
            f"source.{long * any(file.size_bytes > _SHORT for file in files)}"
        )
    if found.counts_rows and not source.columns and source.options_of(CsvOptions).header is None:
        source = dataclasses.replace(source, columns=names[1:])
        wanted = names[1:]
        index = f"column 1 has no name: {INDEX}"
        decisions = tuple(
            column_formats.without_index(names) if decision == index else decision
            for decision in decisions
        )

    source, types, chosen = column_formats.choose(
        source, sample.misfits, found.schema, found.evidence, wanted, default
    )
    nulls = tuple(name for name in wanted if pa.types.is_null(types[name]))
    read_schema = pa.schema(
        [(name, _read_type(source, pa.field(name, types[name]))) for name in wanted]
    )
    return Contents(
        names,
        pa.schema([(name, pa.string()) for name in names]),
        read_schema,
        nulls,
        source=source,
        decisions=(
            *decisions,
            *_header_again(read_schema, sample.again),
            *itertools.islice(sample.apart(), 1),
            *chosen,
        ),
    )


def _header_again(schema: pa.Schema, again: Mapping[tuple[str, int], None]) -> list[str]:
    """Returns the finding of headers among the rows."""
    if not again:
        return []
    (path, line), number = next(iter(again)), len(again)
    name = schema.names[0]
    words = f"headers among the rows: {number:,}, first in {path}, line {line}"
    if all(pa.types.is_string(field.type) for field in schema):
        sql = yaml_text(f"{identifier(name)} IS DISTINCT FROM {literal(name)}")
        return [f"{words}  # filter: {sql} leaves such rows out"]
    return [f"{words}  # on_error: {{reject: {number}}} leaves such rows out"]


def _add_body(
    found: _Found, sample: CsvSample, file: FileInfo, body: blocks.Body, wanted: tuple[str, ...]
) -> None:
    """Adds the types and shapes of a body's cells.

    Raises:
      DataError: no record has as many cells as there are columns; a column of numbers has an
        integer beyond int64, or one that float64 rounds.
    """
    source, parse = sample.source, sample.table
    data, table = _first_table(sample, file, body, wanted)
    undeclared = [field for field in table.schema if field.name not in source.types]
    numbers = [field.name for field in undeclared if field.type in (pa.int64(), pa.float64())]
    types = {
        field.name: pa.string() if pa.types.is_binary(field.type) else field.type
        for field in table.schema
    }
    shapes, options = {name: table.column(name) for name in wanted}, source.options_of(CsvOptions)
    texts = parse(data, tuple(numbers), dict.fromkeys(numbers, pa.string())) if numbers else {}
    floats = [types[name] == pa.float64() for name in numbers]
    plain = (
        plain_numbers(texts, floats, evidence.LOOKED_AT)
        if numbers and not options.formats
        else set()
    )
    for name in [name for name in numbers if name not in plain]:
        column = texts[name]
        if name not in options.formats:
            types[name] = _checked_number(file, name, types[name], column)
        is_float = types[name] == pa.float64()
        if is_float:
            own = found.evidence[name]
            own.lost = own.lost or lost_by_float32(name, column, table[name])
        is_grouped = is_float and column_formats.may_be_grouped(column)
        if name in options.formats or pa.types.is_string(types[name]) or is_grouped:
            shapes[name] = column
    if options.trim:
        shapes = {name: _trimmed(column, source.nulls) for name, column in shapes.items()}
    if wanted[:1] == (INDEX,) and not found.rows:
        found.counts_rows = _counts_rows(table.column(0))
    for name in wanted:
        is_code = pa.types.is_string(types[name]) and not pa.types.is_string(table[name].type)
        shape = evidence.evidence_of(shapes[name], is_code)
        found.evidence[name].add(_with_nulls(shape, sample, data, table[name], name))
    found.schema = inference.merge_schemas(found.schema, pa.schema(list(types.items())))
    found.rows += table.num_rows


def _first_table(
    sample: CsvSample, file: FileInfo, body: blocks.Body, wanted: tuple[str, ...]
) -> tuple[bytes, pa.Table]:
    """Returns whole records and their values.

    Others are reported when they are read.
    """
    with contextlib.suppress(pa.ArrowInvalid):
        if not OVERFLOWS:
            return body.data, sample.table(body.data, wanted)
    data, _ = sample.whole_rows(body.data)
    if not data and body.data.strip(b"\r\n"):
        raise _no_rows(sample, file, body)
    return data, sample.table(data, wanted)


def _with_nulls(
    shape: evidence.Evidence, sample: CsvSample, data: bytes, column: pa.ChunkedArray, name: str
) -> evidence.Evidence:
    """Returns the evidence with null texts that look like others."""
    has_nulls = sample.source.nulls == Source.nulls and column.null_count > 0
    if not has_nulls or not (texts := evidence.null_texts_like(shape, Source.nulls)):
        return shape
    cells = sample.table(data, (name,), {name: pa.string()}, nulls=())[name]
    counts = cells.filter(pc.is_in(cells, value_set=pa.array(texts))).to_pylist()
    return dataclasses.replace(shape, like_others=Counter(counts))


def _trimmed(column: pa.ChunkedArray, nulls: Sequence[str]) -> pa.ChunkedArray:
    """Returns texts without white space around them, and with nulls."""
    if not pa.types.is_string(column.type):
        return column
    texts = pc.utf8_trim(column, characters=WHITE_SPACE)
    return pc.if_else(pc.is_in(texts, value_set=pa.array(nulls, pa.string())), None, texts)


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Whether a column counts the rows from 0 or 1."""
    if column.type != pa.int64() or column.null_count or not len(column):
        return False
    values = column.to_numpy()
    return values[0] in (0, 1) and bool((values[1:] - values[:-1] == 1).all())


def _checked_number(
    file: FileInfo, name: str, type_: pa.DataType, texts: pa.ChunkedArray
) -> pa.DataType:
    if are_codes(name, texts):
        return pa.string()
    # Arrow calls integers with a plus float64.
    has_plus = pc.any(pc.match_substring_regex(texts, _WITH_PLUS)).as_py()
    is_whole = has_plus and pc.all(pc.match_substring_regex(texts, _DECIMAL)).as_py()
    if type_ == pa.int64() or is_whole:
        return pa.int64()
    key = yaml_text(name)
    for long in texts.filter(whole_numbers.refused(texts)).slice(0, 1).to_pylist():
        kind = "number" if "." in long else "integer"
        raise DataError(
            f"{file.path}, column '{name}': found the {kind} {shorten(long.strip(), 100)}, "
            f"expected {whole_numbers.why_text_refused(long)}. Declare 'types: {{{key}: text}}' "
            f"to keep it, or 'types: {{{key}: float64}}' to round it."
        )
    return type_


def _no_rows(sample: CsvSample, file: FileInfo, body: blocks.Body) -> DataError:
    """Returns the error of a body without a whole record.

    R writes names of rows without a name of their column; other programs end each row with a
    delimiter.
    """
    names, dialect = sample.names, sample.dialect
    toggles = quotes.toggling_quotes(body.data, quotes.OUTSIDE, quotes.NEWLINE, dialect)
    lines = blocks.LineNumbers(sample.source, file, body)
    check_closed(file, lines, toggles)
    starts, ends = quotes.record_spans(body.data, toggles)
    rows = [
        split_cells(body.data[start:end].rstrip(b"\r\n"), dialect)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    number = len(rows[0])
    reason = other_number(rows[0], len(names), chr(dialect.delimiter))
    is_even = len(rows) > 1 and all(len(row) == number for row in rows)
    options = sample.source.options_of(CsvOptions)
    if b'\\"' in body.data and dialect.quote == ord('"'):
        how = f"sep={chr(dialect.delimiter)!r}, escapechar='\\\\'"
        reason = (
            f"found quotes behind a backslash and {number} cells, expected {len(names)}. Write "
            "quotes inside quotes twice, for example: "
            f"{pandas_read(file.path, options.encoding, how)}.to_csv('new.csv', index=False)"
        )
    elif number > len(names) and is_even and not sample.source.columns:
        more = [f"column{place}" for place in range(len(names) + 1, number + 1)]
        is_index = len(more) == 1 and any(row[-1] for row in rows)
        known = [INDEX, *names] if is_index else [*names, *more]
        reason = (
            f"found {number} cells in each row, expected {len(names)}, one for each name. Name "
            f"all, perhaps so: set {named(known, options.skip_lines or 0)}"
        )
    line = lines.line(int(starts[0]))
    return DataError(f"{file.path}, line {line}: {reason}")


def _read_type(source: Source, field: pa.Field) -> pa.DataType:
    """Returns the type that the reader checks.

    It is the declared type, else the inferred one in a unit that columns have.
    """
    types = pa.types
    if field.name in source.types:
        return digits_type(columns.parse_type(source.types[field.name]))
    if types.is_null(field.type):
        return pa.string()
    if types.is_timestamp(field.type) and field.type.unit in ("s", "ns"):
        return pa.timestamp("us", field.type.tz)
    return pa.time64("us") if types.is_time(field.type) else field.type
