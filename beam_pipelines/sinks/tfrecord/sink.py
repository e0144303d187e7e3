"""Writes TFRecord files: one stream of parts that are compressed alone.

A part has whole records. It is a raw deflate stream that ends in a flush at a whole byte, not in a
last block. A header, the parts, an empty last block and a checksum are one stream with one member,
as pigz writes it. So a reader of the stream needs no index, and a reader with one
(``part_index.py``) reads any part alone.

Formats: RFC 1950 (zlib), RFC 1951 (deflate, 3.2.3 and 3.2.4), RFC 1952 (gzip).
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib
from zlib_ng import zlib_ng

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import byte_lengths, data_of, offsets_of
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.sinks import Settings, Written
from beam_pipelines.tfrecord.framing import framed_records, part_edges
from beam_pipelines.tfrecord.part_index import PartColumns

# Neighbouring parts of a stream: records, their size before compression, checksums of it (Adler-32
# for zlib only), and the compressed bytes.
PARTS = pa.schema(
    [
        ("rows", pa.int32()),
        ("framed_bytes", pa.int64()),
        ("crc32", pa.uint32()),
        ("adler32", pa.uint32()),
        ("data", pa.large_binary()),
    ]
)
# The levels up to this one are alike: the kernel's, or without kernels isal's level 1. zlib-ng does
# the others, in two thirds of zlib's time for the same size (docs/decisions.md).
MAX_FAST_LEVEL = 3
_RAW_BITS = -15
# gzip: magic, deflate, no flags, no time, no extra flags, unknown system. zlib: deflate with a
# window of 32 KiB, and a check.
_HEADER = {"gzip": b"\x1f\x8b\x08\x00" + bytes(5) + b"\xff", "zlib": b"\x78\x01", "none": b""}
# The checksum of no data.
_START = {"gzip": 0, "zlib": 1, "none": 0}
# An empty last block of fixed codes.
_LAST_BLOCK = b"\x03\x00"
_ADLER_MODULUS = 65_521


class DeflateStream:
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

    def add(self, parts: pa.RecordBatch) -> None:
        """Adds parts, a batch of ``PARTS``, in their order."""
        sizes = parts.column("framed_bytes").to_pylist()
        self.size += sum(sizes)
        if self._compression == "none":
            return
        is_gzip = self._compression == "gzip"
        combine = isal_zlib.crc32_combine if is_gzip else combine_adler32
        checksums = parts.column("crc32" if is_gzip else "adler32").to_pylist()
        for checksum, size in zip(checksums, sizes, strict=True):
            self._checksum = combine(self._checksum, checksum, size)

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


def compress_parts(
    compression: Compression, level: int, records: pa.LargeBinaryArray, part_size: int
) -> pa.RecordBatch:
    """Compresses framed records in parts of a stream.

    Levels 0 to 3 are the kernel's, whose bytes are the same on every processor. Levels 4 to 9 are
    zlib-ng's.

    Args:
      compression, level: of the stream.
      records: without nulls.
      part_size: most bytes of a part's records; a longer record is a part of its own.

    Returns:
      A batch of ``PARTS``.
    """
    data, edges = data_of(records), part_edges(records, part_size)
    starts = offsets_of(records)[edges]
    starts -= starts[0]
    framed = [data.slice(*bounds) for bounds in zip(starts[:-1], np.diff(starts), strict=True)]
    stored = _compress(level, _array_of(data, starts)) if compression != "none" else None
    adler32s = [isal_zlib.adler32(part) if compression == "zlib" else 0 for part in framed]
    columns = [
        np.diff(edges),
        np.diff(starts),
        np.array([isal_zlib.crc32(part) for part in framed], np.uint32),
        np.array(adler32s, np.uint32),
    ]
    arrays = [pa.array(own, field.type) for own, field in zip(columns, PARTS, strict=False)]
    return pa.record_batch(
        [*arrays, _array_of(data, starts) if stored is None else stored], schema=PARTS
    )


def _compress(level: int, parts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    if level <= MAX_FAST_LEVEL:
        return _native.deflate(parts)
    compressed = []
    for part in parts:
        stream = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _RAW_BITS)
        compressed.append(stream.compress(part.as_buffer()) + stream.flush(zlib_ng.Z_SYNC_FLUSH))
    ends = np.cumsum([0, *map(len, compressed)], dtype=np.int64)
    return _array_of(pa.py_buffer(b"".join(compressed)), ends)


def _array_of(data: pa.Buffer, ends: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    offsets = pa.py_buffer(np.ascontiguousarray(ends))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, [None, offsets, data])


class TFRecordFile:
    """A file of framed records."""

    def __init__(self, file: BinaryIO, settings: Settings) -> None:
        self._file, self._stream = file, DeflateStream(settings.output.compression)
        self._start = len(self._stream.start())
        self._written: list[pa.RecordBatch] = []
        file.write(self._stream.start())

    def add(self, prepared: pa.RecordBatch) -> int:
        """Writes parts, a batch of ``PARTS``, and returns their rows."""
        self._stream.add(prepared)
        data = prepared.column("data")
        self._file.write(data_of(data))
        sizes = pa.array(byte_lengths(data))
        self._written.append(prepared.set_column(len(PARTS) - 1, "bytes", sizes))
        return pc.sum(prepared.column("rows")).as_py() or 0

    def close(self) -> Written:
        """Ends the stream."""
        self._file.write(self._stream.end())
        sizes, rows = self._joined("bytes", np.int64), self._joined("rows", np.int32)
        parts = PartColumns(
            np.zeros(len(sizes), np.int32),
            self._start + np.cumsum(sizes) - sizes,
            sizes,
            self._joined("framed_bytes", np.int64),
            rows,
            self._joined("crc32", np.uint32),
        )
        return Written(int(rows.sum()), self._stream.size, parts)

    def _joined(self, name: str, type_: type) -> np.ndarray:
        values = [batch.column(name).to_numpy() for batch in self._written]
        return np.concatenate([*values, np.empty(0, type_)]).astype(type_)


class TFRecordSink:
    """Serializes, frames and compresses rows."""

    def prepare(
        self, batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, settings: Settings
    ) -> pa.RecordBatch:
        """Returns a partition's parts, a batch of ``PARTS``."""
        output, records = settings.output, pa.array([], pa.large_binary())
        if batch.num_columns:
            records = framed_records(batch, order, output.record, settings.lists)
        return compress_parts(output.compression, output.level, records, output.part_size)

    def open(self, file: BinaryIO, settings: Settings) -> TFRecordFile:
        """Begins a file."""
        return TFRecordFile(file, settings)


SINK = TFRecordSink()
