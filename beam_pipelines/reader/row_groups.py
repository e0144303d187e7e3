"""Reads row groups of Parquet shards, and makes features of their columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from isal import isal_zlib

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.core.arrow.columns import only_chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.reader.order import Int64s

_MAGIC = b"PAR1"
_CURE = "Copy the dataset again, or convert again with --overwrite"


class RowGroups:
    """How row groups of a split's shards are read.

    Attributes:
      lists: names of the features that are feature lists.
      names: of the columns to read; ``None``: all.
    """

    def __init__(self, lists: Collection[str], names: Sequence[str] | None = None) -> None:
        self.lists = frozenset(lists)
        self.names = None if names is None else list(names)
        self._footers: dict[str, pq.FileMetaData] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[RowGroups], tuple[Collection[str], Sequence[str] | None]]:
        """Reads footers again in another process."""
        return RowGroups, (self.lists, self.names)

    def with_names(self, names: Sequence[str]) -> RowGroups:
        """Returns the same for some columns alone."""
        return RowGroups(self.lists, names)

    def footer(self, path: str, read: Callable[[], bytes]) -> pq.FileMetaData:
        """Returns what the footer of a shard says; it is read once.

        Args:
          path: of the shard.
          read: returns the bytes behind its last row group.

        Raises:
          ValueError: it is damaged.
        """
        with self._lock:
            found = self._footers.get(path)
        if found is None:
            try:
                found = pq.read_metadata(pa.BufferReader(_MAGIC + read()))
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"found a damaged footer ({error})") from error
            with self._lock:
                self._footers[path] = found
        return found

    def decode(
        self, footer: pq.FileMetaData, number: int, offset: int, data: bytes, crc32: int, rows: int
    ) -> pa.Table:
        """Returns the columns of a row group.

        Args:
          footer: of its shard.
          number: of the row group in the shard.
          offset: of its first byte in the shard.
          data: its bytes.
          crc32: of them.
          rows: of the row group.

        Raises:
          ValueError: it is damaged, or has other rows or columns; says why.
        """
        checksum = isal_zlib.crc32(data)
        if checksum != crc32:
            raise ValueError(f"found a row group with CRC-32 {checksum:08x}, expected {crc32:08x}")
        if number >= footer.num_row_groups:
            raise ValueError(f"found {footer.num_row_groups:,} row groups, expected more")
        file = pa.PythonFile(_Stretch(data, offset), mode="r")
        try:
            with pq.ParquetFile(file, metadata=footer) as parquet:
                table = parquet.read_row_group(number, columns=self.names, use_threads=False)
            if self.names is not None:
                table = table.select(self.names)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise ValueError(f"found a damaged row group ({error})") from error
        if table.num_rows != rows:
            raise ValueError(f"found {table.num_rows:,} rows, expected {rows:,}")
        return table


class _Stretch(io.BytesIO):
    """Some bytes of a file, at their places in it."""

    def __init__(self, data: bytes, offset: int) -> None:
        super().__init__(data)
        self._offset = offset

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a place in the file, from the stretch on."""
        return self._offset + super().seek(place - self._offset * (whence == io.SEEK_SET), whence)

    def tell(self) -> int:
        """Returns the place in the file."""
        return self._offset + super().tell()


def columns_of(
    tables: Sequence[pa.Table], rows: Int64s, types: Sequence[tuple[str, pa.DataType, bool]]
) -> list[pa.Array]:
    """Returns rows of tables as a parser's features of records.

    Args:
      tables: of row groups.
      rows: int64[n], numbers among the rows of all tables.
      types: name, type and whether it is a feature list, of each feature.

    Returns:
      For each feature a large list of its values in each row, null where it is missing; of a
      feature list large lists of steps.

    Raises:
      DataError: a column is missing, or of another type.
    """
    taken = pa.array(rows)
    found = []
    for name, type_, is_list in types:
        try:
            chunks = [chunk for table in tables for chunk in table.column(name).chunks]
            column = pc.take(pa.concat_arrays(chunks), taken, boundscheck=False)
            found.append(as_steps(column, type_) if is_list else as_lists(column, type_))
        except (pa.ArrowException, KeyError) as error:
            raise DataError(
                f"feature '{name}': found no such column of {type_} in the Parquet shards ({error})"
                f". {_CURE}."
            ) from error
    return found


def as_lists(column: pa.Array, type_: pa.DataType) -> pa.LargeListArray:
    """Returns values, or lists of them, as large lists of a type.

    Nulls stay null.

    Args:
      column: without an offset, and without values of null lists.
      type_: int64, float32 or large_binary.
    """
    if pa.types.is_fixed_size_list(column.type):
        values, size = _flattened(column)
        offsets = np.arange(len(column) + 1, dtype=np.int64) * size
        return pa.LargeListArray.from_arrays(pa.array(offsets), values.cast(type_))
    if pa.types.is_list(column.type):
        return column.cast(pa.large_list(type_))
    valid = is_valid(column)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)])
    values = column.drop_null() if column.null_count else column
    mask = pa.array(~valid) if column.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), values.cast(type_), mask=mask)


def as_steps(column: pa.ListArray, type_: pa.DataType) -> pa.LargeListArray:
    """Returns a feature list as large lists of steps.

    Steps are large lists of a type.

    Arguments are those of ``as_lists``; a step that is null has no value.
    """
    lists = column.cast(pa.large_list(column.type.value_type))
    mask = pa.array(~is_valid(column)) if column.null_count else None
    return pa.LargeListArray.from_arrays(lists.offsets, as_lists(lists.values, type_), mask=mask)


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """Returns a table's rows as a batch, without fixed-size lists."""
    arrays = [_listed(only_chunk(column)) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, table.column_names)


def _listed(column: pa.Array) -> pa.Array:
    if not pa.types.is_fixed_size_list(column.type):
        return column
    values, size = _flattened(column)
    offsets = np.arange(len(column) + 1, dtype=np.int32) * size
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _flattened(column: pa.Array) -> tuple[pa.Array, int]:
    """Returns the values of fixed-size lists, and how many a row has."""
    values, size = column, 1
    while pa.types.is_fixed_size_list(values.type):
        size, values = size * values.type.list_size, values.flatten()
    return values, size
