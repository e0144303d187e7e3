"""Writes shards: rows are ordered, serialized, compressed, written and read back."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

import apache_beam as beam
import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import byte_lengths, data_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.memory import give_back_memory
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks.tfrecord.deflate import PARTS, Stream, compress_parts
from beam_pipelines.storage import file_checksums, files
from beam_pipelines.tfrecord.part_index import IndexedShard
from beam_pipelines.tfrecord.records import framed_records
from beam_pipelines.transforms.exchange import (
    Address,
    Received,
    load_payload,
    new_attempt,
    payload_size,
)
from beam_pipelines.transforms.shard_index import write_own_index
from beam_pipelines.transforms.shards import LoadedShardPlan, ShardPlan, shard_path
from beam_pipelines.transforms.shuffle import (
    block_bounds,
    index_bytes,
    unpack_blocks,
    written_order,
)

T = TypeVar("T")

# Threads for one shard. A worker writes one shard at a time; more threads need more memory.
_THREADS = 2


class _Threads(threading.local):
    """The threads of a worker process, shared by all its shards.

    An allocator keeps the memory that a thread has freed; a new thread could not reuse it.
    """

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(_THREADS)


_threads = _Threads()
# Called with a number of rows, to show progress.
Note = Callable[[int], None]


class ShardInfo(NamedTuple):
    """A shard that was written.

    Attributes:
      split: its split.
      path: relative to the dataset.
      rows: examples in it.
      bytes: size of the file.
      framed_bytes: bytes of its framed examples before compression.
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


def write_shard(
    received: Received,
    plan: ShardPlan,
    name: str,
    output: Output,
    folder: str,
    lists: tuple[str, ...] = (),
    note: Note | None = None,
) -> ShardInfo:
    """Writes one shard and its index, and reads the shard back.

    A retry is safe: the same payloads give the same bytes, an existing file is replaced, and the
    new file appears only when it is complete.

    Raises:
      DataError: the file read back differs from the bytes written.
    """
    split, _ = plan.locate(received.partition)
    parts = _prefetched(_partitions(received, split.partitions_per_shard, output, lists))
    return _write_parts(parts, plan, received.partition, name, output, folder, note)


def _write_parts(
    batches: Iterable[pa.RecordBatch],
    plan: ShardPlan,
    shard: int,
    name: str,
    output: Output,
    folder: str,
    note: Note | None,
) -> ShardInfo:
    """Writes a shard and its index from batches of parts, in order.

    ``note`` is called with the rows of each batch. Other arguments and errors are those of
    ``write_shard``.
    """
    give_back_memory()
    split, number = plan.locate(shard)
    path = shard_path(name, split.name, number, split.num_shards, output.compression)
    stream, written = Stream(output.compression), []
    with files.replace(files.within(folder, path)) as file:
        size, crc = start, _ = _append(file, stream.start(), 0, 0)
        for batch in batches:
            stream.add(batch)
            data = batch.column("data")
            size, crc = _append(file, data_of(data), size, crc)
            written.append(batch.set_column(len(PARTS) - 1, "bytes", pa.array(byte_lengths(data))))
            if note is not None:
                note(pc.sum(batch.column("rows")).as_py() or 0)
        size, crc = _append(file, stream.end(), size, crc)
    _read_back(files.within(folder, path), size, crc)
    rows = sum(pc.sum(batch.column("rows")).as_py() or 0 for batch in written)
    info = ShardInfo(split.name, path, rows, size, stream.size, crc)
    write_own_index(info.indexed(), output.compression, start, written, folder)
    give_back_memory()  # after the last shard, the commit needs it
    return info


class StoredParts(NamedTuple):
    """The parts of a shard's partition, in a file of their own."""

    partition: int
    path: str


def store_parts(
    received: Received, output: Output, folder: str, lists: tuple[str, ...] = ()
) -> tuple[int, StoredParts]:
    """Serializes and compresses one partition of a shard into a new file.

    Returns:
      The shard's number, and where its parts are.
    """
    shard, partition = received.partition
    blocks = [_Block(content, 0, payload_size(content)) for content in received.contents]
    parts = _make_parts(blocks, output, shard, partition, lists)
    path = files.join(folder, f"{shard}_{partition}_{new_attempt()}")
    with files.replace(path) as file:
        file.write(batches_to_bytes([parts]))
    return shard, StoredParts(partition, path)


def assemble_shard(
    group: tuple[int, Iterable[StoredParts]],
    plan: ShardPlan,
    name: str,
    output: Output,
    folder: str,
    note: Note | None = None,
) -> ShardInfo:
    """Writes one shard from its stored parts.

    Bytes, arguments and errors are those of ``write_shard``.
    """
    shard, stored = group
    batches = (
        batch for own in sorted(stored) for batch in bytes_to_batches(files.read_bytes(own.path))
    )
    return _write_parts(batches, plan, shard, name, output, folder, note)


class _Block(NamedTuple):
    """One chunk's rows for one partition, as bytes of a payload."""

    content: bytes | Address
    start: int
    end: int


def _partitions(
    received: Received, partitions: int, output: Output, lists: tuple[str, ...]
) -> Iterator[Callable[[], pa.RecordBatch]]:
    """Yields for each partition, in order, a function that makes its parts."""
    bounds = [
        (content, _block_bounds(content, partitions))
        for content in received.contents
        if payload_size(content)
    ]
    for partition in range(partitions):
        blocks = [
            _Block(content, int(found[partition]), int(found[partition + 1]))
            for content, found in bounds
        ]
        yield partial(_make_parts, blocks, output, received.partition, partition, lists)


def _block_bounds(content: bytes | Address, partitions: int) -> npt.NDArray[np.int64]:
    return block_bounds(load_payload(content, payload_size(content) - index_bytes(partitions)))


def _make_parts(
    blocks: list[_Block], output: Output, shard: int, partition: int, lists: tuple[str, ...]
) -> pa.RecordBatch:
    """Returns a partition's parts, a batch of ``PARTS``."""
    records = _frame(blocks, output, shard, partition, lists)
    return compress_parts(output.compression, output.level, records, output.part_size)


def _frame(
    blocks: list[_Block], output: Output, shard: int, partition: int, lists: tuple[str, ...]
) -> pa.LargeBinaryArray:
    """Returns a partition's framed records.

    The rows themselves are freed before compression.
    """
    batch = unpack_blocks([load_payload(*block) for block in blocks if block.start < block.end])
    if batch is None:
        return pa.array([], pa.large_binary())
    rows = written_order(output, shard, partition, batch.num_rows)
    return framed_records(batch, rows, output.record, lists)


def _prefetched(steps: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yields the results of functions in order; threads compute the next ones."""
    waiting: list[Future[T]] = []
    for step in steps:
        waiting.append(_threads.executor.submit(step))
        if len(waiting) > _THREADS:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()


def _append(file: BinaryIO, data: bytes | pa.Buffer, size: int, crc: int) -> tuple[int, int]:
    file.write(data)
    return size + len(data), google_crc32c.extend(crc, bytes(data))


def _read_back(path: str, size: int, crc: int) -> None:
    found_size, found_crc = file_checksums.size_and_crc32c(path)
    if (found_size, found_crc) != (size, crc):
        raise DataError(
            f"{path}: read back {found_size} bytes with CRC-32C {found_crc:08x}, expected {size} "
            f"bytes with {crc:08x}. "
            "The storage changed or lost what was written: check it, and run again."
        )


@dataclasses.dataclass
class WriteShardFiles(beam.PTransform):
    """Writes one file for each shard.

    Input: one ``Received`` for each shard, or for each partition of one, from an exchange of
    ``ScatterRows``. Output: one ``ShardInfo`` for each shard.

    Attributes:
      name: the dataset's name.
      output: the recipe's output.
      plan: path of the shard plan's file, complete when the first ``Received`` arrives.
      folder: of the shards.
      lists: names of the features that are feature lists; empty: records are tf.Examples.
      parts: folder for the parts of shards, if each partition arrives separately; else ``None``.
      note: is called with the rows of each partition that is in its file; ``None``: nothing is.
    """

    name: str
    output: Output
    plan: str
    folder: str
    lists: tuple[str, ...] = ()
    parts: str | None = None
    note: Note | None = None

    def expand(self, all_received: beam.PCollection[Received]) -> beam.PCollection[ShardInfo]:
        if self.parts is not None:
            return (
                all_received
                | "StoreParts" >> beam.Map(store_parts, self.output, self.parts, self.lists)
                | "PartsOfShard" >> beam.GroupByKey()
                | "Assemble"
                >> beam.Map(
                    lambda group, plan, *own: assemble_shard(group, plan.get(), *own),
                    LoadedShardPlan(self.plan),
                    self.name,
                    self.output,
                    self.folder,
                    self.note,
                )
            )
        return all_received | "Write" >> beam.Map(
            lambda received, plan, *own: write_shard(received, plan.get(), *own),
            LoadedShardPlan(self.plan),
            self.name,
            self.output,
            self.folder,
            self.lists,
            self.note,
        )
