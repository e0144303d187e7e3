"""Compresses the parts of a gzip or zlib stream in several threads.

Each part is a raw deflate stream that ends in a flush at a whole byte, not in a last block. A
header, the parts, an empty last block and a checksum are one stream with one member, as pigz writes
it. Parts are compressed independently, which costs hardly any size at several MiB.

Formats: RFC 1950 (zlib), RFC 1951 (deflate, 3.2.3 and 3.2.4), RFC 1952 (gzip).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import pyarrow as pa
from isal import isal_zlib
from zlib_ng import zlib_ng

from beam_pipelines.core.compression import Compression

# isal has levels up to 3; zlib-ng does the others, in two thirds of zlib's time for the same size
# (docs/decisions.md).
MAX_ISAL_LEVEL = 3
_RAW_BITS = -15
# gzip: magic, deflate, no flags, no time, no extra flags, unknown system. zlib: deflate with a
# window of 32 KiB, and a check.
_HEADER = {"gzip": b"\x1f\x8b\x08\x00" + bytes(5) + b"\xff", "zlib": b"\x78\x01", "none": b""}
# The checksum of no data.
_START = {"gzip": 0, "zlib": 1, "none": 0}
# An empty last block of fixed codes.
_LAST_BLOCK = b"\x03\x00"
_ADLER_MODULUS = 65_521


class Part(NamedTuple):
    """A part of a stream.

    Attributes:
      data: compressed bytes.
      size: number of uncompressed bytes.
      checksum: of the uncompressed bytes: CRC-32 for gzip, Adler-32 for zlib, else 0.
    """

    data: bytes | pa.Buffer
    size: int
    checksum: int


class Stream:
    """A stream so far, with its checksum and size.

    Both are of the uncompressed data.
    """

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._checksum = _START[compression]
        self.size = 0

    def start(self) -> bytes:
        """Returns the bytes before the first part."""
        return _HEADER[self._compression]

    def add(self, part: Part) -> None:
        """Adds a part, in the order of the parts."""
        self.size += part.size
        if self._compression == "gzip":
            self._checksum = isal_zlib.crc32_combine(self._checksum, part.checksum, part.size)
        elif self._compression == "zlib":
            self._checksum = combine_adler32(self._checksum, part.checksum, part.size)

    def end(self) -> bytes:
        """Returns the bytes after the last part."""
        if self._compression == "gzip":
            return _LAST_BLOCK + struct.pack("<II", self._checksum, self.size & 0xFFFFFFFF)
        return (
            _LAST_BLOCK + struct.pack(">I", self._checksum) if self._compression == "zlib" else b""
        )


def combine_adler32(first: int, second: int, second_size: int) -> int:
    """Returns the Adler-32 of two concatenated byte strings from their own.

    Source: RFC 1950, section 8.2; its sums start at 1 and 0.
    """
    ones, sums = first & 0xFFFF, first >> 16
    more_ones, more_sums = second & 0xFFFF, second >> 16
    # Each sum over the second string lacks the bytes of the first.
    sums = (sums + more_sums + second_size * (ones - 1)) % _ADLER_MODULUS
    return sums << 16 | (ones + more_ones - 1) % _ADLER_MODULUS


def compress_part(compression: Compression, level: int, data: pa.Buffer) -> Part:
    """Compresses one part of a stream.

    Without compression or data, the part is ``data`` itself. Levels 0 to 3 are isal's, 4 to 9
    zlib-ng's. Equal data give equal bytes on processors of one kind.
    """
    if compression == "none" or not data.size:
        return Part(data, data.size, _START[compression])
    checksum = isal_zlib.crc32(data) if compression == "gzip" else isal_zlib.adler32(data)
    compressor = isal_zlib if level <= MAX_ISAL_LEVEL else zlib_ng
    part = compressor.compressobj(level, compressor.DEFLATED, _RAW_BITS)
    return Part(part.compress(data) + part.flush(compressor.Z_SYNC_FLUSH), data.size, checksum)
