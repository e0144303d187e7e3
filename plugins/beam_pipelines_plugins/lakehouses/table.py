"""The format of a lakehouse's tables: Parquet files of one snapshot.

Their rows get the columns that the table has now, and deleted rows are left out.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.arrow.columns import Shape
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.batch_files import SAMPLE_ROWS, tail_rows
from beam_pipelines.sources.faults.bad_values import ColumnError
from beam_pipelines.sources.format import (
    Contents,
    Format,
    Position,
    QuoteStates,
    Rows,
    row_numbers,
    skip_rows,
)
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.parquet.footers import Piece, pieces_of
from beam_pipelines.sources.parquet.format import (
    Parquet,
    batches_of,
    opened,
    top_columns,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.lakehouses.options import IcebergOptions
from beam_pipelines_plugins.lakehouses.projection import Projection, project
from beam_pipelines_plugins.lakehouses.snapshots import By, Deletes, Positions, note_of


class _Batch(NamedTuple):
    """Some rows of a file, with the table's columns.

    Attributes:
      rows: without those that were deleted.
      numbers: of the rows in the file, from 1, ascending.
    """

    rows: pa.RecordBatch
    numbers: Positions


@dataclasses.dataclass(frozen=True)
class LakeTable(Format):
    """A table at one snapshot.

    The notes of its files say the rest.

    Attributes:
      columns: of the table, with what files call them in their metadata.
      by, names: as in ``TableSnapshot``.
      constants: values of columns that files lack; the note of a file has the number of its row.
      deletes: of the table.
    """

    columns: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)
    by: By = "name"
    names: str = ""
    constants: pa.Table | None = None
    deletes: Deletes = Deletes()  # noqa: RUF009 (so are these)

    suffixes = ()
    has_arrays = True
    is_compressed = True

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with the columns that a dataset has.

        Later ones are left out.
        """
        return source if source.columns else dataclasses.replace(source, columns=tuple(types))

    def store(self, plan: SourcePlan, folder: str) -> SourcePlan:
        """Returns a plan with its table's deleted rows stored in a folder."""
        reader = dataclasses.replace(self, deletes=self.deletes.stored(folder))
        return dataclasses.replace(plan, reader=reader)

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Returns the columns; a sample shows the shapes of arrays."""
        named = FileInfo(source.options_of(IcebergOptions).table or source.path[0], 0)
        tables.check_schema(source, named.path, self.columns)
        seen: dict[str, Shape | None] = {}
        if wanted := shapes.open_columns(source, self.columns):
            fields = [self.columns.field(name) for name in wanted]
            sample = (
                batch.slice(0, SAMPLE_ROWS)
                for file in files
                for batch in self._rows_of(source, file, fields)
                if batch.num_rows
            )
            shapes.note_shapes(seen, sample if source.reads_all else itertools.islice(sample, 1))
        return tables.contents_of(source, [(named, self.columns)], seen)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        fields = [self.columns.field(name) for name in top_columns(plan, self.columns)]
        with opened(byte_range.file.path) as (file, parquet):
            pieces = pieces_of(parquet.metadata, len(plan.files))
            for batch in self._batches(plan.source, byte_range, fields, file, parquet, pieces):
                for rows in tables.rows_of(batch.rows, plan, byte_range.file, 1, True):
                    rejected = tuple(_in_file(bad, batch.numbers) for bad in rows.rejected)
                    if rejected and not reject:
                        raise DataError(rejected[0].describe())
                    yield rows._replace(rejected=rejected)
            yield tail_rows(plan, byte_range, file)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Finds rows of a range; see ``Format``."""
        word, first = self.numbering(plan, byte_range)
        deleted = self.deletes.of_file(note_of(byte_range.file.note).deletes) + 1
        left_out = np.union1d(row_numbers(rejected), deleted[deleted >= first])
        numbers = skip_rows(first + np.asarray(rows, np.int64), left_out)
        path = byte_range.file.path
        return [Position(path, f"{word} {number}", "") for number in numbers.tolist()]

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        return Parquet().numbering(plan, byte_range)

    def _rows_of(
        self, source: Source, file: FileInfo, fields: Sequence[pa.Field]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file."""
        whole = ByteRange(0, 0, file, 0, file.size_bytes)
        with opened(file.path) as (data, parquet):
            pieces = pieces_of(parquet.metadata)
            for batch in self._batches(source, whole, fields, data, parquet, pieces):
                yield batch.rows

    def _batches(
        self,
        source: Source,
        byte_range: ByteRange,
        fields: Sequence[pa.Field],
        file: BinaryIO,
        parquet: pq.ParquetFile,
        pieces: Iterable[Piece],
    ) -> Iterator[_Batch]:
        """Yields the rows of a range that were not deleted.

        Args:
          source: its limits hold.
          byte_range: of a file.
          fields: the table's columns to read.
          file, parquet: the file, as ``opened`` gives it.
          pieces: of the file.

        Raises:
          DataError: the file is not as the table's log says, or a value does not fit.
        """
        path, note = byte_range.file.path, note_of(byte_range.file.note)
        deleted = self.deletes.of_file(note.deletes)
        _check_rows(path, parquet.metadata.num_rows, note.rows, deleted)
        projection = self._projection(fields, parquet.schema_arrow, note.constants)
        wanted = projection.wanted
        for row, batch in batches_of(source, byte_range, file, parquet, pieces, wanted):
            numbers = np.arange(row, row + batch.num_rows)
            try:
                rows = projection.apply(batch)
            except ColumnError as error:
                raise DataError(
                    f"{path}, rows {row} to {row + batch.num_rows - 1}, column "
                    f"'{error.column}': {error.message}. Leave the column out with 'columns', or "
                    "have the table's files rewritten."
                ) from error
            low, high = np.searchsorted(deleted, [row - 1, row - 1 + batch.num_rows])
            if high > low:
                is_kept = np.ones(batch.num_rows, np.bool_)
                is_kept[deleted[low:high] - (row - 1)] = False
                rows, numbers = rows.filter(pa.array(is_kept)), numbers[is_kept]
            yield _Batch(rows, numbers)

    def _projection(
        self, fields: Sequence[pa.Field], file_schema: pa.Schema, number: int | None
    ) -> Projection:
        constants: dict[str, pa.Scalar] = {}
        if self.constants is not None and number is not None:
            constants = {
                name: self.constants.column(name)[number] for name in self.constants.column_names
            }
        return project(fields, file_schema, self.by, self.names, constants)


def _check_rows(path: str, found: int, expected: int | None, deleted: Positions) -> None:
    """Raises ``DataError`` if a file has other rows than the log says."""
    cure = "Get the file again, or restore the table; writers never change a data file."
    if expected is not None and found != expected:
        raise DataError(
            f"{path}: found {found:,} rows, expected {expected:,} as the table's log says. {cure}"
        )
    if len(deleted) and deleted[-1] >= found:
        raise DataError(
            f"{path}: found {found:,} rows, expected more: row {deleted[-1] + 1:,} was deleted, "
            f"says the table's log. {cure}"
        )


def _in_file(bad: Rejected, numbers: Positions) -> Rejected:
    """Returns a bad row with its number in the file.

    Args:
      bad: numbered among the rows that were not deleted.
      numbers: of these rows in the file.
    """
    number = int(bad.position.rpartition(" ")[2])
    return bad._replace(position=f"row {numbers[number - 1]}")
