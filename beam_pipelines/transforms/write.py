"""Writes shards: rows are ordered, serialized, compressed, written and read back."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import apache_beam as beam
import google_crc32c
import pyarrow as pa

from beam_pipelines.core.arrow.memory import give_back_memory
from beam_pipelines.core.errors import DataError, RowError
from beam_pipelines.core.layout.shard_formats import part_compression_of
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks import Settings, sink_of
from beam_pipelines.tfrecord.part_index import IndexedShard
from beam_pipelines.transforms import deal
from beam_pipelines.transforms.exchange import Sent
from beam_pipelines.transforms.shards import LoadedShardPlan, ShardPlan, shard_path, write_own_index
from beam_pipelines.transforms.shuffle import written_order

T = TypeVar("T")

# Called with a number of rows, to show progress.
Note = Callable[[int], None]
# Encodes rows; the text is their file, for messages.
Encode = Callable[[pa.RecordBatch, str], pa.RecordBatch]


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
        self.crc32c = google_crc32c.extend(self.crc32c, data)


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


# A worker prepares a shard's partitions in one thread, because other workers have the other cores,
# and each partition takes memory. Nothing else may be left to do while it writes the last shards:
# they have two threads.
_THREADS = 2
_LAST_SHARDS = 2


class _Threads(threading.local):
    """The threads of a worker process, shared by all its shards.

    An allocator keeps the memory that a thread has freed; a new thread could not reuse it.
    """

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(_THREADS)


_threads = _Threads()


def encode_rows(encode: Encode, loaded: deal.Loaded) -> pa.RecordBatch:
    """Encodes the rows of a partition.

    Raises:
      RowError: a value cannot be encoded; the message names the file of its row.
    """
    batch, origins = loaded
    try:
        return encode(batch, origins[0].source)
    except RowError:
        start = 0
        for own in origins:  # finds the rows that fail, and their file
            encode(batch.slice(start, own.rows), own.source)
            start += own.rows
        raise


class Spilled(NamedTuple):
    """The folders of spilled chunks, and of rows that were merged.

    The latter is empty if they were not.
    """

    folder: str
    merged: str = ""

    def loads(
        self, dealt: deal.DealtShard, plan: ShardPlan, output: Output
    ) -> list[Callable[[], deal.Loaded] | None]:
        """Returns functions that load a shard's partitions; ``None`` of one without rows."""
        found: Any
        if self.merged:
            found = [[] for _ in range(plan.locate(dealt.shard)[0].partitions_per_shard)]
            for partition, sent in cast("Sequence[tuple[int, Sent]]", dealt.dealt):
                found[partition].append(sent)
            load = partial(deal.load_merged, folder=self.merged)
        else:
            schema, found = deal.place_shard(dealt, plan, output, self.folder)
            load = partial(deal.load_rows, schema)
        return [partial(load, own) if own else None for own in found]


def write_dealt(
    dealt: deal.DealtShard,
    plan: ShardPlan,
    encode: Encode,
    target: Target,
    spilled: Spilled,
) -> ShardInfo:
    """Writes a dealt shard.

    Args:
      dealt: the shard.
      plan: of all shards.
      encode: encodes the rows.
      target: of all shards.
      spilled: where the rows are.

    Raises:
      DataError: as ``write_partitions``, ``load_rows`` and ``encode_rows`` raise it.
    """
    settings = target.settings(plan, dealt.shard)
    loads = spilled.loads(dealt, plan, target.output)

    def prepared(partition: int, load: Callable[[], deal.Loaded] | None) -> pa.RecordBatch:
        batch = None if load is None else encode_rows(encode, load())
        return prepare(batch, settings, dealt.shard, partition)

    steps = (partial(prepared, *each) for each in enumerate(loads))
    threads = _THREADS if dealt.shard + _LAST_SHARDS >= plan.num_shards else 1
    return write_partitions(_prefetched(steps, threads), plan, dealt.shard, target)


def _prefetched(steps: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Yields the results of functions in order; threads compute the next ones."""
    waiting: list[Future[T]] = []
    for step in steps:
        done = [waiting.pop(0).result()] if len(waiting) == threads else []
        waiting.append(_threads.executor.submit(step))
        yield from done
    for future in waiting:
        yield future.result()


class _WriteShard(beam.DoFn):
    """Writes dealt shards.

    Shards keep freed memory for the next one of the bundle. Earlier stages had blocks of other
    sizes, and the commit needs what shards had.
    """

    def __init__(
        self, plan: LoadedShardPlan, encode: Encode, target: Target, spilled: Spilled
    ) -> None:
        self._plan, self._encode, self._target, self._spilled = plan, encode, target, spilled

    def start_bundle(self) -> None:
        give_back_memory()

    def process(self, dealt: deal.DealtShard) -> Iterator[ShardInfo]:
        yield write_dealt(dealt, self._plan.get(), self._encode, self._target, self._spilled)

    def finish_bundle(self) -> None:
        give_back_memory()


@dataclasses.dataclass
class WriteDealtShards(beam.PTransform):
    """Writes one file for each shard, from the files of spilled chunks.

    Input: ``DealtShard`` elements. Output: one ``ShardInfo`` for each.

    Attributes:
      target: of the shards.
      plan: path of the shard plan's file, complete when the first element arrives.
      spilled: where the rows are.
      encode: encodes the rows; what it loads is complete when the first element arrives.
    """

    target: Target
    plan: str
    spilled: Spilled
    encode: Encode

    def expand(self, dealt: beam.PCollection[deal.DealtShard]) -> beam.PCollection[ShardInfo]:
        return dealt | "Write" >> beam.ParDo(
            _WriteShard(LoadedShardPlan(self.plan), self.encode, self.target, self.spilled)
        )
