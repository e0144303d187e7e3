"""Writes shards: rows are ordered, serialized, compressed, written and read back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, cast

import apache_beam as beam
import google_crc32c
import pyarrow as pa

from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.arrow.memory import give_back_memory
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import part_compression_of
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks import Settings, formats_of, sink_of
from beam_pipelines.tfrecord.part_index import IndexedShard
from beam_pipelines.transforms.shards import ShardPlan, shard_path, write_own_index
from beam_pipelines.transforms.shuffle import written_order

# Called with a number of rows, to show progress.
Note = Callable[[int], None]


class WrittenAlso(NamedTuple):
    """A file with a shard's rows in another format.

    Attributes:
      format: of the file.
      path: relative to the dataset.
      rows: in it.
      bytes: size of the file.
      crc32c: of the file.
    """

    format: str
    path: str
    rows: int
    bytes: int
    crc32c: int


class ShardInfo(NamedTuple):
    """A shard that was written.

    Attributes:
      split: its split.
      path: relative to the dataset.
      rows: examples in it.
      bytes: size of the file.
      framed_bytes: bytes of its framed examples before compression; of Parquet, of its values.
      crc32c: of the file.
      also: its rows in other formats.
    """

    split: str
    path: str
    rows: int
    bytes: int
    framed_bytes: int
    crc32c: int
    also: tuple[WrittenAlso, ...] = ()

    def indexed(self) -> IndexedShard:
        """Returns the shard as its index names it."""
        return IndexedShard(self.path, self.rows, self.bytes, f"{self.crc32c:08x}")

    @property
    def files(self) -> tuple[ShardInfo | WrittenAlso, ...]:
        """The files with its rows, in all formats."""
        return self, *self.also


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

    def settings(self, plan: ShardPlan) -> Settings:
        """Returns the settings of the sinks."""
        return Settings(self.output, self.lists, plan.columns)


# A partition in each format, as its sink prepared it.
Prepared = Mapping[str, pa.RecordBatch]


def write_partitions(
    partitions: Iterable[Prepared], plan: ShardPlan, shard: int, target: Target
) -> ShardInfo:
    """Writes a shard in all its formats, and its index.

    A retry is safe: the same rows give the same bytes, an existing file is replaced, and the
    new file appears only when it is complete.

    Args:
      partitions: prepared, in order.
      plan: of all shards.
      shard: its number among all shards.
      target: of all shards.

    Raises:
      DataError: the file read back differs from the bytes written.
    """
    split, number = plan.locate(shard)
    output, folder, settings = target.output, target.folder, target.settings(plan)
    with contextlib.ExitStack() as stack:
        opened = {}
        for format_ in formats_of(output):
            path = shard_path(
                target.name, split.name, number, split.num_shards, output.compression, format_
            )
            file = _Counted(stack.enter_context(files.replace(files.within(folder, path))))
            opened[format_] = path, file, sink_of(format_).open(cast("BinaryIO", file), settings)
        for prepared in partitions:
            counts = [sink.add(prepared[format_]) for format_, (*_, sink) in opened.items()]
            if target.note is not None:
                target.note(counts[0])
        written = {format_: sink.close() for format_, (*_, sink) in opened.items()}
    for path, file, _ in opened.values():
        _read_back(files.within(folder, path), file.size, file.crc32c)
    (path, file, _), main = opened.pop(output.format), written[output.format]
    also = tuple(
        WrittenAlso(format_, path, written[format_].rows, file.size, file.crc32c)
        for format_, (path, file, _) in opened.items()
    )
    info = ShardInfo(split.name, path, main.rows, file.size, main.value_bytes, file.crc32c, also)
    write_own_index(info.indexed(), part_compression_of(path), main.parts, folder)
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
) -> Prepared:
    """Returns a partition in each format.

    Args:
      batch: encoded rows in order of addresses; ``None``: there are none.
      settings: of the dataset.
      shard: its number among all shards.
      partition: of the shard.
    """
    if batch is None:
        batch = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    order = written_order(settings.output, shard, partition, batch.num_rows)
    sinks = {format_: sink_of(format_) for format_ in formats_of(settings.output)}
    if order is not None and len(sinks) > 1:
        batch, order = take_rows(batch, order), None
    return {format_: sink.prepare(batch, order, settings) for format_, sink in sinks.items()}


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
