"""Formats whose readers give batches, one range a file; and Arrow."""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.arrow.arrow_sizes import batch_sizes
from beam_pipelines.core.arrow.columns import Shape, empty_batch
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, source_format, tables
from beam_pipelines.sources.bad_input import damaged
from beam_pipelines.sources.bad_input.bad_rows import as_bytes
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan

# Rows sampled of each file for the shapes of nested lists.
SAMPLE_ROWS = 1000
_TAIL_BYTES = 64 * 1024


class OpenedFile(NamedTuple):
    """A file that is open.

    Attributes:
      file: its bytes.
      schema: its columns, nested or not.
      batches: its rows, in order.
    """

    file: BinaryIO
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class BatchFiles(source_format.Format):
    """A format that defines ``title``, ``suffixes`` and ``opened``.

    Attributes:
      title: name of the format in messages.
    """

    title: str
    Options = TextsOptions
    has_arrays = True

    @abc.abstractmethod
    def opened(self, source: Source, path: str) -> contextlib.AbstractContextManager[OpenedFile]:
        """Opens a file.

        Raises:
          DataError: it is damaged, or exceeds a limit; also while batches are read.
        """

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return no_compression(source, self.title)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        schemas, rows = [], 0
        seen: dict[str, Shape | None] = {}
        for sampled in inference.sample_rounds(source, files):
            for file in sampled:
                with self.opened(source, file.path) as (_, schema, batches):
                    tables.check_schema(source, file.path, schema)
                    schemas.append((file, schema))
                    filled = (batch for batch in batches if batch.num_rows)
                    for batch in filled if source.reads_all else itertools.islice(filled, 1):
                        rows += batch.num_rows
                        names = shapes.open_columns(source, schema)
                        shapes.note_shapes(seen, [batch.select(names).slice(0, SAMPLE_ROWS)])
            if rows:
                break
        return tables.contents_of(source, schemas, seen)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        row = 1
        with self.opened(plan.source, byte_range.file.path) as (file, schema, batches):
            tables.check_file(plan, byte_range.file, schema)
            for batch in batches:
                for part in parts_of(batch):
                    yield from tables.rows_of(part, plan, byte_range.file, row, reject)
                    row += part.num_rows
            yield tail_rows(plan, byte_range, file)


def no_compression(source: Source, name: str) -> list[Problem]:
    """Returns a problem if the recipe says that files are compressed.

    Such formats compress inside, and a file is not compressed as a whole.
    """
    if source.compression in (None, "none"):
        return []
    return [
        source_format.problem(
            source, "compression", f"{name} files are compressed inside. Leave the option out."
        )
    ]


def tail_rows(plan: SourcePlan, byte_range: ByteRange, file: BinaryIO) -> source_format.Rows:
    """Returns no rows, and of a file's first range a checksum.

    It is the CRC-32C of the last 64 KiB and the size: such files are not read from front to back.
    """
    if byte_range.number_in_file:
        return source_format.Rows(empty_batch(plan.schema))
    size = byte_range.file.size_bytes
    file.seek(max(0, size - _TAIL_BYTES))
    data = file.read(_TAIL_BYTES) + size.to_bytes(8, "little")
    return source_format.Rows(empty_batch(plan.schema), crc32c=google_crc32c.value(data))


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch in chunks of bounded size."""
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = max(1, min(source_format.MAX_CHUNK_ROWS, source_format.CHUNK_BYTES // row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


_FILE_MAGIC = b"ARROW1"
_WHOLE = "a whole IPC file or stream"


class Arrow(BatchFiles):
    """Arrow's own format; one range a file."""

    title = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc", ".arrows")

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file or a stream; see ``BatchFiles``."""
        with open_whole(path) as file:
            is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
            file.seek(0)
            with damaged.explained(path, self.title, _WHOLE):
                reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
                schema = reader.schema
                found = (
                    map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
                )
                found = map(_checked, _bounded(found, file, is_file, source.limits, path))
            yield OpenedFile(file, schema, damaged.each(found, path, self.title, _WHOLE))


def _bounded(
    found: Iterator[pa.RecordBatch], file: BinaryIO, is_file: bool, limits: Limits, path: str
) -> Iterator[pa.RecordBatch]:
    """Yields batches whose sizes are within the limit, with those before."""
    all_compressed = all_decompressed = 0
    for compressed, decompressed in batch_sizes(file, is_file):
        all_compressed += compressed
        all_decompressed += decompressed
        for sizes in ((compressed, decompressed), (all_compressed, all_decompressed)):
            if exceeds_ratio(limits, *sizes):
                raise DataError(f"{path}: {ratio_exceeded(limits, *sizes)}")
        yield from itertools.islice(found, 1)
    if next(found, None) is not None:
        raise ValueError("batches behind the last one that is listed")


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Checks offsets and sizes of buffers; texts are checked row by row.

    Raises:
      pa.ArrowInvalid: one is wrong.
    """
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            as_bytes(column).validate(full=True)
    return batch
