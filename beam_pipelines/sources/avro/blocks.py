"""The header and the blocks of an Avro file.

A file is a header, which ends in 16 random bytes, and blocks, each followed by these. So a reader
finds the first block behind any place.
"""

from __future__ import annotations

import bz2
import json
import lzma
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

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
# Codec -> maker of a decompressor that takes a limit.
_DECOMPRESSORS: Mapping[str, Callable[[], Any]] = {
    "deflate": lambda: isal_zlib.decompressobj(_RAW_BITS),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
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


def decompresses(codec: str) -> bool:
    """Whether ``decompress`` knows a codec; fastavro knows others."""
    return codec == "null" or codec in _DECOMPRESSORS


def decompress(codec: str, data: bytes, most: int) -> bytes | None:
    """Returns a block's records, at most ``most`` bytes and one; else ``None``."""
    if not decompresses(codec):
        return None
    if codec == "null":
        return data
    found: bytes = _DECOMPRESSORS[codec]().decompress(data, most + 1)
    return found


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
