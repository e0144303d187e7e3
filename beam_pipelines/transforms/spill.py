"""Spills the chunks of the first pass to Arrow files.

So the source is parsed, joined, selected and split once. Later steps (further fits, the write) wait
for results of the first pass, and then load the chunks. Loading takes a quarter of a microsecond a
row; parsing and splitting take two (docs/performance.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import file_changes, files


class SpilledChunk(NamedTuple):
    """A chunk whose rows are stored in a file.

    Attributes:
      range_number, part, start, path, split: as in ``Chunk``.
      rows: of its batch.
      file: the Arrow stream with the rows.
      counts: as in ``Chunk``.
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
    """Writes a chunk's rows to a file named by address and split.

    So a retry replaces the file.
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


def load_chunk(spilled: SpilledChunk) -> Chunk:
    """Returns the chunk as it was spilled.

    Raises:
      DataError: the file does not hold its rows.
    """
    try:
        with pa.ipc.open_stream(files.read_bytes(spilled.file)) as stream:
            batch = stream.read_next_batch()
    except (pa.ArrowException, StopIteration, OSError) as error:
        raise DataError(_changed(spilled.file, str(error))) from error
    if batch.num_rows != spilled.rows:
        raise DataError(_changed(spilled.file, f"{batch.num_rows} rows, expected {spilled.rows}"))
    return Chunk(
        spilled.range_number,
        spilled.part,
        batch,
        spilled.counts,
        path=spilled.path,
        split=spilled.split,
        start=spilled.start,
    )


def load_and_delete(spilled: SpilledChunk) -> Iterator[Chunk]:
    """Yields the chunk as it was spilled, then deletes its file.

    The consumer has stored its results by then. This halves a run's temporary files.
    """
    yield load_chunk(spilled)
    with contextlib.suppress(DataError):  # the folder is removed later
        file_changes.delete(spilled.file)


def _changed(path: str, found: str) -> str:
    return (
        f"{path}: found {found}. A temporary file was changed or removed during the run: run again."
    )


@dataclasses.dataclass
class SpillChunks(beam.PTransform):
    """Spills chunks to files.

    Input: ``Chunk`` elements with a split, each address and split once. Output: a ``SpilledChunk``
    for each, for any worker to load.

    Splits of one address stay together. Runners distribute groups in turn: with groups of one
    split, a worker could get all chunks of the largest split.

    Attributes:
      folder: used by this step only.
    """

    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[SpilledChunk]:
        return (
            chunks
            | "Spill" >> beam.Map(spill_chunk, self.folder)
            | "Address"
            >> beam.WithKeys(lambda spilled: spilled[:2]).with_output_types(
                tuple[tuple[int, int], SpilledChunk]
            )
            | "Spread" >> beam.GroupByKey()
            | "DropAddress" >> beam.FlatMap(lambda group: sorted(group[1]))
        )


@dataclasses.dataclass
class LoadChunks(beam.PTransform):
    """Loads spilled chunks.

    Input: ``SpilledChunk`` elements. Output: the ``Chunk`` of each.

    The PCollections to wait for are side inputs of this step, and of no later one: Flink and Spark
    materialize the main input of a step with side inputs, and a chunk has no size limit.

    Attributes:
      after: one element each; the chunks are loaded after all of them.
      deletes: deletes each file after its chunk. Only if no other step loads the chunks, and the
        runner runs every bundle once.
    """

    after: Sequence[beam.PCollection[Any]] = ()
    deletes: bool = False

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[Chunk]:
        if self.after:
            spilled = spilled | "Await" >> beam.Map(
                lambda spilled, *_: spilled,
                *(beam.pvalue.AsSingleton(awaited) for awaited in self.after),
            )
        return spilled | (
            "LoadAndDelete" >> beam.FlatMap(load_and_delete)
            if self.deletes
            else "Load" >> beam.Map(load_chunk)
        )
