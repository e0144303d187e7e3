"""Text files cut into bodies of whole records.

Plain files are read by ranges, compressed ones as a stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits, exceeded
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.zip_members import member_path
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.compression import (
    ChecksummedFile,
    compression_of,
    decompressed_blocks,
)
from beam_pipelines.sources.inference import SAMPLE_BYTES
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates
from beam_pipelines.sources.source_format import CHUNK_BYTES
from beam_pipelines.sources.text import documents, encodings, quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect, Positions

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MARKS = (BYTE_ORDER_MARK, *_UTF_16_MARKS)
# Lines that end in a newline, whatever they hold.
LINES = Dialect(NEWLINE, None)
NO_QUOTES: Positions = np.empty(0, np.int64)
# Byte -> whether it is none of the characters that ``bytes.strip`` strips.
IS_FILLED = ~np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))


class Body(NamedTuple):
    """Some whole records.

    Attributes:
      offset: where they begin in the (decompressed) file, without the byte order mark.
      data: the records.
      begins_file: whether it has the file's first record.
      crc32c: checksum of the range's own bytes on disk, on the last body of a range.
    """

    offset: int
    data: bytes
    begins_file: bool = False
    crc32c: int | None = None


def is_stream(source: Source, path: str) -> bool:
    """Whether a file cannot be cut: its text is compressed or encoded."""
    is_encoded = encodings.transcoded_from(source) is not None
    is_changed = is_encoded or source.format == documents.DOCUMENTS
    return bool(member_path(path)) or is_changed or compression_of(source, path) != "none"


def as_utf8(source: Source, path: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Returns a file's text as UTF-8, JSON documents as lines."""
    encoding = encodings.transcoded_from(source)
    if encoding is not None:
        blocks = encodings.transcoded(blocks, path, encoding)
    return documents.as_lines(blocks, path) if source.format == documents.DOCUMENTS else blocks


def read_bodies(
    source: Source, byte_range: ByteRange, states: QuoteStates, dialect: Dialect
) -> Iterator[Body]:
    """Yields the records of one range, at least one body, in order."""
    path = byte_range.file.path
    compression = compression_of(source, path)
    with files.open_read(path) as file:
        if not is_stream(source, path):
            yield _cut_body(file, byte_range, states, dialect, source.limits)
            return
        checksummed = ChecksummedFile(file)
        blocks = decompressed_blocks(checksummed, path, compression, CHUNK_BYTES, source.limits)
        blocks = as_utf8(source, path, blocks)
        yield from stream_bodies(blocks, path, dialect, source.limits)
        yield Body(0, b"", crc32c=checksummed.crc32c())


def _cut_body(
    file: BinaryIO,
    byte_range: ByteRange,
    quote_states: QuoteStates,
    dialect: Dialect,
    limits: Limits,
) -> Body:
    """Reads the records that begin in a range.

    It reads the range without the end of a record before it, and with the rest of its last one.
    """
    path, size = byte_range.file.path, byte_range.file.size_bytes
    states = quote_states.get(path)
    if states is None:
        if dialect.quote is not None and (byte_range.start, byte_range.end) != (0, size):
            raise RuntimeError(
                f"{path}: range {byte_range.number} is read without the states of a scan for quotes"
            )
        states = bytes(byte_range.number_in_file + 2)  # OUTSIDE everywhere
    begin = quotes.record_start(
        file, path, byte_range.start, size, states[byte_range.number_in_file], dialect, limits
    )
    end = quotes.record_start(
        file, path, byte_range.end, size, states[byte_range.number_in_file + 1], dialect, limits
    )
    if begin >= end:
        return Body(
            begin,
            b"",
            crc32c=google_crc32c.value(read_exactly(file, path, byte_range.start, byte_range.end)),
        )
    # The checksum is of the range's own bytes, whose ends need not be those of records. Copying
    # them costs more than summing them.
    before = read_exactly(file, path, byte_range.start, begin)
    data = read_exactly(file, path, begin, end)
    crc32c = google_crc32c.value(before)
    for start, stop in itertools.pairwise(
        (*range(0, byte_range.end - begin, MIB), byte_range.end - begin)
    ):
        crc32c = google_crc32c.extend(crc32c, data[start:stop])
    return Body(*without_mark(begin, data, path), begins_file=byte_range.start == 0, crc32c=crc32c)


def scan_range(byte_range: ByteRange, dialect: Dialect) -> tuple[int, int, int]:
    """Reads a range and returns its transition (``quotes.transition``)."""
    with files.open_read(byte_range.file.path) as file:
        path, start = byte_range.file.path, byte_range.start
        previous = read_exactly(file, path, start - 1, start)[0] if start else NEWLINE
        data = read_exactly(file, path, start, byte_range.end)
    return quotes.transition(without_mark(start, data, path)[1], previous, dialect)


def read_exactly(file: BinaryIO, path: str, start: int, end: int) -> bytes:
    """Reads bytes [start, end).

    Raises:
      DataError: the file has become shorter since it was listed.
    """
    with files.reading(path):
        file.seek(start)
        data = file.read(end - start)
    if len(data) != end - start:
        raise DataError(
            f"{path}: found {start + len(data):,} bytes, expected at least {end:,} as when it was "
            "listed. Do not change sources while they are read; run again."
        )
    return data


def stream_bodies(
    blocks: Iterator[bytes], path: str, dialect: Dialect, limits: Limits
) -> Iterator[Body]:
    """Cuts a stream of blocks where records end.

    A block's incomplete last record is carried into the next body.

    Raises:
      DataError: a record is longer than the limit.
    """
    offset, waiting = without_mark(0, next(blocks, b""), path)
    begins_file = True
    for block in itertools.chain([b""], blocks):
        waiting = waiting + block if block else waiting
        toggles = quotes.toggling_quotes(waiting, OUTSIDE, NEWLINE, dialect)
        end = quotes.last_end(waiting, toggles, (0, len(waiting)), (b"\n",)) + 1
        if end:
            yield Body(offset, waiting[:end], begins_file)
            begins_file = False
            offset, waiting = offset + end, waiting[end:]
        elif len(waiting) > limits.line_bytes:
            raise DataError(
                f"{path}, after byte {offset:,} of the text: {quotes.endless_record(limits)}"
            )
    if waiting:
        yield Body(offset, waiting, begins_file)


def sample_bodies(
    source: Source, sampled: tuple[FileInfo, ...], dialect: Dialect
) -> Iterator[tuple[FileInfo, Body]]:
    """Yields the records to infer types from.

    They are the beginnings of the sampled files or, with ``infer: full``, all of them.
    """
    full = source.reads_all
    size = CHUNK_BYTES if full else SAMPLE_BYTES // len(sampled)
    for file in sampled:
        with files.open_read(file.path) as opened:
            compression = compression_of(source, file.path)
            blocks = decompressed_blocks(opened, file.path, compression, size, source.limits)
            first = next(blocks, b"")
            texts = as_utf8(source, file.path, itertools.chain([first], blocks))
            bodies = stream_bodies(texts, file.path, dialect, source.limits)
            # The first body of a longer file ends where a record does; a later one may not.
            cut = not full and len(first) == size
            for body in itertools.islice(bodies, 1) if cut else bodies:
                yield file, body


def without_mark(offset: int, data: bytes, path: str) -> tuple[int, bytes]:
    """Strips a UTF-8 byte order mark; returns the offset and the text.

    Raises:
      DataError: the mark is UTF-16's.
    """
    if offset:
        return offset, data
    if data.startswith(_UTF_16_MARKS):
        raise DataError(
            f"{path}: found UTF-16 text, expected UTF-8. Set 'encoding: utf-16' of the source."
        )
    length = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    return length, data[length:]


class LineNumbers:
    """Line numbers of one body, counted at the first call."""

    def __init__(self, source: Source, file: FileInfo, body: Body) -> None:
        self._source = source
        self._path = file.path
        self._body = body
        self._ends: Positions | None = None
        self._before = 0

    def line(self, position: int) -> int:
        """Returns the line, from 1, of a position in the body."""
        return int(self.lines(np.array([position]))[0])

    def lines(self, positions: Positions) -> Positions:
        """Returns the lines, from 1, of n positions in the body."""
        if self._ends is None:
            self._before = _count_lines(self._source, self._path, self._body.offset)
            self._ends = quotes.line_ends(self._body.data)
        found: Positions = 1 + self._before + np.searchsorted(self._ends, positions)
        return found


def check_lines(source: Source, file: FileInfo, body: Body, toggles: Positions = NO_QUOTES) -> None:
    """Checks that no record of a body is longer than the limit.

    Args:
      source, file, body: source, file and text of the records.
      toggles: the quotes in them that open or close.

    Raises:
      DataError: one is.
    """
    most = source.limits.line_bytes
    long = quotes.long_record(body.data, toggles, most)
    if long >= 0:
        line = LineNumbers(source, file, body).line(long)
        message = exceeded(source.limits, "line_bytes", f"a line of more than {most:,} bytes")
        raise DataError(f"{file.path}, line {line}: {message}")


def filled_lines(data: bytes) -> tuple[Positions, Positions]:
    """Returns where the lines that are not blank begin and end."""
    starts, ends = quotes.record_spans(data, NO_QUOTES)
    if not len(starts):
        return starts, ends
    filled = np.add.reduceat(IS_FILLED[np.frombuffer(data, np.uint8)], starts, dtype=np.int64) > 0
    return starts[filled], ends[filled]


def joined(data: bytes, starts: Positions, ends: Positions) -> bytes:
    """Returns some records, one after the other."""
    spans = map(slice, starts.tolist(), ends.tolist())
    return b"".join(map(memoryview(data).__getitem__, spans))


def _count_lines(source: Source, path: str, length: int) -> int:
    """Counts line ends in the first ``length`` bytes of a file's text."""
    count, after_return = 0, False
    with files.open_read(path) as file:
        blocks = decompressed_blocks(
            file, path, compression_of(source, path), 4 * MIB, source.limits
        )
        for block in as_utf8(source, path, blocks):
            if length <= 0:
                break
            part = block[:length]
            length -= len(part)
            count += part.count(b"\n") + part.count(b"\r") - part.count(b"\r\n")
            count -= after_return and part[:1] == b"\n"
            after_return = part.endswith(b"\r")
    return count


def is_utf8(data: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    whole = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    )
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
