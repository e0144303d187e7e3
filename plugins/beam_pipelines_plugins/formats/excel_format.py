"""Excel: one sheet of .xlsx and .xls files, read whole."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
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
from beam_pipelines_plugins.formats import excel_columns as columns
from beam_pipelines_plugins.formats.excel_columns import NearlyError
from beam_pipelines_plugins.formats.excel_workbook import (
    ExcelOptions,
    Fault,
    SheetTable,
    read_table,
)

# Rows that are converted at a time, from Python's objects.
_STEP = 16_384
_ROW = re.compile(r"([0-9]+)\Z")


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
                        types.append(columns.column_type(source, file.path, table, place))
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
            batch = columns.arrays(plan.source, schema, good)
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
                found = columns.column_type(plan.source, file.path, table, place)
        fields.append((name, found))
    return pa.schema(fields)
