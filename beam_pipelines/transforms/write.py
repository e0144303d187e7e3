"""Writes shards: rows are ordered, serialized, compressed, written and read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import apache_beam as beam
import google_crc32c
import pyarrow as pa

from beam_pipelines.core.arrow.memory import give_back_memory
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import part_compression_of
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks import Settings, sink_of
from beam_pipelines.tfrecord.part_index import IndexedShard
from beam_pipelines.transforms.shards import ShardPlan, shard_path, write_own_index
from beam_pipelines.transforms.shuffle import written_order

# Called with a number of rows, to show progress.
Note = Callable[[int], None]


class ShardInfo(NamedTuple):
    """A shard that was written.

    Attributes:
      split: its split.
      path: relative to the dataset.
      rows: examples in it.
      bytes: size of the file.
      framed_bytes: bytes of its framed examples before compression; of Parquet, of its values.
      crc32c: of the file.
    """

    split: str
    path: str
    rows: int
    bytes: int
    framed_bytes: int
    crc32c: int

    def indexed(self) -> IndexedShard:
        """Returns the shard as its index names it."""
        return IndexedShard(self.path, self.rows, self.bytes, f"{self.crc32c:08x}")


@dataclasses.dataclass(frozen=True)
class Target:
    """The settings that all shards of a dataset share.

    Attributes:
      name: the dataset's name.
      output: the recipe's output.
      folder: of the shards.
      lists: names of the features that are feature lists; empty: records are tf.Examples.
      note: is called with the rows of each partition that is in its file; ``None``: nothing is.
    """

    name: str
    output: Output
    folder: str
    lists: tuple[str, ...] = ()
    note: Note | None = None

    def settings(self, plan: ShardPlan, shard: int) -> Settings:
        """Returns the settings of a shard's sinks."""
        part_size = plan.locate(shard)[0].part_size
        output = dataclasses.replace(self.output, part_size=part_size)
        return Settings(output, self.lists, plan.columns)


def write_partitions(
    partitions: Iterable[pa.RecordBatch], plan: ShardPlan, shard: int, target: Target
) -> ShardInfo:
    """Writes a shard and its index.

    A retry is safe: the same rows give the same bytes, an existing file is replaced, and the
    new file appears only when it is complete.

    Args:
      partitions: as ``prepare`` returns them, in order.
      plan: of all shards.
      shard: its number among all shards.
      target: of all shards.

    Raises:
      DataError: the file read back differs from the bytes written.
    """
    split, number = plan.locate(shard)
    output = target.output
    path = shard_path(
        target.name, split.name, number, split.num_shards, output.compression, output.format
    )
    where = files.within(target.folder, path)
    with files.replace(where) as opened:
        file = _Counted(opened)
        sink = sink_of(output.format).open(cast("BinaryIO", file), target.settings(plan, shard))
        for prepared in partitions:
            rows = sink.add(prepared)
            if target.note is not None:
                target.note(rows)
        written = sink.close()
    _read_back(where, file.size, file.crc32c)
    info = ShardInfo(split.name, path, written.rows, file.size, written.value_bytes, file.crc32c)
    write_own_index(info.indexed(), part_compression_of(path), written.parts, target.folder)
    return info


class _Counted:
    """A file that is written once, with size and CRC-32C."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.size, self.crc32c = file, 0, 0

    def write(self, data: bytes | pa.Buffer) -> None:
        """Writes bytes behind the others."""
        self._file.write(data)
        self.size += len(data)
        self.crc32c = google_crc32c.extend(self.crc32c, bytes(data))


def prepare(
    batch: pa.RecordBatch | None, settings: Settings, shard: int, partition: int
) -> pa.RecordBatch:
    """Returns a partition as the sink of its format prepares it.

    Args:
      batch: encoded rows in order of addresses; ``None``: there are none.
      settings: of the dataset.
      shard: its number among all shards.
      partition: of the shard.
    """
    if batch is None:
        batch = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    order = written_order(settings.output, shard, partition, batch.num_rows)
    return sink_of(settings.output.format).prepare(batch, order, settings)


def _read_back(path: str, size: int, crc: int) -> None:
    found_size, found_crc = file_checksums.size_and_crc32c(path)
    if (found_size, found_crc) != (size, crc):
        raise DataError(
            f"{path}: read back {found_size} bytes with CRC-32C {found_crc:08x}, expected {size} "
            f"bytes with {crc:08x}. "
            "The storage changed or lost what was written: check it, and run again."
        )


class WriteShard(beam.DoFn):
    """Calls a function that writes a shard.

    Shards keep freed memory for the next one of the bundle. Earlier stages had blocks of other
    sizes, and the commit needs what shards had.
    """

    def __init__(self, write: Callable[[Any], ShardInfo]) -> None:
        self._write = write

    def start_bundle(self) -> None:
        """Gives back the memory of earlier stages."""
        give_back_memory()

    def process(self, element: Any) -> Iterator[ShardInfo]:
        """Yields what was written."""
        yield self._write(element)

    def finish_bundle(self) -> None:
        """Gives back the memory of shards."""
        give_back_memory()
