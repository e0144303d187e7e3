"""The header and the blocks of an Avro file, read by fastavro.

A file is a header, which ends in 16 random bytes, and blocks, each followed by these. Blocks are
decompressed here, within a limit, which fastavro does not know.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, cast

import cramjam
import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.limits import MIB

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
# A header or a block is read as a whole.
_MOST_BYTES = 256 * MIB
_RAW_BITS = -15
_CHECKSUM_BYTES = _SIZE_BYTES = 4

DAMAGED = (lzma.LZMAError, isal_zlib.error, pa.ArrowException, cramjam.DecompressionError)


class Header(NamedTuple):
    """The header of a file.

    Attributes:
      schema: as JSON data.
      codec: of the blocks.
      sync: the bytes behind each block.
      end: offset of the first block.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int


class _Bytes:
    """Bytes before those of a file, in pieces of bounded size."""

    def __init__(self, file: BinaryIO, before: bytes = b"") -> None:
        self._file, self._before = file, io.BytesIO(before)
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        """Returns the next bytes; fastavro asks for a header's ones by themselves."""
        if not 0 <= size <= _MOST_BYTES:
            raise ValueError(f"found {size:,} bytes in one piece, expected at most {_MOST_BYTES:,}")
        return self._before.read(size) or self._file.read(size)


def read_header(file: BinaryIO) -> Header:
    """Reads the header of a file.

    Raises:
      ValueError: it is damaged, or no Avro file; and what fastavro raises.
    """
    import fastavro  # takes 30 ms

    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("found no Avro file, which begins with 'Obj' and 1")
    file.seek(0)
    metadata = fastavro.block_reader(cast("Any", _Bytes(file))).metadata
    end = file.tell()
    file.seek(end - _SYNC_BYTES)
    schema, codec = json.loads(metadata["avro.schema"]), metadata.get("avro.codec", "null")
    return Header(schema, codec, file.read(_SYNC_BYTES), end)


def first_block(file: BinaryIO, header: Header, start: int, end: int) -> int:
    """Returns the offset of a range's first block, or ``end``."""
    if start <= header.end:
        return header.end
    place, rest = start - _SYNC_BYTES, b""
    file.seek(place)
    while place + len(rest) < end and (data := file.read(MIB)):
        data = rest + data
        found = data.find(header.sync)
        if found >= 0:
            return min(end, place + found + _SYNC_BYTES)
        rest = data[-(_SYNC_BYTES - 1) :]
        place += len(data) - len(rest)
    return end


def read_blocks(file: BinaryIO, header: Header, start: int, end: int) -> Iterator[Any]:
    """Yields fastavro's blocks that begin in [start, end), still compressed.

    Raises:
      ValueError: a block is damaged; and what fastavro raises.
    """
    import fastavro

    # A header that says 'null', so that fastavro leaves blocks as they are.
    made = io.BytesIO()
    fastavro.writer(made, header.schema, [], sync_marker=header.sync)
    file.seek(start)
    joined = cast("Any", _Bytes(file, made.getvalue()))
    found = fastavro.block_reader(joined, handle_unicode_errors="surrogateescape")
    while start < end and (block := next(found, None)) is not None:
        if block.num_records < 0:
            raise ValueError(f"the block at byte {start:,} has {block.num_records:,} records")
        yield block
        start = file.tell()
    if start < end and file.tell() != start:
        raise EOFError("the file ends within a number")


def container(header: Header, blocks: list[tuple[int, bytes]]) -> bytes:
    """Returns a file of blocks, numbers of records and bytes."""
    metadata = {
        b"avro.schema": json.dumps(header.schema).encode(),
        b"avro.codec": header.codec.encode(),
    }
    entries = b"".join(_bytes(key) + _bytes(value) for key, value in metadata.items())
    parts = [_MAGIC, _long(len(metadata)), entries, _long(0), header.sync]
    for rows, data in blocks:
        parts += [_long(rows), _bytes(data), header.sync]
    return b"".join(parts)


def _long(value: int) -> bytes:
    value, parts = value << 1, bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


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
