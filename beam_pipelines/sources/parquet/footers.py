"""Checks footers of Parquet files before pyarrow reads them.

``metadata.row_group(…).column(…)`` ends the process with an exception of C++ where the sizes or
histograms of a damaged column contradict each other. A reader raises for the same column. So one
is made on a file that cannot be read: it looks at each column, and ends at the first byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from beam_pipelines.sources.parquet.pieces import first_byte

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
