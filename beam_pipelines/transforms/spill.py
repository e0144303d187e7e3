"""Keeps the chunks of the first read in files, so that the source is parsed, joined, selected and
split once.

What comes after the first read (further fits, the writing) waits for what it has learned, and loads
the kept chunks then. A chunk is loaded in a quarter of a microsecond a row, where parsing and
splitting it again takes two (docs/performance.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core import file_changes, files
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError


class SpilledChunk(NamedTuple):
    """A chunk whose rows lie in a file.

    Attributes:
      range_number, part, start, path, split: as of the ``Chunk``.
      rows: of its batch.
      file: the Arrow stream with the rows.
      counts: as of the ``Chunk``.
    """

    range_number: int
    part: int
    start: int
    path: str
    split: str
    rows: int
    file: str
    counts: Mapping[str, int] = {}


def spill_chunk(chunk: Chunk, folder: str) -> SpilledChunk:
    """Writes the rows of a chunk of a split to a file named by its address and split, so that a
    retry replaces it.
    """
    path = files.join(folder, f"{chunk.range_number}_{chunk.part}_{chunk.start}_{chunk.split}")
    # A local file stays in the page cache, where lz4 would cost more than it saves.
    options = pa.ipc.IpcWriteOptions(
        compression=None if files.is_local(path) else "lz4", use_threads=False
    )
    with (
        files.replace(path) as file,
        pa.ipc.new_stream(file, chunk.batch.schema, options=options) as stream,
    ):
        stream.write_batch(chunk.batch)
    return SpilledChunk(
        chunk.range_number,
        chunk.part,
        chunk.start,
        chunk.path,
        chunk.split,
        chunk.batch.num_rows,
        path,
        chunk.counts,
    )


def load_chunk(kept: SpilledChunk) -> Chunk:
    """Returns the chunk as it was kept.

    Raises:
      DataError: the file does not hold its rows.
    """
    try:
        with pa.ipc.open_stream(files.read_bytes(kept.file)) as stream:
            batch = stream.read_next_batch()
    except (pa.ArrowException, StopIteration, OSError) as error:
        raise DataError(_changed(kept.file, str(error))) from error
    if batch.num_rows != kept.rows:
        raise DataError(_changed(kept.file, f"{batch.num_rows} rows, expected {kept.rows}"))
    return Chunk(
        kept.range_number,
        kept.part,
        batch,
        kept.counts,
        path=kept.path,
        split=kept.split,
        start=kept.start,
    )


def take_chunk(kept: SpilledChunk) -> Iterator[Chunk]:
    """Yields the chunk as it was kept, and removes its file when what comes of it is stored: half
    of a run's temporary files.
    """
    yield load_chunk(kept)
    with contextlib.suppress(DataError):  # what cannot be removed now goes with its folder
        file_changes.delete(kept.file)


def _changed(path: str, found: str) -> str:
    return (
        f"{path}: found {found}. A temporary file was changed or removed during the run: run again."
    )


@dataclasses.dataclass
class SpillChunks(beam.PTransform):
    """Keeps chunks in files.

    Input: ``Chunk`` elements with a split, each address and split once. Output: a ``SpilledChunk``
    for each, any worker's to load.

    Splits of one address stay together: runners deal out groups in turn, and one worker would get
    all chunks of the large split, the other those of the small one.

    Attributes:
      folder: used by nobody else.
    """

    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[SpilledChunk]:
        return (
            chunks
            | "Keep" >> beam.Map(spill_chunk, self.folder)
            | "Address"
            >> beam.WithKeys(lambda kept: kept[:2]).with_output_types(
                tuple[tuple[int, int], SpilledChunk]
            )
            | "Spread" >> beam.GroupByKey()
            | "Forget" >> beam.FlatMap(lambda group: sorted(group[1]))
        )


@dataclasses.dataclass
class LoadChunks(beam.PTransform):
    """Loads kept chunks.

    Input: ``SpilledChunk`` elements. Output: for each, the ``Chunk`` that was kept.

    What the chunks wait for is a side input here, and of no step behind: Flink and Spark
    materialize the main input of a step with side inputs, and a chunk has no bound.

    Attributes:
      after: one element each, which are there when the chunks may be loaded.
      takes: whether to remove the files: no other step loads the chunks, and the runner runs every
        bundle once.
    """

    after: Sequence[beam.PCollection[Any]] = ()
    takes: bool = False

    def expand(self, kept: beam.PCollection[SpilledChunk]) -> beam.PCollection[Chunk]:
        if self.after:
            kept = kept | "Await" >> beam.Map(
                lambda kept, *_: kept, *(beam.pvalue.AsSingleton(awaited) for awaited in self.after)
            )
        return kept | (
            "Take" >> beam.FlatMap(take_chunk) if self.takes else "Load" >> beam.Map(load_chunk)
        )
