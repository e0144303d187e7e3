"""Avro: blocks of records, cut at the bytes between them."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import lzma
import struct
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.columns import Shape
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import FREE_BYTES, MIB, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import bad_rows, inference, shapes, tables
from beam_pipelines.sources.archives.whole import open_whole
from beam_pipelines.sources.batch_files import parts_of
from beam_pipelines.sources.checksums import tail_crc32c
from beam_pipelines.sources.format import (
    Contents,
    Format,
    QuoteStates,
    Rows,
    empty_batch,
)
from beam_pipelines.sources.options import TableOptions
from beam_pipelines.sources.parquet.format import SAMPLE_ROWS, no_compression, top_columns
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.formats.avro_blocks import (
    Header,
    TooLargeError,
    container,
    decompress,
    first_block,
    read_blocks,
    read_header,
)
from beam_pipelines_plugins.formats.avro_types import SchemaError, columns_of, plain

# Blocks are decoded together up to so many bytes, because each call parses the schema.
_TOGETHER_BYTES = MIB
# Rows of Python objects at a time, which take some times the bytes of their columns.
_MOST_ROWS = 16_384
_DAMAGED = (
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    OSError,
    struct.error,
    lzma.LZMAError,
    isal_zlib.error,
)


class Avro(Format):
    """Object container files; a range has the blocks that begin in it."""

    suffixes = (".avro",)
    Options = TableOptions
    has_arrays = True
    is_compressed = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return no_compression(source, "Avro")

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        schemas, rows = [], 0
        seen: dict[str, Shape | None] = {}
        for sampled in inference.sample_rounds(source, files):
            for file in sampled:
                with _opened(file.path) as opened:
                    schema = opened.schema
                    tables.check_schema(source, file.path, schema)
                    schemas.append((file, schema))
                    names = shapes.open_columns(source, schema)
                    wanted = pa.schema([schema.field(name) for name in names])
                    batches = _batches(source, file, opened)
                    for batch in batches if source.reads_all else itertools.islice(batches, 1):
                        rows += len(batch)
                        shapes.note_shapes(seen, [_to_batch(batch, wanted)[0]])
            if rows:
                break
        if not rows:
            raise DataError(
                f"{files[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        return tables.contents_of(source, schemas, seen)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        path = byte_range.file.path
        with _opened(path) as opened:
            if byte_range.number_in_file == 0:
                tables.check_file(plan, byte_range.file, opened.schema)
            names = top_columns(plan, opened.schema)
            wanted = pa.schema([opened.schema.field(name) for name in names])
            start = first_block(opened.file, opened.header, byte_range.start, byte_range.end)
            first = functools.cache(lambda: _rows_before(opened, start))
            records = _records(plan.source, path, opened, start, byte_range.end)
            done = 0
            while some := list(itertools.islice(records, _MOST_ROWS)):
                yield from _rows(some, wanted, plan, byte_range.file, first, done, reject)
                done += len(some)
            crc32c = None
            if byte_range.number_in_file == 0:
                crc32c = tail_crc32c(opened.file, byte_range.file.size_bytes)
            yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with _opened(byte_range.file.path) as opened:
            start = first_block(opened.file, opened.header, byte_range.start, byte_range.end)
            return "row", 1 + _rows_before(opened, start)


class _Opened(NamedTuple):
    """An open file, its header, and its columns."""

    file: BinaryIO
    header: Header
    schema: pa.Schema


@contextlib.contextmanager
def _opened(path: str) -> Iterator[_Opened]:
    import fastavro.schema  # takes 30 ms

    with open_whole(path) as file:
        try:
            header = read_header(file)
            named: dict[str, Any] = {}
            parsed = fastavro.schema.parse_schema(header.schema, named)
            schema = columns_of(parsed, named)
        except SchemaError as error:
            raise DataError(f"{path}: {error}. {error.cure}") from error
        except (
            *_DAMAGED,
            fastavro.schema.SchemaParseException,
            fastavro.schema.UnknownType,
        ) as error:
            raise DataError(_damaged(path, error)) from error
        try:
            yield _Opened(file, header._replace(schema=plain(header.schema)), schema)
        except _DAMAGED as error:
            raise DataError(_damaged(path, error)) from error


def _damaged(path: str, error: Exception) -> str:
    return (
        f"{path}: found damaged Avro data, expected a whole file: {error or repr(error)}. Get the "
        "file again, or set 'format'."
    )


def _batches(source: Source, file: FileInfo, opened: _Opened) -> Iterator[list[dict[str, Any]]]:
    """Yields all records of a file, some at a time."""
    records = _records(source, file.path, opened, opened.header.end, file.size_bytes)
    while some := list(itertools.islice(records, SAMPLE_ROWS)):
        yield some


def _rows_before(opened: _Opened, start: int) -> int:
    """Returns the number of rows before a block."""
    blocks = read_blocks(opened.file, opened.header, opened.header.end, start, with_data=False)
    return sum(block.rows for block in blocks)


def _records(
    source: Source, path: str, opened: _Opened, start: int, end: int
) -> Iterator[dict[str, Any]]:
    """Yields the records of the blocks that begin in [start, end)."""
    held: list[tuple[int, bytes]] = []
    size, codec, limits = 0, opened.header.codec, source.limits
    for block in read_blocks(opened.file, opened.header, start, end):
        most = max(FREE_BYTES, limits.decompression_ratio * len(block.data))
        try:
            data = decompress(codec, block.data, most)
            found = len(data)
        except TooLargeError as error:
            data, found = b"", error.size
        if exceeds_ratio(limits, len(block.data), found):
            message = ratio_exceeded(limits, len(block.data), found)
            raise DataError(f"{path}, block at byte {block.start:,}: {message}")
        held.append((block.rows, data))
        size += found
        if size >= _TOGETHER_BYTES:
            yield from _decoded(opened, held)
            held, size = [], 0
    if held:
        yield from _decoded(opened, held)


def _decoded(opened: _Opened, blocks: list[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
    import fastavro

    data = container(opened.header, opened.header.schema, "null", blocks)
    found = fastavro.reader(io.BytesIO(data), handle_unicode_errors="surrogateescape")
    count = 0
    for record in found:
        count += 1
        yield cast("dict[str, Any]", record)
    expected = sum(rows for rows, _ in blocks)
    if count != expected:
        raise ValueError(f"found {count:,} records, expected {expected:,}")


def _rows(
    records: list[dict[str, Any]],
    schema: pa.Schema,
    plan: SourcePlan,
    file: FileInfo,
    first: Callable[[], int],
    done: int,
    reject: bool,
) -> Iterator[Rows]:
    """Converts records to the plan's columns.

    Args:
      records, schema: of the file.
      plan, file, reject: as ``read`` takes them.
      first: finds the number of rows before the range, for messages.
      done: rows of the range before these.
    """
    batch, wrong = _to_batch(records, schema)
    if not wrong:
        for part in parts_of(batch):
            place_of = functools.partial(lambda before: 1 + first() + before, done)
            yield from tables.rows_of(part, plan, file, place_of, reject)
            done += part.num_rows
        return
    # Rows are converted one by one, so that all have their places.
    for number, record in enumerate(records):
        place = 1 + first() + done + number
        if number not in wrong:
            yield from tables.rows_of(_to_batch([record], schema)[0], plan, file, place, reject)
            continue
        rejected: list[Rejected] = []
        column, error = wrong[number]
        reason = f"found a value that is no {schema.field(column).type} ({error}). Mend the record."
        text = shorten(ascii(record))
        bad = Rejected(plan.source.name, file.path, f"row {place}", column, reason, text)
        bad_rows.reject_or_raise(bad, rejected, reject)
        yield Rows(empty_batch(plan.schema), tuple(rejected))


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
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            for number, value in enumerate(values):
                try:
                    pa.array([value], field.type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    wrong.setdefault(number, (field.name, error))
    if wrong:
        return empty_batch(schema), wrong
    return pa.RecordBatch.from_arrays(arrays, schema=schema), {}
