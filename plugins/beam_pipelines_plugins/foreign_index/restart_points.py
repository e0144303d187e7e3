"""Finds places from which a deflate stream can be inflated.

A deflate block begins at any bit, and refers to the 32 KiB before it. So a *restart point* is the
place of a block's first bit, with these bytes. rapidgzip finds blocks; a new gzip member is such a
place, too.

Formats: RFC 1950 (zlib), RFC 1951 (deflate), RFC 1952 (gzip).
"""

from __future__ import annotations

import contextlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from beam_pipelines.core.errors import DataError, RecipeError

WINDOW_BYTES = 32 << 10
_READ_BYTES = 64 << 10
_BITS = {"gzip": 31, "zlib": 15}
_GZIP_HEADER_BYTES, _ZLIB_HEADER_BYTES = 10, 2
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16


class RestartPoint(NamedTuple):
    """A place to inflate from.

    Attributes:
      bit: its number in the file.
      inflated: number of inflated bytes before it.
      window: the last of these, as far as the stream may refer to them.
    """

    bit: int
    inflated: int
    window: bytes


def find_blocks(path: str) -> list[tuple[int, int]]:
    """Returns places of some deflate blocks: bit, inflated bytes before.

    They are some MiB apart.

    Raises:
      RecipeError: the package for it is not installed.
      DataError: the file cannot be read.
    """
    try:
        import rapidgzip
    except ImportError as error:
        raise RecipeError(
            f"{path}: an index of a compressed file needs another package. Install it: pip install "
            "'./plugins[index]' in a clone"
        ) from error
    try:
        with contextlib.closing(rapidgzip.open(path, parallelization=1)) as file:
            return sorted(file.block_offsets().items())
    except (ValueError, RuntimeError, OSError) as error:
        raise DataError(
            f"{path}: found damaged compressed data ({error}). Write the file again."
        ) from error


class InflatedFile:
    """A compressed file that is read inflated, and notes restart points.

    Attributes:
      points: those before the last inflated byte that was read, in order.
      member_starts: inflated bytes before each member.
    """

    def __init__(
        self, file: BinaryIO, path: str, compression: str, blocks: list[tuple[int, int]]
    ) -> None:
        self._file, self._path, self._compression = file, path, compression
        self._blocks = iter(blocks)
        self._next = next(self._blocks, None)
        self._stream: Any = None
        self._data = b""
        self._tail = b""
        self._read = self._inflated = 0
        self._passed: list[tuple[int, int]] = [(0, 0)]
        self.points: list[RestartPoint] = []
        self.member_starts: list[int] = []

    def read(self, size: int = -1) -> bytes:
        """Returns the next inflated bytes; empty at the end.

        Raises:
          DataError: the compressed data are damaged or end early.
        """
        while True:
            if not self._data:
                self._data = self._file.read(_READ_BYTES)
                self._read += len(self._data)
            if not self._data:
                if self._stream is not None:
                    raise self._damaged("the stream ends early")
                return b""
            if self._stream is None:
                self._begin_member()
            try:
                found: bytes = self._stream.decompress(self._data)
            except isal_zlib.error as error:
                raise self._damaged(str(error)) from error
            self._data = self._stream.unused_data
            if self._stream.eof:
                self._stream = None
            if found:
                self._note(found)
                return found

    def compressed_end(self, inflated: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns where reading may end for some inflated bytes.

        It is exact to ``_READ_BYTES``.
        """
        passed = np.array(self._passed, np.int64)
        found: npt.NDArray[np.int64] = passed[np.searchsorted(passed[:, 1], inflated), 0]
        return found

    def _begin_member(self) -> None:
        start = self._read - len(self._data)
        self._stream = isal_zlib.decompressobj(_BITS[self._compression])
        while (header := header_bytes(self._data, self._compression)) is None:
            more = self._file.read(_READ_BYTES)
            if not more:
                raise self._damaged("the stream ends early")
            self._read += len(more)
            self._data += more
        if self.points and self.points[-1].inflated == self._inflated:
            self.points.pop()  # of a member without data
            self.member_starts.pop()
        self.points.append(RestartPoint(8 * (start + header), self._inflated, b""))
        self.member_starts.append(self._inflated)

    def _note(self, found: bytes) -> None:
        """Notes the points within the next inflated bytes."""
        start, self._inflated = self._inflated, self._inflated + len(found)
        known = self._tail + found
        while self._next is not None and self._next[1] < self._inflated:
            bit, inflated = self._next
            if inflated > self.points[-1].inflated:
                end = inflated - start + len(self._tail)
                first = max(0, end - WINDOW_BYTES, end - (inflated - self.member_starts[-1]))
                self.points.append(RestartPoint(bit, inflated, known[first:end]))
            self._next = next(self._blocks, None)
        self._tail = known[-WINDOW_BYTES:]
        self._passed.append((self._read - len(self._data), self._inflated))

    def _damaged(self, reason: str) -> DataError:
        return DataError(
            f"{self._path}: found damaged {self._compression} data up to byte {self._read:,} of "
            f"the file ({reason}): write it again."
        )


def header_bytes(data: bytes, compression: str) -> int | None:
    """Returns the length of a member's header; ``None``: more data is needed."""
    if compression == "zlib":
        return _ZLIB_HEADER_BYTES
    if len(data) < _GZIP_HEADER_BYTES:
        return None
    flags, end = data[3], _GZIP_HEADER_BYTES
    if flags & _EXTRA:
        if len(data) < end + 2:
            return None
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = data.find(b"\0", end) + 1
            if not end:
                return None
    return end + 2 if flags & _HEADER_CRC else end
