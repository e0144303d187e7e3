"""Arrow IPC files (also called Feather) and streams, read batch by batch."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from beam_pipelines.core.columns import Shape
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, shapes, tables
from beam_pipelines.sources.archives.whole import open_whole
from beam_pipelines.sources.bad_rows import as_bytes
from beam_pipelines.sources.checksums import tail_crc32c
from beam_pipelines.sources.format import (
    CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    Contents,
    Format,
    QuoteStates,
    Rows,
    empty_batch,
)
from beam_pipelines.sources.parquet.format import SAMPLE_ROWS, no_compression
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.sparse_structs import read_as_sparse

_FILE_MAGIC = b"ARROW1"


class Arrow(Format):
    """Arrow's own format; one range a file."""

    suffixes = (".arrow", ".feather", ".ipc", ".arrows")
    has_arrays = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return [*tables.check_text_options(source, "Arrow"), *no_compression(source, "Arrow")]

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        schemas, rows = [], 0
        seen: dict[str, Shape | None] = {}
        for sampled in inference.sample_rounds(source, files):
            for file in sampled:
                with _opened(file.path) as (_, schema, batches):
                    tables.check_schema(source, file.path, schema)
                    schemas.append((file, schema))
                    filled = (batch for batch in batches if batch.num_rows)
                    for batch in filled if source.reads_all else itertools.islice(filled, 1):
                        _check_layout(batch)
                        rows += batch.num_rows
                        shapes.note_shapes(
                            seen,
                            [
                                batch.select(shapes.open_columns(source, schema)).slice(
                                    0, SAMPLE_ROWS
                                )
                            ],
                        )
            if rows:
                break
        if not rows:
            raise DataError(
                f"{files[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        contents = tables.contents_of(source, schemas, seen)
        return contents._replace(sparse=read_as_sparse(schemas[0][1], contents.read_schema))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        row = 1
        with _opened(byte_range.file.path) as (file, schema, batches):
            tables.check_file(plan, byte_range.file, schema)
            for batch in batches:
                _check_layout(batch)
                for part in _parts(batch):
                    yield from tables.rows_of(part, plan, byte_range.file, row, reject)
                    row += part.num_rows
            yield Rows(
                empty_batch(plan.schema), crc32c=tail_crc32c(file, byte_range.file.size_bytes)
            )


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, pa.Schema, Iterator[pa.RecordBatch]]]:
    with open_whole(path) as file:
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        try:
            if is_file:
                reader = pa.ipc.open_file(file)
                yield file, reader.schema, map(reader.get_batch, range(reader.num_record_batches))
            else:
                stream = pa.ipc.open_stream(file)
                yield file, stream.schema, iter(stream)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise DataError(
                f"{path}: found damaged Arrow data, expected a whole IPC file or stream: {error}. "
                "Get the file again, or set 'format'."
            ) from error


def _check_layout(batch: pa.RecordBatch) -> None:
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


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
