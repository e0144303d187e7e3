"""Avro: blocks of records, cut at the bytes between them."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import FREE_BYTES, Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.batch_files import (
    SAMPLE_ROWS,
    BatchFiles,
    OpenedFile,
    parts_of,
    tail_rows,
)
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.format import QuoteStates, Rows, empty_batch
from beam_pipelines.sources.parquet.format import top_columns
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.formats import avro_blocks as blocks
from beam_pipelines_plugins.formats.avro_types import SchemaError, columns_of, plain

# Rows of Python objects at a time, which take some times the bytes of their columns.
_MOST_ROWS = 16_384
_NOT_OF_TYPE = (pa.ArrowException, ValueError, TypeError, OverflowError)
_DAMAGED = (
    *_NOT_OF_TYPE,
    *blocks.DAMAGED,
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
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file; see ``BatchFiles``."""
        with _opened(path) as one:
            records = _records(source.limits, one, one.header.end, one.file.seek(0, io.SEEK_END))
            batches = (_good(some, one.schema) for some in _some(records, SAMPLE_ROWS))
            yield OpenedFile(one.file, one.schema, batches)

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
            yield tail_rows(plan, byte_range, one.file)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with _opened(byte_range.file.path) as one:
            return "row", 1 + _rows_before(one, _first_block(one, byte_range))


class _Opened(NamedTuple):
    """An open file and its columns; only decimals have logical types."""

    file: BinaryIO
    path: str
    header: blocks.Header
    schema: pa.Schema


@contextlib.contextmanager
def _opened(path: str) -> Iterator[_Opened]:
    import fastavro.schema  # takes 30 ms

    with open_whole(path) as file:
        try:
            header, named = blocks.read_header(file), dict[str, Any]()
            columns = columns_of(fastavro.schema.parse_schema(header.schema, named), named)
            yield _Opened(file, path, header._replace(schema=plain(header.schema)), columns)
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


def _first_block(one: _Opened, byte_range: ByteRange) -> int:
    return blocks.first_block(one.file, one.header, byte_range.start, byte_range.end)


def _rows_before(one: _Opened, start: int) -> int:
    """Returns the number of rows before a block."""
    before = blocks.read_blocks(one.file, one.header, one.header.end, start)
    return sum(block.num_records for block in before)


def _records(limits: Limits, one: _Opened, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Yields the records of the blocks that begin in [start, end)."""
    for block in blocks.read_blocks(one.file, one.header, start, end):
        data = block.bytes_.read()
        most = max(FREE_BYTES, limits.decompression_ratio * len(data))
        try:
            whole = blocks.decompress(one.header.codec, data, most)
            size = len(whole)
        except blocks.TooLargeError as error:
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
