"""Opens a sheet of a workbook, and finds its table."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from beam_pipelines.core.errors import DataError, RecipeProblems, nearest
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import Value, read_text, reader
from beam_pipelines.sources.csv.header import INDEX
from beam_pipelines.sources.format import check_columns, problem
from beam_pipelines.sources.options import HeaderOptions, TextsOptions
from beam_pipelines_plugins.formats import excel_faults as faults


@reader(type=["string", "integer"])
def _read_sheet(value: Value) -> str | int | None:
    """A sheet's name, or its number from 1."""
    found = value.tree.value if isinstance(value.tree, Scalar) else None
    if isinstance(found, bool) or (isinstance(found, int) and found < 1):
        value.expected("the name of a sheet, or its number from 1")
        return None
    return found if isinstance(found, int) else read_text(value)


@dataclasses.dataclass(frozen=True)
class ExcelOptions(HeaderOptions, TextsOptions):
    """A sheet, and where its table is."""

    sheet: str | int | None = recipe_key(
        _read_sheet, None, "the only one", "Sheet of an `excel` source."
    )


# Files are read whole.
MOST_FILE_BYTES = 256 << 20
# Rows in which the names are looked for below a title.
_TITLE_ROWS = 20
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Fault(str):
    """The text of an error, or of a formula that nothing computed."""

    __slots__ = ()


class SheetTable(NamedTuple):
    """The table of a sheet.

    Attributes:
      sheet: name of the sheet.
      names: of the columns.
      columns: number of each column in the sheet, from 0.
      rows: number of each row in the sheet, from 0, and its cells; "" is empty, and a ``Fault`` has
        no value.
      data: the file.
      counts_rows: whether the first column has no name and counts the rows from 0.
      skipped: rows above the table, as the sheet shows; ``title``: a cell of them.
    """

    sheet: str
    names: tuple[str, ...]
    columns: tuple[int, ...]
    rows: list[tuple[int, list[Any]]]
    data: bytes
    counts_rows: bool = False
    skipped: int = 0
    title: str = ""

    def is_header(self, cells: list[Any]) -> bool:
        """Whether a row has the names of the columns again."""
        return len(cells) > 1 and cells[0] == self.names[0] and tuple(cells) == self.names

    def address(self, row: int, column: int) -> str:
        """Returns an address such as ``Sheet1!C17``."""
        return f"{self.sheet}!{column_letters(self.columns[column])}{row + 1}"


def read_table(source: Source, path: str) -> SheetTable:
    """Reads the table of a workbook.

    Raises:
      DataError: the file is damaged, too large, or has no table.
      RecipeProblems: the recipe has to name a sheet.
    """
    try:
        import openpyxl  # noqa: F401 - it finds errors
        import python_calamine
        import xlrd
    except ImportError as error:
        raise DataError(
            f"{path}: found no package {error.name}, which reads Excel's files. Install it: pip "
            "install './plugins[excel]' in a clone."
        ) from error
    data = files.read_at_most(path, MOST_FILE_BYTES)
    if data is None:
        raise DataError(
            f"{path}: found more than {MOST_FILE_BYTES:,} bytes, expected at most as many of a "
            "workbook, which is held in memory. Save the sheet as CSV."
        )
    with _explained(path), contextlib.ExitStack() as stack:
        archive = None
        if data.startswith(_ZIP):
            archive = stack.enter_context(zipfile.ZipFile(io.BytesIO(data)))
            faults.check_size(path, archive, source.limits)
            faults.check_container(archive)
        elif not data.startswith(_OLE):
            raise ValueError("it begins like no workbook")
        else:  # it checks counts that calamine makes room for
            xlrd.open_workbook(file_contents=data, on_demand=True).release_resources()
        workbook = python_calamine.load_workbook(io.BytesIO(data))
        name = _chosen(source, path, workbook)
        found = faults.of_xlsx(path, archive, data, name) if archive else faults.of_xls(data, name)
        sheet = workbook.get_sheet_by_name(name)
        rows = list(sheet.iter_rows())
        for (row, column), text in found.items():
            place = column - sheet.start[1] if sheet.start else -1
            if row < len(rows) and 0 <= place < len(rows[row]):
                rows[row][place] = Fault(text)
        return _table(source, path, sheet, rows, data)


def _chosen(source: Source, path: str, workbook: Any) -> str:
    """Returns the sheet's name: the recipe's, or the only one."""
    known: list[str] = [
        one.name
        for one in workbook.sheets_metadata
        if "WorkSheet" in str(one.typ)  # others are charts and macros
    ]
    wanted = source.options_of(ExcelOptions).sheet
    if wanted is None and len(known) == 1:
        return known[0]
    if isinstance(wanted, int) and str(wanted) not in known and wanted <= len(known):
        return known[wanted - 1]
    if str(wanted) in known:
        return str(wanted)
    shown = ", ".join(f"'{name}'" for name in known[:20])
    found = f"found {len(known)} sheets in {path}: {shown}"
    cure = f"Say which to read: 'sheet: {known[0]}' in a recipe, or '{path}#{known[0]}'."
    if wanted is not None:
        found, cure = f"{found}; none is '{wanted}'", f"{cure}{nearest(str(wanted), known)}"
    raise RecipeProblems([problem(source, "sheet", f"{found}. {cure}")])


def _table(
    source: Source, path: str, sheet: Any, cells_of_rows: list[list[Any]], data: bytes
) -> SheetTable:
    """Finds names and rows of a sheet's table."""
    where = f"{path}, {sheet.name}"
    options = source.options_of(ExcelOptions)
    skipped = options.skip_lines or 0
    filled = [
        (number, cells)
        for number, cells in enumerate(cells_of_rows)
        if number >= skipped and cells.count("") < len(cells)
    ]
    if not filled:
        raise DataError(f"{where}: found no row with a value. Set 'sheet' or 'skip_lines'.")
    above = _above(source, filled)
    title = next((str(cell) for cell in filled[0][1] if cell != ""), "") if above else ""
    filled = filled[above:]
    places = range(len(filled[0][1]))
    used = [place for place in places if any(cells[place] != "" for _, cells in filled)]
    check_columns(source, path, len(used))
    top, header = filled[0]
    _check_merged(where, sheet, top)
    numbers = tuple(sheet.start[1] + place for place in used)
    index = [cells[used[0]] for _, cells in filled[1:]] if header[used[0]] == "" else []
    names = _names(source, where, filled[0], used, numbers, _are_whole(index))
    rows = filled if options.header is False else filled[1:]
    if len(used) < len(header):
        rows = [(number, [cells[place] for place in used]) for number, cells in rows]
    counts_rows = index != [] and index == list(range(len(index)))
    return SheetTable(sheet.name, names, numbers, rows, data, counts_rows, top * bool(above), title)


def _above(source: Source, filled: list[tuple[int, list[Any]]]) -> int:
    """Returns how many filled rows are above the names of the columns.

    They have few cells; the names are texts, and as many as the cells of the rows below.
    """
    options = source.options_of(ExcelOptions)
    if options.skip_lines is not None or options.header is not None:
        return 0
    numbers = [sum(cell != "" for cell in cells) for _, cells in filled[: _TITLE_ROWS + 1]]
    usual = max(numbers)
    first = numbers.index(usual)
    names = [cell for cell in filled[first][1] if cell != ""]
    is_table = usual > 1 and len(numbers) > first + 1 and all(isinstance(n, str) for n in names)
    return first if is_table and all(2 * number < usual for number in numbers[:first]) else 0


def _are_whole(cells: list[Any]) -> bool:
    """Whether cells are the index of pandas, which has no name."""
    return bool(cells) and all(type(one) in (int, float) and one % 1 == 0 for one in cells)


def _check_merged(where: str, sheet: Any, top: int) -> None:
    """Raises ``DataError`` for merged cells from the header on."""
    for (row, column), (last_row, last_column) in sheet.merged_cell_ranges or ():
        if last_row >= top:
            area = f"{column_letters(column)}{row + 1}:{column_letters(last_column)}{last_row + 1}"
            is_title = row == last_row
            title = f"; if they are a title, leave it out: 'skip_lines: {last_row + 1}'"
            raise DataError(
                f"{where}!{area}: found merged cells, and only the first of them has a "
                f"value. Unmerge them and fill in the values{title * is_title}."
            )


def _names(
    source: Source,
    where: str,
    top: tuple[int, list[Any]],
    used: list[int],
    numbers: tuple[int, ...],
    has_index: bool,
) -> tuple[str, ...]:
    """Returns the names of the columns, that of an index included."""
    header = source.options_of(ExcelOptions).header
    if header is False:
        if source.columns and len(source.columns) != len(used):
            message = f"found {len(used)} columns in {where}, expected {len(source.columns)}."
            raise RecipeProblems([problem(source, "columns", message)])
        return source.columns or tuple(f"column{place + 1}" for place in range(len(used)))
    row, cells = top
    names = []
    for place, number in zip(used, numbers, strict=True):
        name = cells[place]
        if has_index and place == used[0] and INDEX not in cells:
            name = INDEX
        if type(name) is not str or not name.strip():
            found = repr(name) if name != "" else "an empty cell"
            raise DataError(
                f"{where}!{column_letters(number)}{row + 1}: found {found}, expected the name of "
                "the column. Fill it in; or set 'header: false' if the first row has values, or "
                "'skip_lines' if it has a title."
            )
        names.append(name if header else name.strip())
    return tuple(names)


def column_letters(number: int) -> str:
    """Returns A of 0, AA of 26."""
    from openpyxl.utils import get_column_letter

    return str(get_column_letter(number + 1))


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (DataError, RecipeProblems, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        # calamine, openpyxl, xlrd and zipfile have many errors; one of calamine's is no Exception.
        if "assword" in str(error) or "ncrypt" in str(error):
            raise DataError(
                f"{path}: found a workbook with a password, which is not read. Save it without one."
            ) from error
        raise DataError(
            f"{path}: found a damaged workbook, expected a whole .xlsx or .xls file: "
            f"{error or repr(error)}. Open it in a spreadsheet and save it as .xlsx."
        ) from error
