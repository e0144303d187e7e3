"""Holds chunks in files until a result of all rows is known."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import apache_beam as beam

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import file_changes, files
from beam_pipelines.transforms.join import hash_join


class HeldChunk(NamedTuple):
    """A chunk that is stored in a file."""

    range_number: int
    part: int
    file: str


def hold_chunk(chunk: Chunk, folder: str) -> HeldChunk:
    """Writes a chunk to a file named by its address.

    So a retry replaces the file.
    """
    path = files.join(folder, f"{chunk.range_number}_{chunk.part}")
    # A local file stays in the page cache, where lz4 would cost more than it saves.
    compression = None if files.is_local(path) else "lz4"
    with files.replace(path) as file:
        hash_join.write_packed(
            file, [hash_join.Packed(chunk.batch, hash_join.about_chunk(chunk))], compression
        )
    return HeldChunk(chunk.range_number, chunk.part, path)


def load_held(held: HeldChunk, deletes: bool = False) -> Iterator[Chunk]:
    """Yields the chunk as it was; then deletes its file, if asked.

    Raises:
      DataError: the file does not hold the chunk.
    """
    try:
        ((batch, about),) = hash_join.unpack(files.read_bytes(held.file))
    except (ValueError, OSError) as error:
        raise DataError(
            f"{held.file}: found {error}. A temporary file was changed or removed during the run: "
            "run again."
        ) from error
    yield hash_join.chunk_about(held.range_number, batch, about)
    if deletes:
        with contextlib.suppress(DataError):  # the folder is removed later
            file_changes.delete(held.file)


@dataclasses.dataclass
class HoldChunks(beam.PTransform):
    """Holds chunks until a value is there.

    Input: ``Chunk`` elements, each address once. Output: the same, for any worker.

    Attributes:
      after: one element; chunks are loaded after it.
      folder: used by this step only.
      deletes: deletes each file after its chunk. Only if the runner runs every bundle once.
    """

    after: beam.PCollection[str]
    folder: str
    deletes: bool = False

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return (
            chunks
            | "Hold" >> beam.Map(hold_chunk, self.folder)
            | "Spread" >> beam.Reshuffle()
            # The side input is one of a step with small elements: see ``spill.LoadChunks``.
            | "Await" >> beam.Map(lambda held, _: held, beam.pvalue.AsSingleton(self.after))
            | "Load" >> beam.FlatMap(load_held, self.deletes)
        )
