"""Checks footers of Parquet files, and cuts row groups for ranges.

``metadata.row_group(…).column(…)`` ends the process with an exception of C++ where the sizes or
histograms of a damaged column contradict each other. A reader raises for the same column. So one
is made on a file that cannot be read: it looks at each column, and ends at the first byte.

A row group is the least that Parquet's reader can find. It decodes a group from its first row on,
so to read the second half of a group, it decodes the first half too: a twentieth of the CPU time of
a conversion. A file that pandas writes has one group for a million rows, which one worker would
read alone. So the large groups of a source with few of them are cut in two halves.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow.parquet as pq

from beam_pipelines.sources.plan import RANGE_BYTES

# A source with more row groups keeps enough workers busy.
_FEW_GROUPS = 3


class Piece(NamedTuple):
    """Consecutive rows of a row group.

    Attributes:
      first_byte: in the file; the range that has it reads the rows.
      group: number of the row group.
      start, stop: the rows within the group, from 0, ``stop`` not included.
    """

    first_byte: int
    group: int
    start: int
    stop: int


def pieces_of(metadata: Any, files: int = 0) -> Iterator[Piece]:
    """Yields the pieces of a file, in order.

    Args:
      metadata: of the file.
      files: number of files in the source; 0: no group is cut.
    """
    cuts = 0 < files * metadata.num_row_groups <= _FEW_GROUPS
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        first, rows = first_byte(group), group.num_rows
        size = _compressed_bytes(group) if cuts else 0
        if size < 2 * RANGE_BYTES or rows < 2:
            yield Piece(first, number, 0, rows)
        else:
            yield Piece(first, number, 0, rows // 2)
            yield Piece(first + size // 2, number, rows // 2, rows)


def first_byte(group: Any) -> int:
    """Returns where a row group's first column begins in its file.

    Each range looks at all groups, so only one column is looked at.
    """
    column = group.column(0)
    return int(
        min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    )


def _compressed_bytes(group: Any) -> int:
    columns = map(group.column, range(group.num_columns))
    return int(sum(column.total_compressed_size for column in columns))


# Readers of columns take bytes when they need them, if they have a buffer.
_BUFFER_BYTES = 4096


class _ReadError(Exception):
    """The footer is fine, and data would be read."""


class _NoData(io.RawIOBase):
    """A file of a size, whose content cannot be read."""

    def __init__(self, size: int) -> None:
        self._size, self._place = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        raise _ReadError(size)


# Digests of footers that are fine: a process opens a file for each of its ranges.
_fine: set[bytes] = set()
_MOST_FINE = 10_000
_END_BYTES = 8  # size of the footer and a magic number


def check_columns(file: BinaryIO, metadata: Any) -> None:
    """Checks what a footer says of its row groups.

    Args:
      file: open.
      metadata: of it.

    Raises:
      OSError: a column is damaged.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - metadata.serialized_size - _END_BYTES))
    key = hashlib.sha256(file.read()).digest()
    if key in _fine:
        return
    parquet = pq.ParquetFile(
        _NoData(size), metadata=metadata, buffer_size=_BUFFER_BYTES, pre_buffer=False
    )
    for number in range(metadata.num_row_groups if metadata.num_columns else 0):
        with contextlib.suppress(_ReadError):
            next(parquet.iter_batches(1, [number], use_threads=False), None)
        # No range would read it.
        first = first_byte(metadata.row_group(number))
        if not 0 <= first < size:
            raise OSError(f"row group {number} begins at byte {first:,} of {size:,}")
    if len(_fine) >= _MOST_FINE:
        _fine.clear()
    _fine.add(key)
