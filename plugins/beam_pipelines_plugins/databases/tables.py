"""Tables of databases as formats: on the server, or kept.

A run reads all tables of one URL at one snapshot.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import tables
from beam_pipelines.sources.bad_input.bad_rows import BadRow, sift
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.plan import FileInfo, Snapshot, SourcePlan
from beam_pipelines.sources.source_format import Contents
from beam_pipelines_plugins.databases import explained, opened
from beam_pipelines_plugins.databases.database import Database, TableColumn, Values
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.kept import KeptRows, keep_batches, kept_plan

# Dates and times: Arrow's numbers of them, and the ends that mean infinity. PostgreSQL's driver
# turns infinity, and times after the last one, into numbers below the lower end.
_CALENDARS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType, int, int], ...] = (
    (pa.types.is_date32, pa.int32(), -(1 << 31) + 11_000, (1 << 31) - 1),
    (pa.types.is_timestamp, pa.int64(), -(1 << 63) + 1_000_000_000_000_000, (1 << 63) - 1),
)
_INFINITY = "found infinity, or a time beyond the calendar of a dataset"


@dataclasses.dataclass(frozen=True)
class Table(KeptRows):
    """Rows of a database.

    Attributes:
      source: its name.
      request: the rows.
      columns: to read.
      decisions: what the dataset tells of columns and query.
    """

    source: str
    request: DatabaseOptions
    columns: tuple[TableColumn, ...]
    decisions: tuple[str, ...] = ()

    def keep(
        self,
        plans: Mapping[str, SourcePlan],
        limits: Mapping[str, int],
        folder: str,
        note_rows: Callable[[int], None],
    ) -> dict[str, SourcePlan]:
        """Reads tables; all of one URL by one connection, at one snapshot.

        See ``Format``.

        Raises:
          DataError: a server does not answer or gives other rows than it counts; a value that no
            column type equals; a table without rows.
        """
        by_url: dict[str, dict[str, Table]] = {}
        for name, plan in plans.items():
            if not isinstance(table := plan.reader, Table):
                raise TypeError(f"{plan.source.name} is no table of a database")
            by_url.setdefault(table.request.url or "", {})[name] = table
        found: dict[str, SourcePlan] = {}
        for own in by_url.values():
            one = next(iter(own.values()))
            with opened(one.source, one.request) as database:
                snapshot = database.begin()
                for name, table in own.items():
                    with explained(table.source, table.request, database.name):
                        batches = table.batches(database, limits.get(name))
                        kept = keep_batches(batches, files.join(folder, name), note_rows)
                        came = sum(file.rows for file in kept)
                        rows = _counted(database, table, came, limits.get(name))
                    plan = dataclasses.replace(plans[name], decisions=table.decisions)
                    found[name] = kept_plan(plan, table, kept, Snapshot(snapshot, rows))
        return found

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Returns the columns that the server named."""
        fields = [pa.field(column.name, column.found or column.stored) for column in self.columns]
        return tables.contents_of(source, [(files[0], pa.schema(fields))])

    def live(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows from the server."""
        with opened(self.source, self.request) as database:
            yield from self.batches(database, None)

    def batches(self, database: Database, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Yields the rows from the server, in the kept types.

        Args:
          database: the open one.
          limit: the first rows only; ``None``: all.

        Raises:
          DataError: a value that has no equal in its column's type, with its row.
        """
        row, schema = 1, pa.schema([(column.name, column.stored) for column in self.columns])
        for found in database.read(self.request, self.columns, limit):
            arrays = []
            for column, values in zip(self.columns, found, strict=True):
                parts = [pa.nulls(0, column.stored)]
                attempt = functools.partial(_exact, values, column.stored)
                for part in sift(attempt, 0, len(values)):
                    if isinstance(part, BadRow):
                        raise self._odd_value(column, part, row)
                    parts.append(part)
                arrays.append(parts[1] if len(parts) == 2 else pa.concat_arrays(parts))
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            if batch.num_rows:
                yield batch
            row += batch.num_rows

    def _odd_value(self, column: TableColumn, bad: BadRow, first: int) -> DataError:
        return DataError(
            f"{self.request.label}, row {first + bad.number}, column '{column.name}' "
            f"({column.kind}): {str(bad.error).strip().rstrip('.')}. Leave such rows out or make "
            "another value of it in 'query', or read texts with 'types: "
            f"{{{yaml_text(column.name)}: text}}'."
        )


def _exact(values: Values, type_: pa.DataType, start: int, end: int) -> pa.Array:
    """Returns values in the type that is kept, without loss.

    Raises:
      pa.ArrowInvalid: a value has no equal in it.
    """
    array = values[start:end]
    if not isinstance(array, pa.Array):
        try:
            array = pa.array(array)
        except pa.ArrowTypeError as error:
            raise pa.ArrowInvalid(str(error)) from error
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if array.type == pa.binary() and type_ != pa.binary():
        # Bytes that are no UTF-8 are found when rows are converted, with their places.
        array = pc.cast(array, pa.string(), safe=False)
    array = array if array.type == type_ else exact_cast(array, type_)
    _check_calendar(array)
    return array


def _check_calendar(array: pa.Array) -> None:
    """Raises ``pa.ArrowInvalid`` for infinity, and for times that a driver wrapped."""
    if pa.types.is_struct(array.type) or is_list(array.type):
        parts = array.flatten()
        for part in parts if isinstance(parts, list) else [parts]:
            _check_calendar(part)
    for is_type, number, low, high in _CALENDARS:
        if is_type(array.type):
            ends = pc.min_max(array.view(number))
            if ends["min"].is_valid and (ends["min"].as_py() < low or ends["max"].as_py() == high):
                raise pa.ArrowInvalid(_INFINITY)


def _counted(database: Database, table: Table, came: int, limit: int | None) -> int | None:
    """Returns the server's count of the rows that came.

    ``None`` of a query, which may give others the next time.

    Raises:
      DataError: it counts others; or there are none.
    """
    label, counted = table.request.label, None
    if table.request.query is None:
        counted = min(count := database.count(table.request), count if limit is None else limit)
    if counted not in (None, came):
        raise DataError(
            f"{label}: the server counts {counted:,} rows, and {came:,} came, at one "
            "snapshot. Nothing was written. Run again; if it recurs, look for a proxy between; or "
            "if it is a view that gives other rows each time, read it by 'query'."
        )
    if not came:
        raise DataError(
            f"{label}: found no rows, expected data. Check 'table' or 'query' of source "
            f"'{table.source}'."
        )
    return counted
