"""Avro: blocks of records, cut at the bytes between them.

A file is a header, which ends in 16 random bytes, and blocks, each followed by these. So a reader
finds the first block behind any place.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import FREE_BYTES, MIB, Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import bad_rows, tables
from beam_pipelines.sources.archives.whole import open_whole
from beam_pipelines.sources.batch_files import BatchFiles, Opened, parts_of
from beam_pipelines.sources.checksums import tail_crc32c
from beam_pipelines.sources.format import QuoteStates, Rows, empty_batch
from beam_pipelines.sources.parquet.format import SAMPLE_ROWS, top_columns
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.formats import avro_codecs
from beam_pipelines_plugins.formats.avro_types import SchemaError, columns_of, plain

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
# A header or a block is read as a whole.
_MOST_BYTES = 256 * MIB
# Rows of Python objects at a time, which take some times the bytes of their columns.
_MOST_ROWS = 16_384
_NOT_OF_TYPE = (pa.ArrowException, ValueError, TypeError, OverflowError)
_DAMAGED = (
    *_NOT_OF_TYPE,
    *avro_codecs.DAMAGED,
    EOFError,
    LookupError,
    AttributeError,
    RecursionError,
    OSError,
    struct.error,
)


class Avro(BatchFiles):
    """Object container files; a range has the blocks that begin in it."""

    title = "Avro"
    suffixes = (".avro",)
    is_compressed = True

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[Opened]:
        """Opens a file; see ``BatchFiles``."""
        with _opened(path) as one:
            records = _records(source.limits, one, one.header, one.file.seek(0, io.SEEK_END))
            batches = (_good(some, one.schema) for some in _some(records, SAMPLE_ROWS))
            yield Opened(one.file, one.schema, batches)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        file = byte_range.file
        with _opened(file.path) as one:
            if byte_range.number_in_file == 0:
                tables.check_file(plan, file, one.schema)
            wanted = pa.schema([one.schema.field(name) for name in top_columns(plan, one.schema)])
            start = _first_block(one, byte_range)
            before = functools.cache(lambda: _rows_before(one, start))
            records, done = _records(plan.source.limits, one, start, byte_range.end), 1
            for some in _some(records, _MOST_ROWS):
                place = functools.partial(lambda number, row: before() + number + row, done)
                yield from _rows(some, wanted, plan, file, place, reject)
                done += len(some)
            is_first = byte_range.number_in_file == 0
            crc32c = tail_crc32c(one.file, file.size_bytes) if is_first else None
            yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with _opened(byte_range.file.path) as one:
            return "row", 1 + _rows_before(one, _first_block(one, byte_range))


class _Opened(NamedTuple):
    """An open file.

    Attributes:
      file: its bytes.
      path: of the file.
      header: its bytes.
      codec: of its blocks.
      written: its schema, as Avro's data, without logical types but decimals.
      schema: its columns.
    """

    file: BinaryIO
    path: str
    header: int
    codec: str
    written: Any
    schema: pa.Schema


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


@contextlib.contextmanager
def _opened(path: str) -> Iterator[_Opened]:
    import fastavro.schema  # takes 30 ms

    with open_whole(path) as file:
        try:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("found no Avro file, which begins with 'Obj' and 1")
            file.seek(0)
            metadata = fastavro.block_reader(cast("Any", _Bytes(file))).metadata
            header, named = file.tell(), dict[str, Any]()
            schema = json.loads(metadata["avro.schema"])
            columns = columns_of(fastavro.schema.parse_schema(schema, named), named)
            codec = metadata.get("avro.codec", "null")
            yield _Opened(file, path, header, codec, plain(schema), columns)
        except SchemaError as error:
            raise DataError(f"{path}: {error}. {error.cure}") from error
        except DataError:
            raise
        except (
            *_DAMAGED,
            fastavro.schema.SchemaParseException,
            fastavro.schema.UnknownType,
        ) as error:
            raise DataError(
                f"{path}: found damaged Avro data, expected a whole file: {error or repr(error)}. "
                "Get the file again, or set 'format'."
            ) from error


def _sync(one: _Opened) -> bytes:
    one.file.seek(one.header - _SYNC_BYTES)
    return one.file.read(_SYNC_BYTES)


def _first_block(one: _Opened, byte_range: ByteRange) -> int:
    """Returns the offset of a range's first block, or of its end."""
    if byte_range.start <= one.header:
        return one.header
    sync, place, rest = _sync(one), byte_range.start - _SYNC_BYTES, b""
    one.file.seek(place)
    while place + len(rest) < byte_range.end and (data := one.file.read(MIB)):
        data = rest + data
        found = data.find(sync)
        if found >= 0:
            return min(byte_range.end, place + found + _SYNC_BYTES)
        rest = data[-(_SYNC_BYTES - 1) :]
        place += len(data) - len(rest)
    return byte_range.end


def _blocks(one: _Opened, start: int, end: int) -> Iterator[Any]:
    """Yields fastavro's blocks that begin in [start, end), compressed."""
    import fastavro

    # A header that says 'null', so that blocks stay as they are.
    header = io.BytesIO()
    fastavro.writer(header, one.written, [], sync_marker=_sync(one))
    one.file.seek(start)
    found = fastavro.block_reader(
        cast("Any", _Bytes(one.file, header.getvalue())), handle_unicode_errors="surrogateescape"
    )
    while start < end and (block := next(found, None)) is not None:
        if block.num_records < 0:
            raise ValueError(f"the block at byte {start:,} has {block.num_records:,} records")
        yield block
        start = one.file.tell()
    if start < end and one.file.tell() != start:
        raise EOFError("the file ends within a number")


def _rows_before(one: _Opened, start: int) -> int:
    """Returns the number of rows before a block."""
    return sum(block.num_records for block in _blocks(one, one.header, start))


def _records(limits: Limits, one: _Opened, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Yields the records of the blocks that begin in [start, end)."""
    for block in _blocks(one, start, end):
        data = block.bytes_.read()
        most = max(FREE_BYTES, limits.decompression_ratio * len(data))
        try:
            whole = avro_codecs.decompress(one.codec, data, most)
            size = len(whole)
        except avro_codecs.TooLargeError as error:
            size = error.size
        if exceeds_ratio(limits, len(data), size):
            message = ratio_exceeded(limits, len(data), size)
            raise DataError(f"{one.path}, block at byte {block.offset:,}: {message}")
        block.bytes_ = io.BytesIO(whole)
        yield from block
        if block.bytes_.read(1):
            raise ValueError(f"the block at byte {block.offset:,} has more than its records")


def _some(records: Iterator[dict[str, Any]], number: int) -> Iterator[list[dict[str, Any]]]:
    while some := list(itertools.islice(records, number)):
        yield some


def _rows(
    records: list[dict[str, Any]],
    schema: pa.Schema,
    plan: SourcePlan,
    file: FileInfo,
    place: Callable[[int], int],
    reject: bool,
) -> Iterator[Rows]:
    """Converts records to the plan's columns.

    Args:
      records, schema: of the file.
      plan, file, reject: as ``read`` takes them.
      place: returns the number in the file of one of these rows, which count from 0.
    """
    batch, wrong = _to_batch(records, schema)
    if not wrong:
        done = 0
        for part in parts_of(batch):
            first = functools.partial(place, done)
            yield from tables.rows_of(part, plan, file, first, reject)
            done += part.num_rows
        return
    # Rows are converted one by one, so that all have their places.
    for number, record in enumerate(records):
        if number not in wrong:
            row = place(number)
            yield from tables.rows_of(_to_batch([record], schema)[0], plan, file, row, reject)
            continue
        rejected: list[Rejected] = []
        column, error = wrong[number]
        reason = f"found a value that is no {schema.field(column).type} ({error}). Mend the record."
        where, text = f"row {place(number)}", shorten(ascii(record))
        bad = Rejected(plan.source.name, file.path, where, column, reason, text)
        bad_rows.reject_or_raise(bad, rejected, reject)
        yield Rows(empty_batch(plan.schema), tuple(rejected))


def _good(records: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the records that have no bad value as columns."""
    batch, wrong = _to_batch(records, schema)
    good = [record for number, record in enumerate(records) if number not in wrong]
    return _to_batch(good, schema)[0] if wrong else batch


def _to_batch(
    records: list[dict[str, Any]], schema: pa.Schema
) -> tuple[pa.RecordBatch, dict[int, tuple[str, Exception]]]:
    """Returns records as columns, and what is wrong with bad ones.

    Of a bad record these are its number, column and error.
    """
    arrays: list[pa.Array] = []
    wrong: dict[int, tuple[str, Exception]] = {}
    for field in schema:
        values = [record[field.name] for record in records]
        try:
            arrays.append(pa.array(values, field.type))
        except _NOT_OF_TYPE:
            for number, value in enumerate(values):
                try:
                    pa.array([value], field.type)
                except _NOT_OF_TYPE as error:
                    wrong.setdefault(number, (field.name, error))
    if wrong:
        return empty_batch(schema), wrong
    return pa.RecordBatch.from_arrays(arrays, schema=schema), {}
