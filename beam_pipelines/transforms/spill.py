"""Keeps the pieces of the first read in files, so that the source is parsed, joined, selected and split once.

What comes after the first read (further fits, the writing) waits for what it has learned, and loads the kept pieces then. A piece is
loaded in a quarter of a microsecond a row, where parsing and splitting it again takes two (docs/performance.md).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core import file_changes, files
from beam_pipelines.core.chunks import Piece
from beam_pipelines.core.errors import DataError


class KeptPiece(NamedTuple):
    """A piece whose rows lie in a file.

    Attributes:
      range_number, part, start, path, split: as of the ``Piece``.
      rows: of its batch.
      file: the Arrow stream with the rows.
      counts: as of the ``Piece``.
    """

    range_number: int
    part: int
    start: int
    path: str
    split: str
    rows: int
    file: str
    counts: Mapping[str, int] = {}


def keep_piece(piece: Piece, folder: str) -> KeptPiece:
    """Writes the rows of a piece of a split to a file named by its address and split, so that a retry replaces it."""
    path = files.join(folder, f"{piece.range_number}_{piece.part}_{piece.start}_{piece.split}")
    # A local file stays in the page cache, where lz4 would cost more than it saves.
    options = pa.ipc.IpcWriteOptions(compression=None if files.is_local(path) else "lz4", use_threads=False)
    with files.replace(path) as file, pa.ipc.new_stream(file, piece.batch.schema, options=options) as stream:
        stream.write_batch(piece.batch)
    return KeptPiece(
        piece.range_number,
        piece.part,
        piece.start,
        piece.path,
        piece.split,
        piece.batch.num_rows,
        path,
        piece.counts,
    )


def load_piece(kept: KeptPiece) -> Piece:
    """Returns the piece as it was kept.

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
    return Piece(kept.range_number, kept.part, batch, kept.counts, path=kept.path, split=kept.split, start=kept.start)


def take_piece(kept: KeptPiece) -> Iterator[Piece]:
    """Yields the piece as it was kept, and removes its file when what comes of it is stored: half of a run's temporary files."""
    yield load_piece(kept)
    with contextlib.suppress(DataError):  # what cannot be removed now goes with its folder
        file_changes.delete(kept.file)


def _changed(path: str, found: str) -> str:
    return f"{path}: found {found}. A temporary file was changed or removed during the run: run again."


@dataclasses.dataclass
class KeepPieces(beam.PTransform):
    """Keeps pieces in files.

    Input: ``Piece`` elements with a split, each address and split once. Output: a ``KeptPiece`` for each, any worker's to load.

    Splits of one address stay together: runners deal out groups in turn, and one worker would get all pieces of the large split, the other
    those of the small one.

    Attributes:
      folder: used by nobody else.
    """

    folder: str

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[KeptPiece]:
        return (
            pieces
            | "Keep" >> beam.Map(keep_piece, self.folder)
            | "Address" >> beam.WithKeys(lambda kept: kept[:2]).with_output_types(tuple[tuple[int, int], KeptPiece])
            | "Spread" >> beam.GroupByKey()
            | "Forget" >> beam.FlatMap(lambda group: sorted(group[1]))
        )


@dataclasses.dataclass
class LoadPieces(beam.PTransform):
    """Loads kept pieces.

    Input: ``KeptPiece`` elements. Output: for each, the ``Piece`` that was kept.

    What the pieces wait for is a side input here, and of no step behind: Flink and Spark materialize the main input of a step with side
    inputs, and a piece has no bound.

    Attributes:
      after: one element each, which are there when the pieces may be loaded.
      takes: whether to remove the files: no other step loads the pieces, and the runner runs every bundle once.
    """

    after: Sequence[beam.PCollection[Any]] = ()
    takes: bool = False

    def expand(self, kept: beam.PCollection[KeptPiece]) -> beam.PCollection[Piece]:
        if self.after:
            kept = kept | "Await" >> beam.Map(
                lambda kept, *_: kept, *(beam.pvalue.AsSingleton(awaited) for awaited in self.after)
            )
        return kept | ("Take" >> beam.FlatMap(take_piece) if self.takes else "Load" >> beam.Map(load_piece))
