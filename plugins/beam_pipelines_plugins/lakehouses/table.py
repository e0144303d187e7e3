"""The format of a lakehouse's tables: Parquet files of one snapshot.

A file keeps the columns of the day when it was written: with other names, narrower types, or
without columns that were added later. Its rows get the columns that the table has now, and deleted
rows are left out.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.arrow.columns import Shape
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.batch_files import SAMPLE_ROWS, tail_rows
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
from beam_pipelines.sources.parquet.footers import pieces_of
from beam_pipelines.sources.parquet.format import Parquet, batches_of, opened, top_columns
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.lakehouses import snapshots


def keep_deletes(deleted: Iterable[snapshots.Positions]) -> bytes:
    """Returns an Arrow file with a batch for each item.

    So a worker reads the deleted rows of its own file only. Without an item there are no bytes.
    """
    schema, sink = pa.schema([("position", pa.int64())]), pa.BufferOutputStream()
    batches = [pa.record_batch([pa.array(rows, pa.int64())], schema) for rows in deleted]
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue()) if batches else b""


@dataclasses.dataclass(frozen=True)
class LakeTable(Format):
    """A table at one snapshot.

    The note of a file has, as JSON, its place, its rows by the log, and its batch of deletes.

    Attributes:
      columns, keys, ids: as in ``TableSnapshot``.
      constants: values of columns that files may lack, a row for each file: a pyarrow table.
      deletes: of the table, as ``keep_deletes`` gives them, or the path of that file.
    """

    columns: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)
    keys: pa.Schema = pa.schema([])  # noqa: RUF009
    ids: Mapping[str, str] | None = None
    constants: Any = None
    deletes: bytes | str = b""

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
        if not isinstance(self.deletes, bytes) or not self.deletes:
            return plan
        crc32c, size = google_crc32c.value(self.deletes), len(self.deletes)
        path = files.join(folder, f"deletes-{crc32c:08x}-{size}.arrow")
        files.write_bytes(path, self.deletes)
        return dataclasses.replace(plan, reader=dataclasses.replace(self, deletes=path))

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Returns the columns; a sample shows the shapes of arrays."""
        named = FileInfo(source.path[0], 0)
        tables.check_schema(source, named.path, self.columns)
        seen: dict[str, Shape | None] = {}
        if wanted := shapes.open_columns(source, self.columns):
            sample = (
                batch.slice(0, SAMPLE_ROWS)
                for file in files
                for batch in self._rows_of(source, file, wanted)
                if batch.num_rows
            )
            shapes.note_shapes(seen, sample if source.reads_all else itertools.islice(sample, 1))
        return tables.contents_of(source, [(named, self.columns)], seen)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        names = top_columns(plan, self.columns)
        with opened(byte_range.file.path) as (file, parquet):
            found = self._batches(plan.source, byte_range, names, file, parquet, len(plan.files))
            for batch, numbers in found:
                yield from tables.rows_of(batch, plan, byte_range.file, numbers.tolist, reject)
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
        deleted = self._facts(byte_range.file)[2] + 1
        left_out = np.union1d(row_numbers(rejected), deleted[deleted >= first])
        numbers = skip_rows(first + np.asarray(rows, np.int64), left_out)
        path = byte_range.file.path
        return [Position(path, f"{word} {number}", "") for number in numbers.tolist()]

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        return Parquet().numbering(plan, byte_range)

    def _facts(self, file: FileInfo) -> tuple[int, int | None, snapshots.Positions]:
        """Returns a file's place, rows by the log, and deleted rows."""
        place, rows, number = json.loads(file.note)
        if number is None:
            return place, rows, snapshots.NOTHING
        kept = self.deletes
        with io.BytesIO(kept) if isinstance(kept, bytes) else files.open_read(kept) as data:
            batch = pa.ipc.open_file(data).get_batch(number)
        return place, rows, np.array(batch.column(0).to_numpy(zero_copy_only=False))

    def _rows_of(
        self, source: Source, file: FileInfo, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file."""
        whole = ByteRange(0, 0, file, 0, file.size_bytes)
        with opened(file.path) as (data, parquet):
            for batch, _ in self._batches(source, whole, names, data, parquet):
                yield batch

    def _batches(
        self,
        source: Source,
        byte_range: ByteRange,
        names: Sequence[str],
        file: BinaryIO,
        parquet: pq.ParquetFile,
        number_of_files: int = 0,
    ) -> Iterator[tuple[pa.RecordBatch, snapshots.Positions]]:
        """Yields the rows of a range, and their numbers from 1.

        Deleted rows are left out.

        Args:
          source: its limits hold.
          byte_range: of a file.
          names: of the table's columns to read.
          file, parquet: the file, as ``opened`` gives it.
          number_of_files: of the source; 0: no row group is cut.

        Raises:
          DataError: the file is not as the table's log says, or a value does not fit.
        """
        path, metadata = byte_range.file.path, parquet.metadata
        place, expected, deleted = self._facts(byte_range.file)
        _check_rows(path, metadata.num_rows, expected, deleted)
        own = self._own(parquet.schema_arrow)
        wanted = [own[key][0] for key in map(self._key, names) if key in own]
        pieces = pieces_of(metadata, number_of_files)
        for row, batch in batches_of(source, byte_range, file, parquet, pieces, wanted):
            rows, numbers = batch, np.arange(row, row + batch.num_rows)
            low, high = np.searchsorted(deleted, [row - 1, row - 1 + batch.num_rows])
            if high > low:
                is_kept = np.ones(batch.num_rows, np.bool_)
                is_kept[deleted[low:high] - (row - 1)] = False
                rows, numbers = rows.filter(pa.array(is_kept)), numbers[is_kept]
            arrays = []
            for name in names:
                try:
                    arrays.append(self._fitted(name, own.get(self._key(name)), rows, place))
                except pa.ArrowException as error:
                    raise DataError(
                        f"{path}, rows {row} to {row + batch.num_rows - 1}, column '{name}': found "
                        f"values that do not fit {self.columns.field(name).type}: {error}. Leave "
                        "the column out with 'columns', or have the table's files rewritten."
                    ) from error
            fields = pa.schema([self.columns.field(name) for name in names])
            yield pa.RecordBatch.from_arrays(arrays, schema=fields), numbers

    def _key(self, name: str) -> str:
        """Returns what files call a column."""
        return str(self.keys.names[self.columns.get_field_index(name)])

    def _own(self, schema: pa.Schema) -> dict[str, tuple[str, pa.DataType, pa.DataType]]:
        """Returns key -> name, plain type and keyed type of columns."""
        ids = self.ids or {}
        if any(map(snapshots.id_of, schema)):
            ids = {}

        def key_of(field: pa.Field, path: str) -> str:
            return (
                field.name
                if self.ids is None
                else snapshots.id_of(field) or ids.get(path, f"?{path}")
            )

        fields = zip(
            schema.names,
            snapshots.plain(schema, snapshots.own_name),
            snapshots.plain(schema, key_of),
            strict=True,
        )
        return {key.name: (name, own.type, key.type) for name, own, key in fields if key.name}

    def _fitted(
        self,
        name: str,
        own: tuple[str, pa.DataType, pa.DataType] | None,
        batch: pa.RecordBatch,
        place: int,
    ) -> pa.Array:
        """Returns a column of the table.

        A cast adds the fields that structs lack.

        Args:
          name: of the column.
          own: the file's column, as ``_own`` gives it; ``None``: it has none.
          batch: rows of the file.
          place: of the file.
        """
        number = self.columns.get_field_index(name)
        type_ = self.columns.field(number).type
        if own is None:
            has_value = name in self.constants.column_names
            value = self.constants.column(name)[place] if has_value else pa.scalar(None, type_)
            return pa.repeat(value, batch.num_rows)
        found, plain_type, keyed = own
        array = batch.column(found).cast(plain_type).view(keyed)
        return array.cast(self.keys.field(number).type).view(type_)


def _check_rows(path: str, found: int, rows: int | None, deleted: snapshots.Positions) -> None:
    """Raises ``DataError`` if a file has other rows than the log says."""
    least = int(deleted[-1]) + 1 if len(deleted) else 0
    expected = max(found if rows is None else rows, least)
    if found != expected:
        raise DataError(
            f"{path}: found {found:,} rows, expected {expected:,} as the table's log says. Get the "
            "file again, or restore the table; writers never change a data file."
        )
