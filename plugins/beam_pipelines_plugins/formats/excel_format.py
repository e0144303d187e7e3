"""Excel: one sheet of .xlsx files, read whole.

A cell has a type of its own; a column gets the type that all its cells have.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, nearest
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.recipe.values import read_text
from beam_pipelines.sources import inference, source_format, tables
from beam_pipelines.sources.batch_files import no_compression
from beam_pipelines.sources.csv.column_formats import without_index
from beam_pipelines.sources.csv.header import INDEX
from beam_pipelines.sources.options import HeaderOptions, TextsOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines_plugins.formats.excel_workbook import Sheet, read_sheet

# Rows that are converted at a time, from Python's objects.
_STEP = 16_384
# The largest integer below which a number of a sheet, a float64, is exact.
_MOST_EXACT = 1 << 53
# As in CSV files: a few values among others are asked about.
_FEW, _MOST = 0.01, 300
_SHOWN, _NULLS = 3, 10
# Type of a cell -> the word for such cells, and the type of a column of them.
_KINDS: Mapping[type, tuple[str, pa.DataType]] = {
    bool: ("booleans", pa.bool_()),
    int: ("numbers", pa.float64()),
    float: ("numbers", pa.float64()),
    datetime.datetime: ("timestamps", pa.timestamp("us")),
    datetime.date: ("dates", pa.date32()),
    datetime.time: ("times", pa.time64("us")),
    datetime.timedelta: ("durations", pa.duration("us")),
    str: ("texts", pa.string()),
}


@dataclasses.dataclass(frozen=True)
class ExcelOptions(HeaderOptions, TextsOptions):
    """A sheet, and where its table is."""

    sheet: str | None = recipe_key(read_text, None, "the only one", "Sheet of an `excel` source.")


class _SheetTable(NamedTuple):
    """The table of a sheet.

    Attributes:
      sheet: name of the sheet.
      names: of the columns.
      rows: number of each row in the sheet, from 1, and its cells; "" is empty.
      data: the file.
    """

    sheet: str
    names: tuple[str, ...]
    rows: list[tuple[int, list[Any]]]
    data: bytes

    def filled(self, source: Source, place: int) -> list[tuple[int, Any]]:
        """Returns the values of a column, with the numbers of their rows."""
        return [
            (row, cells[place]) for row, cells in self.rows if not _is_null(source, cells[place])
        ]


class Excel(source_format.Format):
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

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        types: dict[str, pa.DataType] = {}
        found, problems = list[tuple[FileInfo, _SheetTable]](), list[Problem]()
        for sampled in inference.sample_rounds(source, files):
            for file in sampled:
                table = _read_table(source, file.path)
                found.append((file, table))
                for place, name in enumerate(table.names):
                    cells = table.filled(source, place)
                    own = _type_of([cell for _, cell in cells])
                    types[name] = inference.merge_types(types.get(name, pa.null()), own)
                    if message := _nearly(source, file.path, name, cells):
                        problems.append(source_format.problem(source, "types", message))
            if any(table.rows for _, table in found):
                break
        if problems:
            raise RecipeProblems(problems)
        names, decisions = found[0][1].names, tuple[str, ...]()
        if names[0] == INDEX and len(names) > 1 and not source.columns and _are_indexed(found):
            source = dataclasses.replace(source, columns=names[1:])
            decisions = (without_index(names),)
        schemas = [
            (file, pa.schema([(name, types[name]) for name in table.names]))
            for file, table in found
        ]
        contents = tables.contents_of(source, schemas)
        return contents._replace(source=source, decisions=decisions)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        file, source = byte_range.file, plan.source
        table = _read_table(source, file.path)
        fields = []
        for place, name in enumerate(table.names):
            is_text = name in plan.schema.names and plan.schema.field(name).type == pa.string()
            cells = () if is_text else [cell for _, cell in table.filled(source, place)]
            fields.append((name, pa.string() if is_text else _type_of(cells)))
        known = {field.name: field for field in plan.file_schema}
        tables.check_file(
            plan, file, pa.schema([known.get(name, (name, pa.null())) for name in table.names])
        )
        for start in range(0, len(table.rows), _STEP):
            rows = table.rows[start : start + _STEP]
            columns = [
                _array(source, [cells[place] for _, cells in rows], type_)
                for place, (_, type_) in enumerate(fields)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
            numbers, word = (lambda some=rows: [row for row, _ in some]), f"{table.sheet}, row"
            yield from tables.rows_of(batch, plan, file, numbers, reject, word)
        yield source_format.Rows(empty_batch(plan.schema), crc32c=google_crc32c.value(table.data))

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Finds rows of a sheet; see ``Format``."""
        path, bad = byte_range.file.path, set(source_format.row_numbers(rejected).tolist())
        table = _read_table(plan.source, path)
        numbers = [number for number, _ in table.rows if number not in bad]
        return [
            source_format.Position(path, f"{table.sheet}, row {numbers[row]}", "") for row in rows
        ]


def _read_table(source: Source, path: str) -> _SheetTable:
    """Finds names and rows of a sheet's table.

    Raises:
      DataError: the file is damaged, too large, or has no table.
      RecipeProblems: the recipe has to name a sheet, or other columns.
    """
    found = read_sheet(path, source.limits, lambda known: _chosen(source, path, known))
    where, options = f"{path}, {found.name}", source.options_of(ExcelOptions)
    filled = [
        (number, cells)
        for number, cells in enumerate(found.rows, 1)
        if number > (options.skip_lines or 0) and cells.count("") < len(cells)
    ]
    if not filled:
        raise DataError(f"{where}: found no row with a value. Set 'sheet' or 'skip_lines'.")
    places = range(len(filled[0][1]))
    used = [place for place in places if any(cells[place] != "" for _, cells in filled)]
    source_format.check_columns(source, path, len(used))
    rows = [(number, [cells[place] for place in used]) for number, cells in filled]
    _check_merged(where, found, rows[0][0])
    names = _names(source, where, rows)
    rows = rows if options.header is False else rows[1:]
    faults = [fault for fault in found.faults if rows and fault[0] >= rows[0][0]]
    _check_faults(source, where, faults, dict(zip(used, names, strict=True)))
    return _SheetTable(found.name, names, rows, found.data)


def _chosen(source: Source, path: str, known: list[str]) -> str:
    """Returns the sheet's name: the recipe's, or the only one."""
    wanted = source.options_of(ExcelOptions).sheet
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted in known:
        return str(wanted)
    shown = ", ".join(f"'{name}'" for name in known[:20])
    found = f"found {len(known)} sheets in {path}: {shown}"
    cure = f"Say which to read: 'sheet: {known[0]}' in a recipe, or '{path}#{known[0]}'."
    if wanted is not None:
        found, cure = f"{found}; none is '{wanted}'", f"{cure}{nearest(wanted, known)}"
    raise RecipeProblems([source_format.problem(source, "sheet", f"{found}. {cure}")])


def _check_merged(where: str, sheet: Sheet, top: int) -> None:
    """Raises ``DataError`` for merged cells from the header on."""
    for row, last in sheet.merged:
        if last >= top:
            raise DataError(
                f"{where}, row {row}: found merged cells, and only the first of them has a value. "
                "Unmerge them and fill in the values; if they are a title, leave it out: "
                f"'skip_lines: {last}'."
            )


def _check_faults(
    source: Source, where: str, faults: Sequence[tuple[int, int, str]], names: Mapping[int, str]
) -> None:
    """Raises ``DataError`` for an error in a column that is read.

    Args:
      source, where: for messages.
      faults: below the header.
      names: place in a row -> the column.
    """
    for row, place, text in faults:
        name = names.get(place, "")
        is_read = name and (not source.columns or name in source.columns)
        if is_read and text not in source.nulls:
            raise DataError(
                f"{where}, row {row}, column '{name}': found {text}, expected a value. Mend the "
                f"cell, or add '{text}' to 'nulls' of the source; formulas get values when a "
                "spreadsheet opens and saves the file."
            )


def _names(source: Source, where: str, rows: list[tuple[int, list[Any]]]) -> tuple[str, ...]:
    """Returns the names of the columns, that of an index included."""
    (top, cells), header = rows[0], source.options_of(ExcelOptions).header
    if header is False:
        if source.columns and len(source.columns) != len(cells):
            message = f"found {len(cells)} columns in {where}, expected {len(source.columns)}."
            raise RecipeProblems([source_format.problem(source, "columns", message)])
        return source.columns or tuple(f"column{place + 1}" for place in range(len(cells)))
    index = [cells[0] for _, cells in rows[1:]]
    if cells[0] == "" and INDEX not in cells and index and all(map(_is_whole, index)):
        cells = [INDEX, *cells[1:]]
    for place, name in enumerate(cells, 1):
        if type(name) is not str or not name.strip():
            found = repr(name) if name != "" else "an empty cell"
            raise DataError(
                f"{where}, row {top}, column {place}: found {found}, expected the name of the "
                "column. Fill it in; or set 'header: false' if the first row has values, or "
                "'skip_lines' if it has a title."
            )
    return tuple(name if header else name.strip() for name in cells)


def _are_indexed(found: Sequence[tuple[FileInfo, _SheetTable]]) -> bool:
    """Whether the first column of each table counts its rows from 0."""
    return all(
        [cells[0] for _, cells in table.rows] == list(range(len(table.rows))) for _, table in found
    )


def _type_of(cells: Sequence[Any]) -> pa.DataType:
    """Returns the type that all cells are of, or text."""
    kinds = {_KINDS[own][1] for own in set(map(type, cells))}
    if kinds == {pa.float64()}:
        return pa.int64() if all(map(_is_whole, cells)) else pa.float64()
    if kinds == {pa.date32(), pa.timestamp("us")}:
        return pa.timestamp("us")
    return kinds.pop() if len(kinds) == 1 else pa.string() if kinds else pa.null()


def _nearly(source: Source, path: str, name: str, filled: list[tuple[int, Any]]) -> str:
    """Returns a question about a few cells of another type, or ""."""
    kinds = Counter(_KINDS[type(cell)][0] for _, cell in filled)
    [(word, number)] = kinds.most_common(1) or [("texts", 0)]
    few = len(filled) - number
    is_declared = source.infer == "lenient" or name in source.types or word == "texts"
    is_mixed = few and set(kinds) != {"dates", "timestamps"}
    if is_declared or not is_mixed or few > min(_MOST, _FEW * len(filled)):
        return ""
    misfits = [(row, cell) for row, cell in filled if _KINDS[type(cell)][0] != word]
    shown = ", ".join(
        f"{shorten(_as_text(cell), 40)!r} ({path}, row {row})" for row, cell in misfits[:_SHOWN]
    )
    texts = list(dict.fromkeys(cell for _, cell in misfits if isinstance(cell, str)))
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null, "
    return (
        f"column '{name}': found {shown} (in all {few:,}) among {number:,} {word}, expected these "
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
        return str(int(value)) if _is_whole(value) else repr(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else str(value)


def _is_whole(value: Any) -> bool:
    is_exact = isinstance(value, float) and value == value // 1 and abs(value) <= _MOST_EXACT
    return is_exact or type(value) is int


def _array(source: Source, cells: list[Any], type_: pa.DataType) -> pa.Array:
    values = [None if _is_null(source, cell) else cell for cell in cells]
    if pa.types.is_string(type_):
        values = [None if value is None else _as_text(value) for value in values]
    elif pa.types.is_timestamp(type_):  # a date is midnight
        values = [
            value
            if isinstance(value, (datetime.datetime, type(None)))
            else datetime.datetime.combine(value, datetime.time())
            for value in values
        ]
    return pa.array(values, type_)
