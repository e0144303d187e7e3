"""The header and the blocks of an Avro file.

A file is a header, which ends in 16 random bytes, and blocks, each followed by these. So a reader
finds the first block behind any place.
"""

from __future__ import annotations

import bz2
import contextlib
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.limits import MIB

SYNC_BYTES = 16
_MAGIC = b"Obj\x01"
_MOST_VARINT = 10
_MOST_HEADER_BYTES = 16 * MIB
# A block is decoded as a whole.
MOST_BLOCK_BYTES = 256 * MIB
_SEARCHED_BYTES = MIB
_RAW_BITS = -15
_CHECKSUM_BYTES = 4
# Most bytes of the size that a block of Snappy begins with.
_SIZE_BYTES = 5


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
    size = 0
    for place, byte in enumerate(data[:_SIZE_BYTES]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    found = _raw("snappy", data[:-_CHECKSUM_BYTES], size, most)
    if zlib.crc32(found) != int.from_bytes(data[-_CHECKSUM_BYTES:], "big"):
        raise ValueError("a block has another checksum than it states")
    return found


def _lz4(data: bytes, most: int) -> bytes:
    """Returns a block of LZ4, which has its size before it."""
    size, body = int.from_bytes(data[:4], "little"), data[4:]
    found = _raw("lz4_raw", body, size, most)
    # pyarrow fills up with zeros what a cut block lacks: a whole one does not fit into less.
    with contextlib.suppress(pa.ArrowException, OSError):
        pa.decompress(body, size - 1, "lz4_raw")
        raise ValueError("a block has fewer bytes than it states")
    return found


def _raw(codec: str, data: bytes, size: int, most: int) -> bytes:
    if size > most:
        raise TooLargeError(size)
    return bytes(pa.decompress(data, size, codec).to_pybytes())


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


class Block(NamedTuple):
    """Some records.

    Attributes:
      start: offset in the file.
      rows: number of records, as the file says.
      data: its bytes, compressed.
      end: offset of the next block.
    """

    start: int
    rows: int
    data: bytes
    end: int


def read_header(file: BinaryIO) -> Header:
    """Reads the header of a file.

    Raises:
      ValueError: it is damaged, or no Avro file; says why.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("found no Avro file, which begins with 'Obj' and 1")
    found: dict[bytes, bytes] = {}
    while count := _read_long(file):
        if count < 0:
            _read_long(file)
        for _ in range(abs(count)):
            key = _read_bytes(file)
            found[key] = _read_bytes(file)
            if file.tell() > _MOST_HEADER_BYTES:
                raise ValueError(f"found a header of more than {_MOST_HEADER_BYTES:,} bytes")
    sync = file.read(SYNC_BYTES)
    if len(sync) < SYNC_BYTES or b"avro.schema" not in found:
        raise ValueError("the header ends early, or has no schema")
    codec = found.get(b"avro.codec", b"null").decode("ascii")
    return Header(json.loads(found[b"avro.schema"]), codec, sync, file.tell())


def first_block(file: BinaryIO, header: Header, start: int, end: int) -> int:
    """Returns the offset of a range's first block, or ``end``."""
    if start <= header.end:
        return header.end
    place, rest = start - SYNC_BYTES, b""
    file.seek(place)
    while place + len(rest) < end and (data := file.read(_SEARCHED_BYTES)):
        data = rest + data
        found = data.find(header.sync)
        if found >= 0:
            return min(end, place + found + SYNC_BYTES)
        rest = data[-(SYNC_BYTES - 1) :]
        place += len(data) - len(rest)
    return end


def read_blocks(
    file: BinaryIO, header: Header, start: int, end: int, with_data: bool = True
) -> Iterator[Block]:
    """Yields the blocks that begin in [start, end).

    Args:
      file: of the header.
      header: of the file.
      start: offset of a block.
      end: of the range.
      with_data: reads the bytes of blocks; otherwise they are passed over.

    Raises:
      ValueError: a block is damaged; says where.
    """
    while start < end:
        file.seek(start)
        try:
            rows, size = _read_long(file), _read_long(file)
        except EOFError:
            if file.tell() == start:
                return
            raise
        if rows < 0 or not 0 <= size <= MOST_BLOCK_BYTES:
            raise ValueError(
                f"found a block of {rows:,} records and {size:,} bytes at byte {start:,}, expected "
                f"at most {MOST_BLOCK_BYTES:,} bytes"
            )
        data = file.read(size) if with_data else b""
        if not with_data:
            file.seek(size, 1)
        if len(data) != size * with_data or file.read(SYNC_BYTES) != header.sync:
            raise ValueError(f"the block at byte {start:,} does not end where it says")
        yield Block(start, rows, data, file.tell())
        start = file.tell()


def decompress(codec: str, data: bytes, most: int) -> bytes:
    """Returns a block's records; stops where there are more than ``most`` bytes.

    Raises:
      TooLargeError: the block states that it has more.
      ValueError: the codec is unknown, or the block is damaged.
    """
    if codec not in _DECOMPRESS:
        raise ValueError(f"the codec '{codec}' is none of {', '.join(_DECOMPRESS)}")
    return _DECOMPRESS[codec](data, most)


def container(header: Header, schema: Any, codec: str, blocks: list[tuple[int, bytes]]) -> bytes:
    """Returns a file of some blocks.

    Args:
      header: of the file that they are of.
      schema: to write.
      codec: of the blocks.
      blocks: number of records, and bytes.
    """
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(_bytes(key) + _bytes(value) for key, value in metadata.items())
    parts = [_MAGIC, _long(len(metadata)), entries, _long(0), header.sync]
    for rows, data in blocks:
        parts += [_long(rows), _bytes(data), header.sync]
    return b"".join(parts)


def _read_long(file: BinaryIO) -> int:
    """Returns a zigzag varint of 64 bits."""
    value = 0
    for place in range(_MOST_VARINT):
        byte = file.read(1)
        if not byte:
            raise EOFError("the file ends within a number")
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("found a number of more than 64 bits")


def _read_bytes(file: BinaryIO) -> bytes:
    size = _read_long(file)
    if not 0 <= size <= _MOST_HEADER_BYTES:
        raise ValueError(f"found {size:,} bytes in the header")
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the header ends early")
    return data


def _long(value: int) -> bytes:
    value = value << 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value
