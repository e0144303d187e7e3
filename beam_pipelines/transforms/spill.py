"""Spills the chunks of the first pass to files of stripes (``core/layout/stripes.py``).

So the source is parsed, joined, selected and split once. Later steps (further fits, the write) wait
for results of the first pass, and then load the chunks, or only the rows that they need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout import stripes
from beam_pipelines.files.beam import files


class SpilledChunk(NamedTuple):
    """A chunk whose rows are stored in a file.

    Attributes:
      range_number, part, start, split: as in ``Chunk``.
      rows: of its batch.
      file: with the rows, and the rest of the chunk.
      tail: where the file's tail begins.
    """

    range_number: int
    part: int
    start: int
    split: str
    rows: int
    file: str
    tail: int


def spilled_path(folder: str, address: tuple[int, int], start: int, split: str) -> str:
    """Returns the file of a spilled chunk, named by address and split."""
    return files.join(folder, "_".join(map(str, (*address, start, split))))


def spill_chunk(chunk: Chunk, folder: str) -> SpilledChunk:
    """Writes a chunk's rows to its file, which a retry replaces."""
    path = spilled_path(folder, chunk[:2], chunk.start, chunk.split)
    packed = stripes.pack(chunk.batch, chunk.about())
    with files.replace(path) as file:
        for buffer in packed.buffers:
            file.write(buffer)
    rows = chunk.batch.num_rows
    return SpilledChunk(*chunk[:2], chunk.start, chunk.split, rows, path, packed.tail)


def load_chunk(spilled: SpilledChunk) -> Chunk:
    """Returns the chunk as it was spilled.

    Raises:
      DataError: the file does not hold its rows.
    """
    data = files.read_bytes(spilled.file)
    try:
        tail = checked_tail(data[spilled.tail :], spilled.file, spilled.rows)
        if tail.rows:
            pieces = [(data[: spilled.tail], tail.span(0, tail.rows))]
            batch = stripes.unpack(tail.schema, pieces)
        else:
            batch = empty_batch(tail.schema)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(changed(spilled.file, str(error))) from error
    return Chunk.of(spilled.range_number, batch, tail.about)


def checked_tail(data: bytes, path: str, rows: int) -> stripes.Tail:
    """Parses the tail of a spilled chunk's file.

    Raises:
      DataError: it is damaged, or of another number of rows.
    """
    try:
        tail = stripes.read_tail(data)
    except ValueError as error:
        raise DataError(changed(path, str(error))) from error
    if tail.rows != rows:
        raise DataError(changed(path, f"{tail.rows} rows, expected {rows}"))
    return tail


def changed(path: str, found: str) -> str:
    """Returns the message for a file that was changed."""
    return (
        f"{path}: found {found}. A temporary file was changed or removed during the run: run again."
    )


@dataclasses.dataclass
class SpillChunks(beam.PTransform):
    """Spills chunks to files.

    Input: ``Chunk`` elements, each address and split once. Output: a ``SpilledChunk``
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
    """

    after: Sequence[beam.PCollection[Any]] = ()

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[Chunk]:
        if self.after:
            spilled = spilled | "Await" >> beam.Map(
                lambda spilled, *_: spilled,
                *(beam.pvalue.AsSingleton(awaited) for awaited in self.after),
            )
        return spilled | "Load" >> beam.Map(load_chunk)
