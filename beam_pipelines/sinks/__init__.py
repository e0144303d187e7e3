"""Writers of shards, one folder for each format (``core/layout/shard_formats.py``).

A sink turns the rows of a shard into a file, partition by partition.
"""

from __future__ import annotations

import functools
import importlib
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.recipe.output import Output
from beam_pipelines.tfrecord.part_index import PartColumns


class Settings(NamedTuple):
    """What all shards of a dataset have in common.

    Attributes:
      output: of the recipe.
      lists: names of the features that are feature lists; empty: records are tf.Examples.
      columns: the features' names and types, for formats with a schema.
    """

    output: Output
    lists: tuple[str, ...] = ()
    columns: pa.Schema | None = None


class Written(NamedTuple):
    """A file that was written.

    Attributes:
      rows: its rows.
      value_bytes: of its rows before compression.
      parts: places of its parts, which a reader reads alone.
    """

    rows: int
    value_bytes: int
    parts: PartColumns


class SinkFile(Protocol):
    """The file of a shard, while it is written."""

    def add(self, prepared: pa.RecordBatch) -> int:
        """Writes a prepared partition, and returns its rows."""

    def close(self) -> Written:
        """Writes what follows the last partition; the file stays open."""


class Sink(Protocol):
    """Writes one format."""

    def prepare(
        self, batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, settings: Settings
    ) -> pa.RecordBatch:
        """Returns a partition, ready to be written.

        Threads call it, and Arrow files may keep its result.

        Args:
          batch: features as columns; without columns: there are no rows.
          order: int64[n], of the rows; ``None``: they have it.
          settings: of the dataset.
        """

    def open(self, file: BinaryIO, settings: Settings) -> SinkFile:
        """Begins a file that is open for writing."""


@functools.cache
def sink_of(format_: str) -> Sink:
    """Returns the sink of a format."""
    sink: Sink = importlib.import_module(f"{__name__}.{format_}.sink").SINK
    return sink
