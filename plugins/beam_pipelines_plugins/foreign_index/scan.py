"""Finds the parts of a TFRecord file by reading it once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.compression import Compression
from beam_pipelines.dataset.shard_records import read_row_groups
from beam_pipelines.reader.row_groups import batch_of
from beam_pipelines.sinks.parquet.rows import value_bytes
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.tfrecord.part_index import PartColumns, Restarts
from beam_pipelines.tfrecord.record_block import RecordBlock, part_edges
from beam_pipelines_plugins.foreign_index.restart_points import InflatedFile, find_blocks

# Parts of uncompressed files.
PART_BYTES = 256 << 10


class Scanned(NamedTuple):
    """The parts of one file; the shard of all is 0.

    Attributes:
      columns: of the parts.
      restarts: where deflate streams begin; ``None`` without compression.
      sizes: int64[records], of each framed record; ``None`` with compression.
    """

    columns: PartColumns
    restarts: Restarts | None
    sizes: npt.NDArray[np.int64] | None

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.columns.rows.sum())


class _Part:
    """A part that grows, record by record."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.bytes = self.rows = self.crc32 = 0

    def add(self, data: memoryview, rows: int) -> None:
        """Adds framed records."""
        self.bytes += len(data)
        self.rows += rows
        self.crc32 = isal_zlib.crc32(data, self.crc32)


def scan_file(path: str, compression: Compression) -> Scanned:
    """Reads a local TFRecord file, checks its records, and finds its parts.

    Raises:
      DataError: the file is damaged, or a record crosses the end of a gzip member.
      RecipeError: a package is missing.
    """
    with open(path, "rb") as file:
        if compression == "none":
            return _scan_plain(file, path)
        inflated = InflatedFile(file, path, compression, find_blocks(path))
        return _scan_inflated(inflated, path)


def _blocks(file: BinaryIO, path: str) -> Iterator[tuple[int, RecordBlock]]:
    """Yields blocks of records, and the bytes before each."""
    start = 0
    for block in read_record_blocks(file, path, "none"):
        yield start, block
        start += int(block.starts[-1])


def _scan_plain(file: BinaryIO, path: str) -> Scanned:
    parts, sizes = [], [np.empty(0, np.int64)]
    for start, block in _blocks(file, path):
        data, starts = memoryview(block.data), block.starts
        edges = part_edges(block.frames(), PART_BYTES)
        sizes.append(np.diff(starts))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            parts.append(_Part(start + int(starts[first])))
            parts[-1].add(data[starts[first] : starts[end]], end - first)
    columns = _columns(parts, [part.start for part in parts], [part.bytes for part in parts])
    return Scanned(columns, None, np.concatenate(sizes))


def _scan_inflated(file: InflatedFile, path: str) -> Scanned:
    parts: dict[int, _Part] = {}
    for start, block in _blocks(cast("BinaryIO", file), path):
        data, starts = memoryview(block.data), block.starts
        points = np.array([point.inflated for point in file.points], np.int64)
        numbers = np.searchsorted(points, start + starts[:-1], side="right") - 1
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for first, end in zip(firsts, np.append(firsts[1:], len(block)), strict=True):
            number = int(numbers[first])
            part = parts.setdefault(number, _Part(start + int(starts[first])))
            part.add(data[starts[first] : starts[end]], int(end - first))
    found = list(parts.values())
    points_of_parts = [file.points[number] for number in parts]
    ends = np.array([part.start + part.bytes for part in found], np.int64)
    _check_members(path, file, found, ends)
    offsets = np.array([point.bit // 8 for point in points_of_parts], np.int64)
    sizes = file.compressed_end(ends) - offsets if found else ends
    restarts = Restarts(
        np.array([point.bit % 8 for point in points_of_parts], np.uint8),
        np.array(
            [
                part.start - point.inflated
                for part, point in zip(found, points_of_parts, strict=True)
            ],
            np.int64,
        ),
        pa.array([point.window for point in points_of_parts], pa.large_binary()),
    )
    return Scanned(_columns(found, offsets, sizes), restarts, None)


def _columns(parts: list[_Part], offsets: npt.ArrayLike, sizes: npt.ArrayLike) -> PartColumns:
    return PartColumns(
        np.zeros(len(parts), np.int32),
        np.array(offsets, np.int64),
        np.array(sizes, np.int64),
        np.array([part.bytes for part in parts], np.int64),
        np.array([part.rows for part in parts], np.int32),
        np.array([part.crc32 for part in parts], np.uint32),
    )


def _check_members(
    path: str, file: InflatedFile, parts: list[_Part], ends: npt.NDArray[np.int64]
) -> None:
    """Raises ``DataError`` if a record crosses the end of a member."""
    edges = np.array([*file.member_starts, np.iinfo(np.int64).max])
    starts = np.array([part.start for part in parts], np.int64)
    crosses = ends > edges[np.searchsorted(edges, starts, side="right")]
    if crosses.any():
        first = int(crosses.argmax())
        row = sum(part.rows for part in parts[: first + 1]) - 1
        raise DataError(
            f"{path}, record {row}: found a record that begins in one gzip member and ends in the "
            "next, expected whole records in each. The file can be read, but not indexed. Convert "
            "it, or compress it as one member."
        )


def scan_parquet(path: str) -> Scanned:
    """Returns the row groups of a shard as parts.

    Raises:
      DataError: the file is damaged, or its columns are not neighbours.
    """
    sizes = [sum(map(value_bytes, batch_of(rows).columns)) for rows in read_row_groups(path)]
    with files.open_read(path) as file:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: found a damaged footer ({error}).") from error
        places = [_place(footer.row_group(number)) for number in range(footer.num_row_groups)]
        crcs = []
        for offset, size in places:
            file.seek(offset)
            crcs.append(isal_zlib.crc32(file.read(size)))
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    table = np.array(places, np.int64).reshape(-1, 2)
    columns = PartColumns(
        shard=np.zeros(len(rows), np.int32),
        offset=table[:, 0].copy(),
        bytes=table[:, 1].copy(),
        framed_bytes=np.array(sizes, np.int64),
        rows=np.array(rows, np.int32),
        crc32=np.array(crcs, np.uint32),
    )
    return Scanned(columns, None, None)


def _place(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Returns offset and bytes of a row group."""
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [
        min(filter(None, (one.dictionary_page_offset, one.data_page_offset))) for one in columns
    ]
    return min(starts), sum(one.total_compressed_size for one in columns)
