"""Tables of databases as formats: on the server, or kept.

A run reads each table once, all of one URL at one snapshot, and keeps the rows in files, which its
steps read as often as they need. Commands that need some rows only read them from the server.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import tables
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.faults.bad_rows import BadRow, sift
from beam_pipelines.sources.format import (
    Contents,
    Format,
    QuoteStates,
    Rows,
    empty_batch,
)
from beam_pipelines.sources.plan import RANGE_BYTES, ByteRange, FileInfo, Snapshot, SourcePlan
from beam_pipelines_plugins.databases import explained, opened
from beam_pipelines_plugins.databases.database import Database, TableColumn, Values
from beam_pipelines_plugins.databases.options import DatabaseOptions

# Dates and times: Arrow's numbers of them, and the ends that mean infinity. PostgreSQL's driver
# turns infinity, and times after the last one, into numbers below the lower end.
_CALENDARS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType, int, int], ...] = (
    (pa.types.is_date32, pa.int32(), -(1 << 31) + 11_000, (1 << 31) - 1),
    (pa.types.is_timestamp, pa.int64(), -(1 << 63) + 1_000_000_000_000_000, (1 << 63) - 1),
)
_INFINITY = "found infinity, or a time beyond the calendar of a dataset"


class KeptFile(NamedTuple):
    """Rows of a table in an Arrow file.

    Attributes:
      path: of the file.
      rows: number of its rows.
      size_bytes: of their values.
    """

    path: str
    rows: int
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Table(Format):
    """Rows of a database.

    Attributes:
      source: its name.
      request: the rows.
      columns: to read.
      decisions: what the dataset tells of columns and query.
      range_rows: rows of each range of kept ones but the last.
      kept: files with the rows, in order; ``None``: they are on the server.
    """

    source: str
    request: DatabaseOptions
    columns: tuple[TableColumn, ...]
    decisions: tuple[str, ...] = ()
    range_rows: int = 0
    kept: tuple[KeptFile, ...] | None = None

    suffixes = ()
    has_arrays = True
    is_kept = True
    has_files = False

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
                        kept = list[KeptFile]()
                        for batch in table.batches(database, limits.get(name)):
                            kept.append(_kept_file(batch, folder, f"{name}/{len(kept):06d}.arrow"))
                            note_rows(batch.num_rows)
                        rows = _counted(database, table, kept, limits.get(name))
                    found[name] = _kept_plan(plans[name], table, kept, Snapshot(snapshot, rows))
        return found

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Returns the columns that the server named."""
        fields = [pa.field(column.name, column.found or column.stored) for column in self.columns]
        return tables.contents_of(source, [(files[0], pa.schema(fields))])

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        row, crc32c = byte_range.number_in_file * self.range_rows + 1, 0
        batches = self._live() if self.kept is None else self._kept(byte_range)
        for batch in batches:
            for rows in tables.rows_of(batch, plan, byte_range.file, row, reject):
                if rows.batch.num_rows:
                    hashes = _native.hash_rows(rows.batch.columns)
                    crc32c = google_crc32c.extend(crc32c, hashes.tobytes())
                yield rows
            row += batch.num_rows
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        return "row", byte_range.number_in_file * self.range_rows + 1

    def _kept(self, byte_range: ByteRange) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range from files, as one batch."""
        if not self.kept:
            return
        start = byte_range.number_in_file * self.range_rows
        ends = np.cumsum([kept.rows for kept in self.kept]).tolist()
        end = min(start + self.range_rows, ends[-1])
        parts = []
        for number in range(bisect.bisect_right(ends, start), bisect.bisect_left(ends, end) + 1):
            kept = self.kept[number]
            before = ends[number] - kept.rows
            with files.open_read(kept.path) as file, files.reading(kept.path):
                rows = pa.ipc.open_file(file).read_all()
            first = max(0, start - before)
            parts.append(rows.slice(first, end - before - first))
        yield from pa.concat_tables(parts).combine_chunks().to_batches()

    def _live(self) -> Iterator[pa.RecordBatch]:
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


def _kept_file(batch: pa.RecordBatch, folder: str, name: str) -> KeptFile:
    path = files.join(folder, name)
    with files.open_write(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    return KeptFile(path, batch.num_rows, sum(map(value_bytes, batch.columns)))


def _counted(
    database: Database, table: Table, kept: Sequence[KeptFile], limit: int | None
) -> int | None:
    """Returns the server's count of the rows that came.

    ``None`` of a query, which may give others the next time.

    Raises:
      DataError: it counts others; or there are none.
    """
    came, label, counted = sum(file.rows for file in kept), table.request.label, None
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


def _kept_plan(
    plan: SourcePlan, table: Table, kept: Sequence[KeptFile], snapshot: Snapshot
) -> SourcePlan:
    """Returns the plan of kept rows.

    Ranges have a number of rows that depends on the values alone, so that batches of a driver do
    not show in the dataset.
    """
    rows = sum(file.rows for file in kept)
    size_bytes = sum(file.size_bytes for file in kept)
    most = max(1, RANGE_BYTES * rows // max(1, size_bytes))
    range_rows = 1 << (most.bit_length() - 1)
    file = dataclasses.replace(plan.files[0], size_bytes=size_bytes)
    return dataclasses.replace(
        plan,
        files=(file,),
        ranges=ranges_of(file, rows, range_rows),
        reader=dataclasses.replace(table, range_rows=range_rows, kept=tuple(kept)),
        decisions=table.decisions,
        snapshot=snapshot,
    )


def ranges_of(file: FileInfo, rows: int, range_rows: int) -> tuple[ByteRange, ...]:
    """Returns ranges of equal numbers of rows, with shares of the bytes."""
    count = max(1, math.ceil(rows / range_rows))
    starts = [number * range_rows * file.size_bytes // max(1, rows) for number in range(count)]
    bounds = [*starts, file.size_bytes]
    return tuple(
        ByteRange(number, number, file, bounds[number], bounds[number + 1])
        for number in range(count)
    )


def value_bytes(array: pa.Array) -> int:
    """Returns the bytes of an array's values and lengths, whatever its buffers."""
    type_ = array.type
    if pa.types.is_struct(type_):
        return sum(map(value_bytes, array.flatten()))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        values = pc.sum(pc.binary_length(array)).as_py() or 0
    elif pa.types.is_map(type_):
        values = value_bytes(array.keys) + value_bytes(array.items)
    elif pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        values = value_bytes(array.flatten())
    else:
        width = 1 if pa.types.is_null(type_) else max(1, type_.bit_width // 8)
        return int(len(array) * width)
    return int(4 * len(array) + values)
