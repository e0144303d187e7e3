"""Excel: one sheet of .xlsx and .xls files, read whole.

A cell has a type of its own; a column gets the type that all its cells have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sources import inference, tables
from beam_pipelines.sources.batch_files import no_compression
from beam_pipelines.sources.csv.choice import without_index
from beam_pipelines.sources.format import (
    Contents,
    Format,
    Position,
    QuoteStates,
    Rows,
    empty_batch,
    problem,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.formats.excel_workbook import (
    ExcelOptions,
    Fault,
    SheetTable,
    read_table,
)

# Rows that are converted at a time, from Python's objects.
_STEP = 16_384
_ROW = re.compile(r"([0-9]+)\Z")
# The largest integer below which a number of a sheet, a float64, is exact.
_MOST_EXACT = 1 << 53
# As in CSV files: a few values among others are asked about.
_FEW, _MOST = 0.01, 300
_SHOWN, _NULLS = 3, 10
# Type of a cell -> the word for such cells.
_WORDS: Mapping[type, str] = {
    bool: "booleans",
    int: "numbers",
    float: "numbers",
    datetime.datetime: "timestamps",
    datetime.date: "dates",
    datetime.time: "times",
    datetime.timedelta: "durations",
    str: "texts",
}
_TYPES: Mapping[str, pa.DataType] = {
    "numbers": pa.float64(),
    "booleans": pa.bool_(),
    "dates": pa.date32(),
    "timestamps": pa.timestamp("us"),
    "times": pa.time64("us"),
    "durations": pa.duration("us"),
    "texts": pa.string(),
}


class Excel(Format):
    """Workbooks; one range a file."""

    suffixes = (".xlsx", ".xlsm", ".xls", ".ods")
    Options = ExcelOptions
    reads_nulls = True
    is_compressed = True
    infers_types = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return no_compression(source, "Excel")

    def has_own_names(self, source: Source) -> bool:
        """Whether a header names the columns; see ``Format``."""
        return source.options_of(ExcelOptions).header is not False

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        schemas: list[tuple[FileInfo, pa.Schema]] = []
        problems: list[Problem] = []
        rows, counts_rows = 0, True
        decisions: list[str] = []
        for sampled in inference.sample_rounds(source, files):
            for file in sampled:
                table = read_table(source, file.path)
                rows += len(table.rows)
                decisions += _decisions(table)
                if table.skipped and source.options_of(ExcelOptions).skip_lines is None:
                    source = source.with_options(skip_lines=table.skipped)
                counts_rows = counts_rows and table.counts_rows
                types = []
                for place in range(len(table.names)):
                    try:
                        types.append(_column_type(source, file.path, table, place))
                    except NearlyError as error:
                        problems.append(problem(source, "types", str(error)))
                        types.append(pa.string())
                schemas.append((file, pa.schema(list(zip(table.names, types, strict=True)))))
            if rows:
                break
        if problems:
            raise RecipeProblems(problems)
        names = tuple(schemas[0][1].names)
        says = source.columns or source.options_of(ExcelOptions).header is not None
        if len(names) == 1 or not counts_rows or says:
            contents = tables.contents_of(source, _merged(schemas))
            return contents._replace(source=source, decisions=tuple(decisions))
        source = dataclasses.replace(source, columns=names[1:])
        contents = tables.contents_of(source, _merged(schemas))
        return contents._replace(source=source, decisions=(*decisions, without_index(names)))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        file = byte_range.file
        table = read_table(plan.source, file.path)
        schema = _schema_for(plan, file, table)
        known = [place for place, name in enumerate(table.names) if name in plan.schema.names]
        for start in range(0, len(table.rows), _STEP):
            rows = table.rows[start : start + _STEP]
            bad = dict(_faulty(plan, file, table, rows, known))
            good = [one for place, one in enumerate(rows) if place not in bad] if bad else rows
            kept = np.delete(np.arange(len(rows)), list(bad))
            batch = _batch(plan.source, schema, good)
            for some in tables.rows_of(batch, plan, file, 0, reject=True):
                for one in some.rejected:
                    place = int(kept[int(one.position.rpartition(" ")[2])])
                    bad[place] = one._replace(position=_where(table, rows[place][0], one.column))
                rejected = tuple(bad[place] for place in sorted(bad))
                if rejected and not reject:
                    raise DataError(rejected[0].describe())
                yield some._replace(rejected=rejected)
                bad = {}
        yield Rows(empty_batch(plan.schema), crc32c=google_crc32c.value(table.data))

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Finds rows of a sheet; see ``Format``."""
        path = byte_range.file.path
        table = read_table(plan.source, path)
        bad = {int(match[1]) for one in rejected if (match := _ROW.search(one.position))}
        numbers = [number + 1 for number, _ in table.rows if number + 1 not in bad]
        return [Position(path, f"{table.sheet}, row {numbers[row]}", "") for row in rows]


def _decisions(table: SheetTable) -> list[str]:
    """Returns the findings of rows that are none of the table's."""
    found = []
    if table.skipped:
        title = f"rows above the table, such as {shorten(table.title, 40)!r}"
        found.append(f"skip_lines: {table.skipped}  # {title}")
    if again := [row + 1 for row, cells in table.rows if table.is_header(cells)]:
        words = f"headers among the rows: {len(again):,}, first in row {again[0]}"
        found.append(f"{words}  # on_error: {{reject: {len(again)}}} leaves such rows out")
    return found


def _where(table: SheetTable, row: int, column: str) -> str:
    """Returns the address of a cell, or of a row."""
    if column not in table.names:
        return f"{table.sheet}, row {row + 1}"
    return table.address(row, table.names.index(column))


def _faulty(
    plan: SourcePlan,
    file: FileInfo,
    table: SheetTable,
    rows: Sequence[tuple[int, list[object]]],
    known: Sequence[int],
) -> Iterator[tuple[int, Rejected]]:
    """Yields rows with an error in a column that is read."""
    for number, (row, cells) in enumerate(rows):
        if table.is_header(cells):
            reason = (
                "found the names of the columns again, expected values. Remove the row, or leave "
                "such rows out with 'on_error: {reject: 10}'."
            )
            where = f"{table.sheet}, row {row + 1}"
            yield number, Rejected(plan.source.name, file.path, where, "", reason, "")
            continue
        for place in known:
            text = cells[place]
            if not isinstance(text, Fault) or text in plan.source.nulls:
                continue
            if text.startswith("#"):
                found, cure = f"the error {text}", f"add '{text}' to 'nulls' of the source"
            else:
                found, cure = text, "open the file in a spreadsheet and save it, which computes it"
            reason = f"found {found}, expected a value. Mend the cell, or {cure}."
            where, name = table.address(row, place), table.names[place]
            yield number, Rejected(plan.source.name, file.path, where, name, reason, "")
            break


def _merged(schemas: Sequence[tuple[FileInfo, pa.Schema]]) -> list[tuple[FileInfo, pa.Schema]]:
    """Returns the schemas with the types that hold for all files."""
    types: dict[str, pa.DataType] = {}
    for _, schema in schemas:
        for field in schema:
            known = types.get(field.name, pa.null())
            types[field.name] = inference.merge_types(known, field.type)
    return [
        (file, pa.schema([field.with_type(types[field.name]) for field in schema]))
        for file, schema in schemas
    ]


def _schema_for(plan: SourcePlan, file: FileInfo, table: SheetTable) -> pa.Schema:
    """Returns types of a file's cells, before they become the plan's.

    Raises:
      DataError: the file has other columns than the first one.
    """
    names = pa.schema(
        [
            plan.file_schema.field(name) if name in plan.file_schema.names else (name, pa.null())
            for name in table.names
        ]
    )
    tables.check_file(plan, file, names)
    fields = []
    for place, name in enumerate(table.names):
        found = pa.string()
        if name in plan.schema.names and plan.schema.field(name).type != pa.string():
            with contextlib.suppress(NearlyError):
                found = _column_type(plan.source, file.path, table, place)
        fields.append((name, found))
    return pa.schema(fields)


class NearlyError(ValueError):
    """A column whose cells are of one type but for a few."""


def _column_type(source: Source, path: str, table: SheetTable, place: int) -> pa.DataType:
    """Returns the type of a column.

    Args:
      source: of the recipe; its ``nulls`` are no values.
      path: of the file, for messages.
      table: of the sheet.
      place: number of the column in the table.

    Raises:
      NearlyError: a few cells are of another type than the others.
    """
    rows = ((row, cells[place]) for row, cells in table.rows if not table.is_header(cells))
    filled = [
        (row, cell) for row, cell in rows if not _is_null(source, cell) and type(cell) is not Fault
    ]
    kinds = Counter[str]()
    for own, count in Counter(type(cell) for _, cell in filled).items():
        kinds[_WORDS[own]] += count
    merged = {"timestamps": ("timestamps", "dates")} if "timestamps" in kinds else {}
    if merged:
        kinds["timestamps"] += kinds.pop("dates", 0)
    if not kinds:
        return pa.null()
    [(word, number), *others] = kinds.most_common()
    if not others:
        is_whole = word == "numbers" and all(_is_integer(cell) for _, cell in filled)
        return pa.int64() if is_whole else _TYPES[word]
    is_near = len(filled) - number <= min(_MOST, _FEW * len(filled)) and word != "texts"
    if is_near and source.infer != "lenient" and table.names[place] not in source.types:
        own_words = merged.get(word, (word,))
        misfits = [one for one in filled if _WORDS[type(one[1])] not in own_words]
        found = [
            f"{shorten(_as_text(cell), 40)!r} ({path}, {table.address(row, place)})"
            for row, cell in misfits
        ]
        texts = list(dict.fromkeys(cell for _, cell in misfits if isinstance(cell, str)))
        raise NearlyError(_nearly(source, table.names[place], f"{number:,} {word}", found, texts))
    return pa.string()


def _nearly(
    source: Source, name: str, others: str, found: Sequence[str], texts: Sequence[str]
) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null, "
    return (
        f"column '{name}': found {', '.join(found[:_SHOWN])}{more} among {others}, expected these "
        f"only. Set {nulls if 0 < len(texts) <= _NULLS else ''}'types: {{{yaml_text(name)}: "
        "text}' if they are texts, or 'infer: lenient', which reads such columns as texts."
    )


def _is_null(source: Source, value: Any) -> bool:
    """Whether a cell is empty, or a text that means null."""
    return isinstance(value, str) and (not value or value in source.nulls)


def _as_text(value: Any) -> str:
    """Returns a cell as text, such as 5 (not 5.0) and true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if _is_integer(value) else repr(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else str(value)


def _is_integer(value: Any) -> bool:
    return value == value // 1 and abs(value) <= _MOST_EXACT if isinstance(value, float) else True


def _batch(
    source: Source, schema: pa.Schema, rows: Sequence[tuple[int, list[Any]]]
) -> pa.RecordBatch:
    """Returns rows of a table as Arrow columns of given types."""
    columns = []
    for place, field in enumerate(schema):
        cells = [cells[place] for _, cells in rows]
        values = [None if _is_null(source, cell) else cell for cell in cells]
        columns.append(_array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    convert: Callable[[Any], Any] | None = None
    if pa.types.is_string(type_):
        convert = _as_text
    elif pa.types.is_timestamp(type_):
        convert = _moment
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type_)


def _moment(value: datetime.date) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - sheets know no zone
