"""Finds the parts of a TFRecord file by reading it once."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from isal import igzip_lib, isal_zlib

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.dataset.shard_records import read_row_groups
from beam_pipelines.reader.row_groups import batch_of
from beam_pipelines.sinks.parquet.sink import value_bytes
from beam_pipelines.sinks.tfrecord.sink import DeflateStream
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.framing import LAST_BLOCK, part_edges, read_record_blocks, starts_of
from beam_pipelines.tfrecord.part_index import PartColumns

# Parts of uncompressed files.
PART_BYTES = 256 << 10
# The empty stored block behind a part, and how often its bytes may be in one.
_FLUSH, _MOST_TRIES = re.compile(rb"\0\0\xff\xff"), 16
_RAW = igzip_lib.DECOMP_DEFLATE


class Scanned(NamedTuple):
    """The parts of one file; the shard of all is 0.

    Attributes:
      columns: of the parts.
      sizes: int64[records], of each framed record; ``None`` of compressed files and Parquet.
    """

    columns: PartColumns
    sizes: npt.NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.columns.rows.sum())


class _Part(NamedTuple):
    """Place, stored bytes, size, records and CRC-32 of a part."""

    offset: int
    bytes: int
    framed_bytes: int
    rows: int
    crc32: int


def scan_file(path: str, compression: Compression) -> Scanned:
    """Reads a local TFRecord file, checks its records, and finds its parts.

    Raises:
      DataError: the file is damaged, or compressed by another writer.
    """
    with open(path, "rb") as file:
        if compression == "none":
            return _scan_plain(file, path)
        return Scanned(_columns(list(_compressed_parts(file, path, compression))))


def _scan_plain(file: BinaryIO, path: str) -> Scanned:
    parts, sizes, offset = [], [np.empty(0, np.int64)], 0
    for block in read_record_blocks(file, path, "none"):
        data, starts = memoryview(block.data), block.starts
        edges = part_edges(block.frames(), PART_BYTES)
        sizes.append(np.diff(starts))
        for first, end in itertools.pairwise(edges.tolist()):
            own = data[starts[first] : starts[end]]
            place, size = offset + int(starts[first]), len(own)
            parts.append(_Part(place, size, size, end - first, isal_zlib.crc32(own)))
        offset += int(starts[-1])
    return Scanned(_columns(parts), np.concatenate(sizes))


def _compressed_parts(file: BinaryIO, path: str, compression: Compression) -> Iterator[_Part]:
    """Yields the parts of a shard, which end in a flush.

    Raises:
      DataError: another program compressed the file, or it is damaged.
    """
    data = file.read()
    stream = DeflateStream(compression)
    start, rows, size, tries = len(stream.start()), 0, 0, 0
    for flush in _FLUSH.finditer(data):
        # Bytes within a part may look like its end.
        tries += 1
        with contextlib.suppress(isal_zlib.error, EOFError):
            framed = igzip_lib.decompress(data[start : flush.end()] + LAST_BLOCK, _RAW)
            starts = starts_of(framed, path, rows, size)
            if starts[-1] == len(framed) > 0:
                part = _Part(
                    start,
                    flush.end() - start,
                    len(framed),
                    len(starts) - 1,
                    isal_zlib.crc32(framed),
                )
                yield part
                start, rows, size, tries = (
                    flush.end(),
                    rows + part.rows,
                    size + part.framed_bytes,
                    0,
                )
        if tries > _MOST_TRIES:
            break
    if len(data) - start != len(stream.end()):
        raise DataError(
            f"{path}, byte {start:,}: found {compression} data without the parts of this package, "
            "or damaged. Convert again with --overwrite."
        )


def _columns(parts: list[_Part]) -> PartColumns:
    table = np.array(parts, np.int64).reshape(-1, len(_Part._fields))
    offsets, sizes, framed, rows, crcs = table.T.copy()
    numbers = np.zeros(len(parts), np.int32)
    return PartColumns(
        numbers, offsets, sizes, framed, rows.astype(np.int32), crcs.astype(np.uint32)
    )


def scan_parquet(path: str) -> Scanned:
    """Returns the row groups of a shard as parts.

    Raises:
      DataError: the file is damaged, or its columns are not neighbours.
    """
    sizes = [sum(map(value_bytes, batch_of(rows).columns)) for rows in read_row_groups(path)]
    parts = []
    with files.open_read(path) as file:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: found a damaged footer ({error}).") from error
        for number, framed in enumerate(sizes):
            group = footer.row_group(number)
            offset, size = _place(group)
            file.seek(offset)
            crc32 = isal_zlib.crc32(file.read(size))
            parts.append(_Part(offset, size, framed, group.num_rows, crc32))
    return Scanned(_columns(parts))


def _place(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Returns offset and bytes of a row group."""
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [
        min(filter(None, (one.dictionary_page_offset, one.data_page_offset))) for one in columns
    ]
    return min(starts), sum(one.total_compressed_size for one in columns)
