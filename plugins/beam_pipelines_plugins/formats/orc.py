"""ORC files, read stripe by stripe."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.batch_files import BatchFiles, OpenedFile, parts_of, tail_rows
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.format import QuoteStates, Rows
from beam_pipelines.sources.plan import ByteRange, SourcePlan

_OFFSET_BITS = 32


class Orc(BatchFiles):
    """Apache ORC; a range has whole stripes."""

    title = "ORC"
    suffixes = (".orc",)
    is_compressed = True

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file; see ``BatchFiles``."""
        with _opened(source, path) as (file, reader):
            stripes = _stripes(source, path, reader, range(reader.nstripes))
            yield OpenedFile(file, reader.schema, stripes)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        path = byte_range.file.path
        with _opened(plan.source, path) as (file, reader):
            tables.check_file(plan, byte_range.file, reader.schema)
            numbers = _numbers_of(reader, byte_range)
            before = functools.cache(lambda: _rows_before(reader, numbers.start))
            done = 1
            for stripe in _stripes(plan.source, path, reader, numbers):
                for part in parts_of(stripe):
                    first = functools.partial(lambda number: before() + number, done)
                    yield from tables.rows_of(part, plan, byte_range.file, first, reject)
                    done += part.num_rows
            yield tail_rows(plan, byte_range, file)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with _opened(plan.source, byte_range.file.path) as (_, reader):
            return "row", 1 + _rows_before(reader, _numbers_of(reader, byte_range).start)


@contextlib.contextmanager
def _opened(source: Source, path: str) -> Iterator[tuple[BinaryIO, pa.orc.ORCFile]]:
    """Opens a file; refuses one that states too many rows."""
    from pyarrow import orc  # takes 20 ms

    with open_whole(path) as file:
        try:
            reader = orc.ORCFile(file)
            size = reader.content_length
            decoded = reader.nrows * sum(_bits_of(field.type) for field in reader.schema) // 8
            if exceeds_ratio(source.limits, size, decoded):
                raise DataError(f"{path}: {ratio_exceeded(source.limits, size, decoded)}")
            yield file, reader
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{path}: found damaged ORC data, expected a whole file: {error}. Get the file "
                "again, or set 'format'."
            ) from error


def _bits_of(type_: pa.DataType) -> int:
    """Returns the least bits of a decoded value."""
    if pa.types.is_struct(type_):
        return sum(_bits_of(field.type) for field in type_)
    return int(type_.bit_width) if pa.types.is_primitive(type_) else _OFFSET_BITS


def _numbers_of(reader: pa.orc.ORCFile, byte_range: ByteRange) -> range:
    """Returns the numbers of a range's stripes.

    A range of bytes has as large a share of the stripes: pyarrow does not say where they begin.
    """
    stripes, size = reader.nstripes, max(1, byte_range.file.size_bytes)
    return range(-(-stripes * byte_range.start // size), -(-stripes * byte_range.end // size))


def _rows_before(reader: pa.orc.ORCFile, number: int) -> int:
    """Returns the number of rows before a stripe."""
    first = [reader.schema.names[0]]
    return sum(reader.read_stripe(each, columns=first).num_rows for each in range(number))


def _stripes(
    source: Source, path: str, reader: pa.orc.ORCFile, numbers: range
) -> Iterator[pa.RecordBatch]:
    """Yields stripes; their decoded size is checked."""
    decoded, size = 0, reader.content_length
    for number in numbers:
        stripe = reader.read_stripe(number)
        decoded += stripe.nbytes
        if exceeds_ratio(source.limits, size, decoded):
            raise DataError(
                f"{path}, stripe {number}: {ratio_exceeded(source.limits, size, decoded)}"
            )
        yield stripe
