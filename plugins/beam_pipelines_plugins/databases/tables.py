"""Tables of databases as formats: on the server, or kept.

A run reads each table once and keeps the rows in files, which its steps read as often as they need.
Commands that need some rows only read them from the server.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import tables
from beam_pipelines.sources.format import (
    Contents,
    Format,
    Position,
    QuoteStates,
    Rows,
    empty_batch,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.storage import files
from beam_pipelines_plugins.databases import database_of
from beam_pipelines_plugins.databases.database import (
    RowRequest,
    ServerError,
    TableColumn,
    failure,
    guard_name,
)


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
      request: the rows.
      columns: to read.
      range_rows: rows of each range of kept ones but the last.
      decisions: what the dataset tells of columns and query.
      kept: files with the rows, in order; ``None``: they are on the server.
    """

    request: RowRequest
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
        """Reads tables at one snapshot; see ``Format``."""
        from beam_pipelines_plugins.databases.keep import keep_tables

        return keep_tables(plans, limits, folder, note_rows)

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
            for rows in tables.rows_of(batch, plan, byte_range.file, row, True):
                rejected = tuple(self._with_key(bad, batch, row) for bad in rows.rejected)
                if rejected and not reject:
                    raise DataError(rejected[0].describe())
                if rows.batch.num_rows:
                    hashes = _native.hash_rows(rows.batch.columns)
                    crc32c = google_crc32c.extend(crc32c, hashes.tobytes())
                yield rows._replace(rejected=rejected)
            row += batch.num_rows
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Finds rows of a range; see ``Format``."""
        found = super().positions(plan, byte_range, quote_states, rejected, rows)
        if not self.kept:
            return found
        first = self.numbering(plan, byte_range)[1]
        batch = pa.concat_batches(list(self._kept(byte_range)))
        numbers = [int(one.place.rpartition(" ")[2]) - first for one in found]
        return [
            one._replace(place=f"{self._key(batch, number)}{one.place}")
            for one, number in zip(found, numbers, strict=True)
        ]

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        return "row", byte_range.number_in_file * self.range_rows + 1

    def _with_key(self, bad: Rejected, batch: pa.RecordBatch, first: int) -> Rejected:
        number = int(bad.position.rpartition(" ")[2])
        return bad._replace(position=f"{self._key(batch, number - first)}row {number}")

    def _key(self, batch: pa.RecordBatch, row: int) -> str:
        """Returns ``user_id 4812, `` of a row in a batch, or ""."""
        name = self.request.partition
        if name is None or name not in batch.schema.names:
            return ""
        return f"{name} {batch.column(name)[row]}, "

    def _kept(self, byte_range: ByteRange) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range from files, as one batch."""
        if not self.kept:
            return
        start = byte_range.number_in_file * self.range_rows
        ends = np.cumsum([kept.rows for kept in self.kept]).tolist()
        end = min(start + self.range_rows, ends[-1])
        parts = []
        for number in range(bisect.bisect_right(ends, start), len(ends)):
            kept = self.kept[number]
            before = ends[number] - kept.rows
            if before >= end:
                break
            parts.append(_rows_of_file(kept, max(0, start - before), end - before))
        table = pa.Table.from_batches(parts).combine_chunks()
        yield from table.to_batches()

    def _live(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows from the server."""
        database, row = database_of(self.request.url), 1
        try:
            with contextlib.closing(database.connect(self.request.url)) as session:
                for batch in database.read(session, self.request, self.columns):
                    yield readable(batch, self, row)
                    row += batch.num_rows
        except ServerError as error:
            raise failure(self.request, database, error) from error


def readable(batch: pa.RecordBatch, table: Table, row: int) -> pa.RecordBatch:
    """Returns the columns of a server's batch, in the kept types.

    Args:
      batch: as a driver gives it.
      table: whose rows these are.
      row: number of the first row, from 1.

    Raises:
      DataError: a value that no column type equals, with its row.
    """
    name = guard_name(table.columns)
    if name in batch.schema.names:
        guard = batch.column(name)
        if guard.null_count < len(guard):
            place = int(np.flatnonzero(guard.is_valid().to_numpy(zero_copy_only=False))[0])
            column = table.columns[guard[place].as_py()]
            key = table._key(batch, place)  # noqa: SLF001 - of the same module
            where = f"{key}row {row + place}"
            raise DataError(
                f"{', '.join(filter(None, (table.request.name, where)))}, column '{column.name}': "
                f"found {column.guarded}, which no {column.kind.removeprefix('_')} of a dataset "
                f"equals. Leave such rows out or make another value of it in 'query', or read "
                f"texts with 'types: {{{yaml_text(column.name)}: text}}'."
            )
    arrays = [_stored(batch.column(column.name), column.stored) for column in table.columns]
    schema = pa.schema([(column.name, column.stored) for column in table.columns])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored(array: pa.Array, type_: pa.DataType) -> pa.Array:
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    # Bytes that are no UTF-8 are found when rows are converted, with their places.
    is_text = type_ == pa.string() and array.type == pa.binary()
    return array if array.type == type_ else pc.cast(array, type_, safe=not is_text)


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


def _rows_of_file(kept: KeptFile, start: int, end: int) -> pa.RecordBatch:
    with files.open_read(kept.path) as file, files.reading(kept.path):
        (batch,) = pa.ipc.open_file(file).read_all().combine_chunks().to_batches()
    return batch.slice(start, end - start)
