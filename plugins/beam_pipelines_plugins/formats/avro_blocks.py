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
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

import cramjam
import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB

_SYNC_BYTES = 16
# A header or a block is read as a whole.
_MOST_BYTES = 256 * MIB
_RAW_BITS = -15
_CHECKSUM_BYTES = 4


class TooLargeError(Exception):
    """A block with more bytes than it may have.

    Its arguments are the block's offset, its bytes in the file, and its bytes when it is
    decompressed, as far as they are known.
    """


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


class AvroFile:
    """An open file.

    Attributes:
      schema: as JSON data; values are read by it.
      codec: of the blocks.
      sync: the bytes behind each block.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        """Reads the header.

        Args:
          file: that is open.
          path: of the file, for messages.

        Raises:
          DataError: the codec is unknown.
          ValueError: the header is damaged; and what fastavro raises.
        """
        import fastavro  # takes 30 ms

        self._file = file
        file.seek(0)
        metadata = fastavro.block_reader(cast("Any", _Bytes(file))).metadata
        file.seek(file.tell() - _SYNC_BYTES)
        self.sync = file.read(_SYNC_BYTES)
        self.schema: Any = json.loads(metadata["avro.schema"])
        self.codec = metadata.get("avro.codec", "null")
        if self.codec not in _DECOMPRESS:
            raise DataError(
                f"{path}: found blocks of the codec '{self.codec}', expected one of "
                f"{', '.join(_DECOMPRESS)}. Write the file with one of these."
            )

    def blocks(self, most: Callable[[int], int]) -> Iterator[Any]:
        """Yields fastavro's blocks, decompressed.

        Args:
          most: returns how many bytes a block of so many compressed ones may have.

        Raises:
          TooLargeError: a block has more.
          ValueError: a block is damaged; and what fastavro and the codec raise.
        """
        import fastavro

        # A header that says 'null', so that fastavro leaves blocks as they are.
        made, start = io.BytesIO(), self._file.tell()
        fastavro.writer(made, self.schema, [], sync_marker=self.sync)
        blocks: Any = fastavro.block_reader(cast("Any", _Bytes(self._file, made.getvalue())))
        for block in blocks:
            if block.num_records < 0:
                raise ValueError(f"the block at byte {start:,} has {block.num_records:,} records")
            data = block.bytes_.getvalue()
            bound = most(len(data))
            found = _DECOMPRESS[self.codec](data, bound)
            size = found if isinstance(found, int) else len(found)
            if isinstance(found, int) or size > bound:
                raise TooLargeError(start, len(data), size)
            block.bytes_, block.offset = io.BytesIO(found), start
            yield block
            start = self._file.tell()
        if self._file.tell() != start:
            raise EOFError("the file ends within a number")


def _snappy(data: bytes, most: int) -> bytes | int:
    """Returns a block of Snappy, which has its size and a checksum."""
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if (size := cramjam.snappy.decompress_raw_len(body)) > most:
        return size
    found = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("a block has another checksum than it states")
    return found


def _zstandard(data: bytes, most: int) -> bytes:
    """Returns a block of Zstandard, which need not say its size."""
    found = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while len(found) <= most and (part := stream.read(MIB)):
            found += part
    return bytes(found)


# Codec -> what decompresses a block. Beyond the limit it stops, with more bytes than that, or
# returns the size that the block states.
_DECOMPRESS: dict[str, Callable[[bytes, int], bytes | int]] = {
    "null": lambda data, _: data,
    "deflate": lambda data, most: isal_zlib.decompressobj(_RAW_BITS).decompress(data, most + 1),
    "bzip2": lambda data, most: bz2.BZ2Decompressor().decompress(data, most + 1),
    "xz": lambda data, most: lzma.LZMADecompressor().decompress(data, most + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
}
