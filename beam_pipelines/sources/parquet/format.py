"""Parquet: by row groups, with only the columns that are needed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.bad_input import damaged
from beam_pipelines.sources.batch_files import SAMPLE_ROWS, BatchFiles, OpenedFile, tail_rows
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.parquet import columns as parquet_columns
from beam_pipelines.sources.parquet.footers import Piece, check_columns, pieces_of
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.source_format import CHUNK_BYTES, MAX_CHUNK_ROWS, Rows

# Row groups larger than this, uncompressed, are read so many bytes at a time, over all columns:
# Arrow would hold a whole one.
_BUFFERED_BYTES = 128 * MIB
_LEAST_BUFFER_BYTES = 64 << 10


class Parquet(BatchFiles):
    """Files of row groups; a range has those that begin in it."""

    title = "Parquet"
    suffixes = (".parquet", ".pq")
    is_compressed = True

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file, for columns whose shape only values tell; see ``BatchFiles``."""
        with opened(path) as (file, parquet):
            schema = parquet_columns.schema_of(parquet)
            yield OpenedFile(file, schema, _open_columns(source, parquet))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        with opened(byte_range.file.path) as (file, parquet):
            if byte_range.number_in_file == 0:
                tables.check_file(plan, byte_range.file, parquet_columns.schema_of(parquet))
            wanted = top_columns(plan, parquet.schema_arrow)
            pieces = pieces_of(parquet.metadata, len(plan.files))
            for row, batch in batches_of(plan.source, byte_range, file, parquet, pieces, wanted):
                yield from tables.rows_of(batch, plan, byte_range.file, row, reject)
            yield tail_rows(plan, byte_range, file)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with opened(byte_range.file.path) as (_, parquet):
            pieces = pieces_of(parquet.metadata, len(plan.files))
            before = (piece for piece in pieces if piece.first_byte < byte_range.start)
            return "row", 1 + sum(piece.stop - piece.start for piece in before)


def _open_columns(source: Source, parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    wanted = shapes.open_columns(source, parquet.schema_arrow)
    yield from parquet.iter_batches(SAMPLE_ROWS, columns=wanted, use_threads=False)


def batches_of(
    source: Source,
    byte_range: ByteRange,
    file: BinaryIO,
    parquet: pq.ParquetFile,
    pieces: Iterable[Piece],
    wanted: list[str],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields rows of a range, with the number of the first.

    Args:
      source: its limits hold.
      byte_range: of the file.
      file, parquet: the file, as ``opened`` gives it.
      pieces: of the file.
      wanted: names of the columns to read.

    Yields:
      The number of a batch's first row in the file, from 1; the rows, in the file's types.

    Raises:
      DataError: the data are damaged, or exceed a limit.
    """
    groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
    own = [piece for piece in pieces if byte_range.start <= piece.first_byte < byte_range.end]
    coded = _Coded(file, parquet, wanted, [piece.group for piece in own])
    for piece in own:
        _check_ratio(source, byte_range.file, groups[piece.group], piece.group)
        row = 1 + sum(group.num_rows for group in groups[: piece.group])
        batches = coded.batches(source, byte_range.file, piece.group, row)
        for start, batch in _between(batches, piece.start, piece.stop):
            yield row + start, batch


def _between(
    batches: Iterable[pa.RecordBatch], first: int, stop: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows from ``first`` to before ``stop``.

    Each batch comes with the number of its first row. Batches after ``stop`` are not read.
    """
    start = 0
    for batch in batches:
        begin, end = max(first - start, 0), min(stop - start, batch.num_rows)
        if begin < end:
            yield start + begin, batch.slice(begin, end - begin)
        start += batch.num_rows
        if start >= stop:
            return
    if start < stop:
        raise OSError(f"a row group has {start:,} rows, and {stop:,} by the footer")


class _Coded:
    """The columns to read of one range, whose decoded size is checked."""

    def __init__(
        self, file: BinaryIO, parquet: pq.ParquetFile, wanted: list[str], numbers: Sequence[int]
    ) -> None:
        self._parquet, self._wanted, self._batch_rows = parquet, wanted, 0
        names = set(wanted)
        tops = {
            path: _top_column(path, names)
            for path in parquet_columns.dictionary_columns(parquet.metadata, numbers)
        }
        paths = [path for path, top in tops.items() if top is not None]
        self._names = {top for top in tops.values() if top is not None}
        self._with_dictionaries = _open(file, parquet.metadata, read_dictionary=paths)
        self._int96 = parquet_columns.int96_columns(parquet.metadata, wanted)
        self._nanoseconds = _open(file, parquet.metadata, unit="ns") if self._int96 else None
        self._compressed = self._decoded = 0

    def batches(
        self, source: Source, file: FileInfo, number: int, first_row: int
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group, a chunk at a time.

        Args:
          source, file: for limits and messages.
          number: of the row group.
          first_row: number of its first row in the file.

        Raises:
          DataError: its dictionaries stand for more than the limit, or a timestamp of 96 bits has a
            part of a microsecond.
        """
        group = self._parquet.metadata.row_group(number)
        coded_rows = functools.partial(
            self._with_dictionaries.iter_batches,
            row_groups=[number],
            columns=sorted(self._names),
            use_threads=False,
        )
        self._compressed += sum(
            group.column(place).total_compressed_size for place in range(group.num_columns)
        )
        longest = (
            parquet_columns.longest_row(next(coded_rows(1)), group)
            if self._names and group.num_rows
            else 0
        )
        if exceeds_ratio(source.limits, self._compressed, self._decoded + longest * group.num_rows):
            sizes = map(parquet_columns.row_bytes, coded_rows(MAX_CHUNK_ROWS))
            self._check(
                source, file, number, self._decoded + sum(int(size.sum()) for size in sizes)
            )
        if longest * min(group.num_rows, SAMPLE_ROWS) <= _BUFFERED_BYTES:
            self._batch_rows = self._batch_rows or _batch_rows(self._parquet, number, self._wanted)
        rows = self._batch_rows or SAMPLE_ROWS
        if longest * min(group.num_rows, rows) <= _BUFFERED_BYTES:
            for batch in self._read(self._parquet, file, number, first_row, rows):
                self._grow(
                    source, file, number, sum(batch.column(name).nbytes for name in self._names)
                )
                yield batch
            return
        for batch in self._read(self._with_dictionaries, file, number, first_row, rows):
            self._grow(source, file, number, int(parquet_columns.row_bytes(batch).sum()))
            yield from parquet_columns.decode(batch, self._parquet.schema_arrow, CHUNK_BYTES)

    def _read(
        self, parquet: pq.ParquetFile, file: FileInfo, number: int, first_row: int, rows: int
    ) -> Iterator[pa.RecordBatch]:
        batches = parquet.iter_batches(rows, [number], self._wanted, use_threads=False)
        if self._nanoseconds is None:
            yield from batches
            return
        exact = self._nanoseconds.iter_batches(rows, [number], self._int96, use_threads=False)
        for batch, nanoseconds in zip(batches, exact, strict=True):
            parquet_columns.check_microseconds(file.path, first_row, batch, nanoseconds)
            first_row += batch.num_rows
            yield batch

    def _grow(self, source: Source, file: FileInfo, number: int, size_bytes: int) -> None:
        self._decoded += size_bytes
        self._check(source, file, number, self._decoded)

    def _check(self, source: Source, file: FileInfo, number: int, decoded: int) -> None:
        if exceeds_ratio(source.limits, self._compressed, decoded):
            which = ", ".join(f"'{name}'" for name in sorted(self._names))
            where = (
                f"{file.path}, row group {number}, "
                f"{'columns' if len(self._names) > 1 else 'column'} {which}"
            )
            raise DataError(f"{where}: {ratio_exceeded(source.limits, self._compressed, decoded)}")


def _top_column(path: str, names: Collection[str]) -> str | None:
    """Returns the one of ``names`` that has a column's path, or ``None``.

    A column's own name may have dots, too.
    """
    parts = path.split(".")
    beginnings = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return next((name for name in beginnings if name in names), None)


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, pq.ParquetFile]]:
    """Opens a file for the body.

    Raises:
      DataError: it cannot be opened, or is damaged.
    """
    with open_whole(path) as file, damaged.explained(path, "Parquet"):
        metadata = pq.read_metadata(file)
        check_columns(file, metadata)
        yield file, _open(file, metadata)


def _open(
    file: BinaryIO, metadata: Any, unit: str = "us", read_dictionary: Sequence[str] = ()
) -> pq.ParquetFile:
    """Opens a file whose metadata are known.

    Args:
      file: open.
      metadata: of it.
      unit: of timestamps of 96 bits.
      read_dictionary: paths of columns that stay as their dictionary has them.
    """
    return pq.ParquetFile(
        file,
        metadata=metadata,
        buffer_size=_buffer_bytes(metadata),
        pre_buffer=False,
        read_dictionary=list(read_dictionary),
        coerce_int96_timestamp_unit=unit,
        page_checksum_verification=True,
    )


def top_columns(plan: SourcePlan, schema: pa.Schema) -> list[str]:
    """Returns the file's own columns that hold the flat ones to read."""
    wanted = set(plan.read_schema.names)
    return [
        field.name
        for field in schema
        if wanted.intersection(flat.name for flat in nested.flatten_fields([field]))
    ]


def _check_ratio(source: Source, file: FileInfo, group: Any, number: int) -> None:
    """Raises ``DataError`` if a column grows beyond the limit when decompressed.

    The sizes are those that the file states.
    """
    for place in range(group.num_columns):
        column = group.column(place)
        sizes = (column.total_compressed_size, column.total_uncompressed_size)
        if exceeds_ratio(source.limits, *sizes):
            where = f"{file.path}, row group {number}, column '{column.path_in_schema}'"
            raise DataError(f"{where}: {ratio_exceeded(source.limits, *sizes)}")


def _buffer_bytes(metadata: Any) -> int:
    """Returns how many bytes of a column are read at a time.

    It is all of a row group (0), unless the groups are large.
    """
    sizes = (
        metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
    )
    is_large = max(sizes, default=0) > _BUFFERED_BYTES
    return (
        max(_LEAST_BUFFER_BYTES, _BUFFERED_BYTES // max(1, metadata.num_columns)) if is_large else 0
    )


def _batch_rows(parquet: pq.ParquetFile, number: int, wanted: list[str]) -> int:
    """Returns how many rows of a row group make a chunk.

    It goes by the size of the first ones, because the file states encoded sizes.
    """
    group = parquet.metadata.row_group(number)
    size = group.total_byte_size / max(1, group.num_rows)
    if group.num_rows > SAMPLE_ROWS:
        first = next(parquet.iter_batches(SAMPLE_ROWS, [number], wanted, use_threads=False))
        size = max(size, first.nbytes / max(1, first.num_rows))
    return max(1, min(MAX_CHUNK_ROWS, int(CHUNK_BYTES / max(1, size))))
