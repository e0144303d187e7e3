"""Files that are compressed as a whole: found by suffix, read as a stream, with a checksum of what lies on disk."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import google_crc32c
import pyarrow as pa

from beam_pipelines import files
from beam_pipelines.errors import DataError, Problem
from beam_pipelines.recipe import MIB, Source

COMPRESSION_FOR_SUFFIX = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
CODEC_FOR_COMPRESSION = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}


def compression_of(source: Source, path: str) -> str:
    """Returns ``gzip``, ``bzip2``, ``zstd`` or ``none``: what the recipe says, else what the suffix says."""
    if source.compression is not None:
        return source.compression
    return next((name for suffix, name in COMPRESSION_FOR_SUFFIX.items() if path.lower().endswith(suffix)), "none")


def no_zlib(source: Source) -> list[Problem]:
    """Returns a problem if the recipe names the one compression that text files cannot have."""
    if source.compression != "zlib":
        return []
    message = "zlib is for TFRecord files; text is compressed with gzip, bzip2 or zstd."
    return [Problem(("sources", source.name, "compression"), message)]


class Readable(Protocol):
    """What is needed of a file that is read from front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """Reads the next bytes, at most ``size`` if that is not negative."""


class ChecksummedFile(io.RawIOBase):
    """A file that is read from front to back, and the CRC-32C of all that was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc = google_crc32c.Checksum()

    def readable(self) -> bool:
        """Always: Arrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Reads the next bytes."""
        data = self._file.read(size)
        self._crc.update(data)
        return data

    def crc32c(self) -> int:
        """Reads what is left of the file and returns the checksum of all of it."""
        while self.read(MIB):
            pass
        return int.from_bytes(self._crc.digest(), "big")


def decompressed_blocks(file: Readable, path: str, compression: str, block_bytes: int) -> Iterator[bytes]:
    """Yields the decompressed bytes of an open file in blocks; never more than one block is held.

    Raises:
      DataError: the compressed data is damaged or cut off.
    """
    try:
        stream = decompressed(file, compression)
        while block := stream.read(block_bytes):
            yield block
    except OSError as error:
        raise DataError(
            f"{path}: found damaged {compression} data, expected a whole file: {error}. "
            "Get the file again, or set 'compression' of the source if it is compressed otherwise."
        ) from error


def decompressed(file: Readable, compression: str) -> Readable:
    """Returns what is read of an open file, decompressed; reading damaged data raises OSError."""
    if compression == "none":
        return file
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), CODEC_FOR_COMPRESSION[compression])  # type: ignore[no-any-return]


def read_head(path: str, compression: str, limit: int) -> bytes:
    """Returns the first ``limit`` decompressed bytes of a file, or all of it if it is shorter."""
    with files.open_read(path) as file:
        return next(decompressed_blocks(file, path, compression, limit), b"")
