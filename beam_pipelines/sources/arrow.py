"""Arrow IPC files (also called Feather) and streams, read batch by batch."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from beam_pipelines.core.arrow.arrow_sizes import batch_sizes
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives.whole import open_whole
from beam_pipelines.sources.batch_files import BatchFiles, OpenedFile
from beam_pipelines.sources.faults import damaged
from beam_pipelines.sources.faults.bad_rows import as_bytes

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
