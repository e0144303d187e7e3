"""Writes Parquet files: a row group for each part."""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.layout.compression import PARQUET_COMPRESSION
from beam_pipelines.core.limits import MIB
from beam_pipelines.sinks import Settings, Written
from beam_pipelines.sinks.parquet.rows import ordered_rows, value_bytes, with_fixed_sizes
from beam_pipelines.tfrecord.part_index import PartColumns

# Bytes of values in a row group: as many rows as a few parts of TFRecords. A footer has some
# hundred bytes for each column of each group.
GROUP_BYTES = 2 * MIB


class _Tracked:
    """A file that is written once, with its position.

    Attributes:
      crc32: of the bytes since it was set to 0.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.position, self.crc32 = file, 0, 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Writes bytes behind the others."""
        self._file.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        self.position += len(data)
        return len(data)

    def tell(self) -> int:
        """Returns the number of bytes so far."""
        return self.position

    def flush(self) -> None:
        """Does nothing: the owner of the file flushes it."""

    def close(self) -> None:
        """Leaves the file to its owner."""
        self.closed = True

    def writable(self) -> bool:
        """Whether it is written."""
        return True

    def readable(self) -> bool:
        """Whether it is read."""
        return False

    def seekable(self) -> bool:
        """Whether other places than the end are written."""
        return False


def _leaf(column: pa.Field) -> tuple[str, pa.DataType]:
    """Returns the path and the type of the values of a column."""
    path, type_ = column.name, column.type
    while pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        path, type_ = f"{path}.list.element", type_.value_type
    return path, type_


class ParquetFile:
    """A file of row groups.

    Integers are written as differences of few bits, in which a compressor finds nothing. Other
    values are compressed by zstd and have no dictionaries: they take less time and fewer bytes.
    Only files in the order of the source have the extremes of columns: with shuffled rows, no query
    could leave out a row group by them.
    """

    def __init__(self, file: BinaryIO, settings: Settings) -> None:
        self._columns = settings.columns or pa.schema([])
        self._tracked = _Tracked(file)
        self._buffered = pa.BufferedOutputStream(pa.PythonFile(self._tracked, mode="w"), MIB)
        leaves = dict(map(_leaf, self._columns))
        integers = {path for path, type_ in leaves.items() if pa.types.is_integer(type_)}
        self._writer = pq.ParquetWriter(
            self._buffered,
            self._columns,
            compression={
                path: "none" if path in integers else PARQUET_COMPRESSION for path in leaves
            },
            compression_level=dict.fromkeys(leaves.keys() - integers, 1),
            use_dictionary=False,
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            write_statistics=not settings.output.shuffle,
        )
        self._buffered.flush()  # the magic number is not of the first row group
        self._rows = 0
        # Offset, bytes, bytes of values, rows and CRC-32 of each row group.
        self._parts: list[tuple[int, int, int, int, int]] = []

    def add(self, prepared: pa.RecordBatch) -> int:
        """Writes rows of ``ordered_rows`` as row groups, and returns their number."""
        rows: int = prepared.num_rows
        if not rows:
            return 0
        size = sum(map(value_bytes, prepared.columns))
        edges = np.linspace(0, rows, min(rows, max(1, round(size / GROUP_BYTES))) + 1).astype(int)
        fixed = with_fixed_sizes(prepared, self._columns)
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            own = prepared.slice(start, end - start)
            self._write_group(fixed.slice(start, end - start), sum(map(value_bytes, own.columns)))
        self._rows += rows
        return rows

    def _write_group(self, rows: pa.RecordBatch, size: int) -> None:
        tracked = self._tracked
        begin, tracked.crc32 = tracked.position, 0
        self._writer.write_table(pa.Table.from_batches([rows]), row_group_size=rows.num_rows)
        self._buffered.flush()
        length = tracked.position - begin
        self._parts.append((begin, length, size, rows.num_rows, tracked.crc32))

    def close(self) -> Written:
        """Writes the footer."""
        self._writer.close()
        self._buffered.flush()
        table = np.array(self._parts, np.int64).reshape(-1, 5)
        parts = PartColumns(
            shard=np.zeros(len(table), np.int32),
            offset=table[:, 0].copy(),
            bytes=table[:, 1].copy(),
            framed_bytes=table[:, 2].copy(),
            rows=table[:, 3].astype(np.int32),
            crc32=table[:, 4].astype(np.uint32),
        )
        return Written(self._rows, int(parts.framed_bytes.sum()), parts)


class ParquetSink:
    """Writes rows as columns."""

    def prepare(
        self, batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, settings: Settings
    ) -> pa.RecordBatch:
        """Returns rows in their order, with the dataset's types.

        Raises:
          DataError: a row has another number of values than its feature's shape.
        """
        rows = ordered_rows(batch, order, settings.columns)
        with_fixed_sizes(rows, settings.columns)
        return rows

    def open(self, file: BinaryIO, settings: Settings) -> ParquetFile:
        """Begins a file."""
        return ParquetFile(file, settings)


SINK = ParquetSink()
