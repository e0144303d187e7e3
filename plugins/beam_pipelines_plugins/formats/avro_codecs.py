"""Decompresses blocks of Avro within a limit, which fastavro does not know."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping

import cramjam
import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.limits import MIB

_RAW_BITS = -15
_CHECKSUM_BYTES = _SIZE_BYTES = 4

DAMAGED = (lzma.LZMAError, isal_zlib.error, pa.ArrowException, cramjam.DecompressionError)


class TooLargeError(Exception):
    """A block that states more bytes than it may have.

    Attributes:
      size: the bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def _snappy(data: bytes, most: int) -> bytes:
    """Returns a block of Snappy, which has its size and a checksum."""
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if (size := cramjam.snappy.decompress_raw_len(body)) > most:
        raise TooLargeError(size)
    found = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("a block has another checksum than it states")
    return found


def _lz4(data: bytes, most: int) -> bytes:
    """Returns a block of LZ4, which has its size before it."""
    if (size := int.from_bytes(data[:_SIZE_BYTES], "little")) > most:
        raise TooLargeError(size)
    found = bytes(cramjam.lz4.decompress_block(data))
    if len(found) < size:
        raise ValueError("a block has fewer bytes than it states")
    return found


def _zstandard(data: bytes, most: int) -> bytes:
    """Returns a block of Zstandard, which need not say its size."""
    found, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while size <= most and (part := stream.read(MIB)):
            found.append(part)
            size += len(part)
    return b"".join(found)


# Codec -> what decompresses a block. Beyond the limit it stops, with more bytes than that.
_DECOMPRESS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _: data,
    "deflate": lambda data, most: isal_zlib.decompressobj(_RAW_BITS).decompress(data, most + 1),
    "bzip2": lambda data, most: bz2.BZ2Decompressor().decompress(data, most + 1),
    "xz": lambda data, most: lzma.LZMADecompressor().decompress(data, most + 1),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstandard": _zstandard,
}


def decompress(codec: str, data: bytes, most: int) -> bytes:
    """Returns a block's records; stops where there are more than ``most`` bytes.

    Raises:
      TooLargeError: the block states that it has more.
      ValueError: the codec is unknown, or the block is damaged; or one of ``DAMAGED``.
    """
    if codec not in _DECOMPRESS:
        raise ValueError(f"the codec '{codec}' is none of {', '.join(_DECOMPRESS)}")
    return _DECOMPRESS[codec](data, most)
