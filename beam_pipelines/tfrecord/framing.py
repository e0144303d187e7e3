"""Reads and checks TFRecord records, and parts of shards.

A record, all little-endian::

  length (uint64) · masked CRC-32C of it (uint32) · data · masked CRC-32C of the data (uint32)

The mask is ``rotate_right(crc, 15) + 0xa282ead8``. Source: tensorflow/core/lib/io/record_writer.h.

A compressed file is one gzip or zlib stream, never several gzip members: TensorFlow 2.21 can lose
data after the end of one (docs/decisions.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import igzip_lib, isal_zlib

from beam_pipelines.core import _native
from beam_pipelines.core._native.shared import FOOTER_BYTES, HEADER_BYTES, masked_crc
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.tfrecord.part_index import PartIndex


class RecordBlock(Sequence[bytes]):
    """Serialized records, in order; a slice shares their bytes.

    Attributes:
      data: bytes of a TFRecord file.
      starts: int64[n + 1], the offset in ``data`` of each of the n frames, and the end of the last
        one.
    """

    def __init__(self, data: bytes, starts: npt.NDArray[np.int64]) -> None:
        """Takes frames with checked CRCs."""
        self.data = data
        self.starts = starts

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> RecordBlock: ...

    def __getitem__(self, place: int | slice) -> bytes | RecordBlock:
        """Returns a record, or a slice of neighbouring ones.

        Raises:
          IndexError: no record has the number.
          ValueError: a slice with a step.
        """
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError(f"found a step of {step}, expected neighbouring records")
            return RecordBlock(self.data, self.starts[start : max(start, stop) + 1])
        number = range(len(self))[place]
        return self.data[
            self.starts[number] + HEADER_BYTES : self.starts[number + 1] - FOOTER_BYTES
        ]

    def __iter__(self) -> Iterator[bytes]:
        """Yields each record. The loop runs in C (``map`` of C functions)."""
        heads, tails = self.starts[:-1] + HEADER_BYTES, self.starts[1:] - FOOTER_BYTES
        return map(
            bytes.__getitem__,
            itertools.repeat(self.data),
            map(slice, heads.tolist(), tails.tolist()),
        )

    @property
    def framed_bytes(self) -> int:
        """The number of bytes of all frames."""
        return int(self.starts[-1] - self.starts[0])

    def frames(self) -> pa.LargeBinaryArray:
        """Returns the frames as n values of an array, without copying.

        The array has no nulls.
        """
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.starts)), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


def part_edges(records: pa.LargeBinaryArray, part_size: int) -> npt.NDArray[np.int64]:
    """Returns the first record of each part, and the number of records."""
    offsets, edges = offsets_of(records), [0]
    while edges[-1] < len(records):
        start = edges[-1]
        end = int(np.searchsorted(offsets, offsets[start] + part_size, side="right")) - 1
        edges.append(max(end, start + 1))
    return np.array(edges, np.int64)


def framed_records(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64] | None,
    record: str | None,
    lists: Collection[str] = (),
) -> pa.LargeBinaryArray:
    """Returns one TFRecord record for each row.

    Args:
      batch: features as columns.
      rows: rows in the order of the records; ``None``: all.
      record: the column whose values are the records, or ``None``.
      lists: names of feature lists; with any, records are tf.SequenceExamples, else tf.Examples.

    Raises:
      DataError: a null in the column ``record``.
    """
    if record is None:
        return _native.serialize(batch, rows, lists)
    values = (batch if rows is None else take_rows(batch, rows)).column(record)
    if values.null_count:
        raise DataError(missing_records(record, values.null_count))
    return _native.frame(values.cast(pa.binary()))


def missing_records(record: str, nulls: int) -> str:
    """Returns the message for rows with a null as their record."""
    return (
        f"output.record '{record}': found {nulls:,} rows without a value, expected none; nothing "
        f"was written. Leave them out with 'filter: {record} IS NOT NULL'."
    )


READ_BYTES = 4 << 20
_LENGTH_BYTES = 8
_GZIP_BITS, _ZLIB_BITS = 31, 15


def is_header(data: bytes) -> bool:
    """Whether data begin with a record's length and the CRC of it."""
    length = data[:_LENGTH_BYTES]
    return data[_LENGTH_BYTES:HEADER_BYTES] == masked_crc(length) and len(data) >= HEADER_BYTES


def is_zlib(data: bytes) -> bool:
    """Whether data begin with a header of zlib (RFC 1950)."""
    return len(data) > 1 and data[0] & 0x8F == 0x08 and int.from_bytes(data[:2], "big") % 31 == 0


def read_chunks(file: BinaryIO, path: str, compression: str) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in chunks.

    A chunk has at most ``READ_BYTES``, and is made of as many
    compressed bytes or fewer.

    Raises:
      DataError: the compressed stream is damaged or ends early; the chunks before the damage are
        yielded first.
    """
    if compression == "none":
        yield from iter(lambda: file.read(READ_BYTES), b"")
        return
    bits = _GZIP_BITS if compression == "gzip" else _ZLIB_BITS
    stream, data = None, file.read(READ_BYTES)
    while data or (stream and not stream.eof):
        stream = stream or isal_zlib.decompressobj(bits)
        try:
            chunk = stream.decompress(data, READ_BYTES)
        except isal_zlib.error as error:
            raise DataError(
                f"{path}: found damaged {compression} data here, or in the next 4 MiB ({error}): "
                "write it again."
            ) from error
        if chunk:
            yield chunk
        if stream.eof:  # another member follows, by another writer
            data = stream.unused_data or file.read(READ_BYTES)
            stream = None
        elif len(chunk) == READ_BYTES:  # there may be more output without more input
            data = stream.unconsumed_tail
        else:
            data = stream.unconsumed_tail or file.read(READ_BYTES)
            if not data:
                raise DataError(
                    f"{path}: the {compression} stream ends early. The file is truncated: write it "
                    "again."
                )


def read_record_blocks(
    file: BinaryIO, path: str, compression: str, limits: Limits | None = None
) -> Iterator[RecordBlock]:
    """Yields a TFRecord file's records, in blocks of whole records.

    Both CRCs of each record are checked.

    Args:
      file: opened for reading in binary mode, not decompressed.
      path: names the file in errors.
      compression: ``gzip``, ``zlib`` or ``none``.
      limits: of the recipe; ``None`` for files of this package.

    Raises:
      DataError: a record is longer than the limit, a CRC does not match or the file ends within a
        record; names the file, the record (from 0) and the offset of the record in the decompressed
        data.
    """
    number, offset, rest = 0, 0, b""
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
        starts = starts_of(data, path, number, offset)
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
            "bytes left). It is truncated: write it again."
        )


def _check_lengths(
    edges: npt.NDArray[np.int64], limits: Limits, path: str, number: int, offset: int
) -> None:
    """Raises ``DataError`` if a record is longer than the limit.

    Checks the records between two edges.
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


def starts_of(
    data: bytes | pa.Buffer, path: str, number: int, offset: int
) -> npt.NDArray[np.int64]:
    """Returns the starts of whole records and of the first incomplete one.

    Raises:
      DataError: a CRC does not match.
    """
    try:
        return _native.unframe(data)
    except _native.DamagedRecordError as error:
        raise _damaged(path, number + error.number, offset + error.offset, error.part) from error


def _damaged(path: str, number: int, offset: int, part: str) -> DataError:
    cure = (
        "it is not a TFRecord file with this compression" if part == "length" else "write it again"
    )
    joint = ", or" if part == "length" else ":"
    return DataError(
        f"{path}, record {number}, offset {offset}: the CRC of the {part} does not match. The file "
        f"is damaged{joint} {cure}."
    )


# An empty last block of fixed codes; a part has no last block (sinks/tfrecord/sink.py).
LAST_BLOCK = b"\x03\x00"


def inflate_part(index: PartIndex, part: int, data: bytes) -> bytes:
    """Returns a part's framed records from its bytes in the file.

    Raises:
      ValueError: these are not the bytes that the index is of; says why.
    """
    columns, framed_bytes = index.columns, int(index.columns.framed_bytes[part])
    if len(data) != columns.bytes[part]:
        raise ValueError(f"found {len(data):,} bytes, expected {columns.bytes[part]:,}")
    try:
        if index.compression == "none":
            found = data
        else:
            found = igzip_lib.decompress(
                data + LAST_BLOCK, igzip_lib.DECOMP_DEFLATE, bufsize=framed_bytes
            )
    except (isal_zlib.error, EOFError) as error:
        raise ValueError(f"found damaged {index.compression} data ({error})") from error
    if len(found) != framed_bytes:
        raise ValueError(f"found {len(found):,} bytes of records, expected {framed_bytes:,}")
    checksum, expected = isal_zlib.crc32(found), int(columns.crc32[part])
    if checksum != expected:
        raise ValueError(f"found records with CRC-32 {checksum:08x}, expected {expected:08x}")
    return found
