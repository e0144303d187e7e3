"""The TFRecord format: framing, reading and checking.

A record, all little-endian::

  length (uint64) · masked CRC-32C of it (uint32) · data · masked CRC-32C of the data (uint32)

The mask is ``rotate_right(crc, 15) + 0xa282ead8``. Source: tensorflow/core/lib/io/record_writer.h.

A compressed file is one gzip or zlib stream. Never several gzip members: TensorFlow 2.21 can lose
what follows the end of one (docs/decisions.md).
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Generator, Iterator
from typing import Any, BinaryIO, Literal

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from beam_pipelines.core import _native
from beam_pipelines.core.binary_arrays import by_length, byte_lengths, offsets_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.tfrecord.record_block import FOOTER_BYTES, HEADER_BYTES, RecordBlock

Compression = Literal["gzip", "zlib", "none"]

SUFFIX_FOR_COMPRESSION: dict[str, str] = {
    "gzip": ".tfrecord.gz",
    "zlib": ".tfrecord.zlib",
    "none": ".tfrecord",
}
READ_BYTES = 4 << 20
_SMALL_BYTES = 64 << 10
_GZIP_BITS, _ZLIB_BITS = 31, 15


def frame(examples: pa.BinaryArray | pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Frames each value as a TFRecord record. No nulls are allowed.

    Returns:
      A large_binary array of the same length; its data buffer is a valid TFRecord file.
    """
    if _native.KERNELS_AVAILABLE:
        return _native.frame(examples)
    if not len(examples):
        return pa.array([], pa.large_binary())
    headers = by_length(byte_lengths(examples), _header)
    footers = masked(crc32c_of(examples))
    offsets = np.arange(0, 4 * len(footers) + 1, 4, dtype=np.int64)
    tails = pa.Array.from_buffers(
        pa.large_binary(),
        len(footers),
        [None, pa.py_buffer(offsets), pa.py_buffer(footers.astype("<u4"))],
    )
    large = pa.large_binary()
    return pc.binary_join_element_wise(
        headers.cast(large), examples.cast(large), tails, pa.scalar(b"", large)
    )


def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + struct.pack(
        "<I", int(masked(np.array([google_crc32c.value(size)], np.uint32))[0])
    )


def crc32c_of(values: pa.BinaryArray | pa.LargeBinaryArray) -> npt.NDArray[np.uint32]:
    """Returns the CRC-32C of each value. The loop over values runs in C (``map`` of C
    functions).
    """
    offsets = offsets_of(values)
    data = values.buffers()[2].slice(offsets[0], offsets[-1] - offsets[0]).to_pybytes()
    bounds = (offsets - offsets[0]).tolist()
    slices = map(slice, bounds[:-1], bounds[1:])
    return np.fromiter(
        map(google_crc32c.value, map(bytes.__getitem__, itertools.repeat(data), slices)),
        np.uint32,
        len(values),
    )


def masked(crc: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Returns masked CRCs, as TFRecord stores them."""
    result: npt.NDArray[np.uint32] = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(
        0xA282EAD8
    )
    return result


def compression_of(path: str) -> Compression:
    """Returns the compression that a file's suffix stands for."""
    if path.endswith(".gz"):
        return "gzip"
    return "zlib" if path.endswith(".zlib") else "none"


def read_chunks(file: BinaryIO, path: str, compression: str) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in chunks of a few MiB.

    Raises:
      DataError: the compressed stream is damaged or ends early; what comes before the damage is
        yielded.
    """
    if compression == "none":
        yield from iter(lambda: file.read(READ_BYTES), b"")
        return
    bits = _GZIP_BITS if compression == "gzip" else _ZLIB_BITS
    stream, data, given = None, file.read(READ_BYTES), 0
    while data or (stream and not stream.eof):
        stream = stream or isal_zlib.decompressobj(bits)
        try:
            chunk = stream.decompress(data, READ_BYTES)
        except isal_zlib.error as error:
            position = yield from _chunks_to_damage(file, bits, given)
            raise DataError(
                f"{path}: found damaged {compression} data at byte {position:,} of the file "
                f"({error}): write it again."
            ) from error
        if chunk:
            given += len(chunk)
            yield chunk
        if stream.eof:  # what follows is another member, by another writer
            data = stream.unused_data or file.read(READ_BYTES)
            stream = None
        elif len(chunk) == READ_BYTES:  # there may be more, even of no further input
            data = stream.unconsumed_tail
        else:
            data = stream.unconsumed_tail or file.read(READ_BYTES)
            if not data:
                raise DataError(
                    f"{path}: the {compression} stream ends early. The file is truncated: write it "
                    "again."
                )


def _chunks_to_damage(file: BinaryIO, bits: int, given: int) -> Generator[bytes, None, int]:
    """Yields what a damaged file gives up to the damage, in small chunks, but for the bytes that
    were given before.

    isal takes and gives megabytes at a time, and gives nothing of those with damage in them.

    Returns:
      The byte of the file at which it shows.
    """
    file.seek(0)
    stream, position, rest, is_damaged = zlib.decompressobj(bits), 0, b"", False
    while not is_damaged and (data := rest or file.read(_SMALL_BYTES)):
        before = stream.copy()
        try:
            found, rest = stream.decompress(data), stream.unused_data
            position += len(data) - len(rest)
        except zlib.error:
            found, passed = _bytes_to_damage(before, data)
            position, is_damaged = position + passed, True
        if stream.eof:
            stream = zlib.decompressobj(bits)
        if len(found) > given:
            yield found[given:]
        given = max(0, given - len(found))
    return position


def _bytes_to_damage(stream: Any, data: bytes) -> tuple[bytes, int]:
    """Decompresses byte by byte. Returns what comes out until that fails, and how many bytes go
    in.
    """
    chunks = []
    for number in range(len(data)):
        try:
            chunks.append(stream.decompress(data[number : number + 1]))
        except zlib.error:
            return b"".join(chunks), number
    return b"".join(chunks), len(data)


def read_record_blocks(
    file: BinaryIO, path: str, compression: str, limits: Limits | None = None
) -> Iterator[RecordBlock]:
    """Yields a TFRecord file's records, some MiB at a time, each checked against both of its CRCs.

    Args:
      file: opened for reading in binary mode, not decompressed.
      path: names the file in errors.
      compression: ``gzip``, ``zlib`` or ``none``.
      limits: of the recipe; ``None``, for files of our own, does without.

    Raises:
      DataError: a record is longer than the limit, a CRC does not match or the file ends within a
        record; names the file, the record (from 0) and the offset of the record in the decompressed
        data.
    """
    rest, offset, number = b"", 0, 0
    chunks = read_chunks(file, path, compression)
    while True:
        try:
            chunk = next(chunks, None)
        except DataError as error:
            where = f"{path}, record {number}, offset {offset}"
            raise DataError(f"{where}: {str(error).removeprefix(f'{path}: ')}") from error
        if chunk is None:
            break
        data = rest + chunk if rest else chunk
        starts = _record_starts(data, path, number, offset)
        if limits is not None:
            _check_lengths(np.append(starts, len(data)), limits, path, number, offset)
        records = RecordBlock(data, starts)
        if len(records):
            yield records
        end = int(starts[-1])
        rest = data[end:]
        offset += end
        number += len(records)
    if rest:
        raise DataError(
            f"{path}, record {number}, offset {offset}: the file ends within a record ({len(rest)} "
            "bytes left). "
            "It is truncated: write it again."
        )


def _check_lengths(
    edges: npt.NDArray[np.int64], limits: Limits, path: str, number: int, offset: int
) -> None:
    """Raises ``DataError`` if a record between two edges, or what is there of the last one, is
    longer than the limit.
    """
    most = HEADER_BYTES + limits.line_bytes + FOOTER_BYTES
    if edges[-1] <= most:
        return
    long = np.flatnonzero(np.diff(edges) > most)
    if len(long):
        first = int(long[0])
        message = exceeded(
            limits, "line_bytes", f"a record of more than {limits.line_bytes:,} bytes"
        )
        raise DataError(
            f"{path}, record {number + first}, offset {offset + edges[first]}: {message}"
        )


def _record_starts(data: bytes, path: str, number: int, offset: int) -> npt.NDArray[np.int64]:
    """Returns where each whole record begins, and where the first incomplete one does; all CRCs are
    checked.
    """
    if _native.KERNELS_AVAILABLE:
        try:
            return _native.unframe(data)
        except _native.DamagedRecordError as error:
            raise _damaged(
                path, number + error.number, offset + error.offset, error.part
            ) from error
    starts, is_whole = _frame_starts(data)
    found = (
        np.frombuffer(data, np.uint8)[(starts[1:] - FOOTER_BYTES)[:, None] + np.arange(4)]
        .copy()
        .view("<u4")
    )
    actual = np.fromiter(
        map(google_crc32c.value, RecordBlock(data, starts)), np.uint32, len(starts) - 1
    )
    if (wrong := np.flatnonzero(found[:, 0] != masked(actual))).size:
        first = int(wrong[0])
        raise _damaged(path, number + first, offset + int(starts[first]), "data")
    if not is_whole:
        raise _damaged(path, number + len(starts) - 1, offset + int(starts[-1]), "length")
    return starts


def _frame_starts(data: bytes) -> tuple[npt.NDArray[np.int64], bool]:
    """Returns the same up to the first length whose CRC does not match, and whether there is none;
    checks no other CRCs.
    """
    starts, position, end = [0], 0, len(data)
    unpack, crc32c = struct.Struct("<QI").unpack_from, google_crc32c.value
    known: dict[int, int] = {}  # length -> masked CRC of its header
    while (
        position + HEADER_BYTES <= end
    ):  # sequential by nature: each length says where the next one is
        length, crc = unpack(data, position)
        expected = known.get(length)
        if expected is None:
            value = crc32c(data[position : position + 8])
            expected = known[length] = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
        if crc != expected:
            return np.array(starts, np.int64), False
        position += HEADER_BYTES + length + FOOTER_BYTES
        if position > end:
            break
        starts.append(position)
    return np.array(starts, np.int64), True


def _damaged(path: str, number: int, offset: int, part: str) -> DataError:
    cure = (
        "it is not a TFRecord file with this compression" if part == "length" else "write it again"
    )
    joint = ", or" if part == "length" else ":"
    return DataError(
        f"{path}, record {number}, offset {offset}: the CRC of the {part} does not match. The file "
        f"is damaged{joint} {cure}."
    )
