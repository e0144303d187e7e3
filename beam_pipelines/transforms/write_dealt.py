"""Writes dealt shards: reads their rows, encodes and writes them.

The rows are in the files of spilled chunks, and those of one place are next to each other. So
spilled rows are not exchanged: each partition of a shard takes its rows from these files.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.errors import DataError, RowError
from beam_pipelines.core.layout import stripes
from beam_pipelines.encodings.apply import BatchEncoder, ChunkRows
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.recipe.output import Output
from beam_pipelines.storage import files
from beam_pipelines.transforms import write
from beam_pipelines.transforms.encode import LoadedEncodings
from beam_pipelines.transforms.shards import LoadedShardPlan, ShardPlan
from beam_pipelines.transforms.shuffle import DealtShard, deal, places_of
from beam_pipelines.transforms.spill import changed, checked_tail, spilled_path

T = TypeVar("T")

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


class PlacedRows(NamedTuple):
    """Rows of a spilled chunk for one partition.

    Attributes:
      path: the chunk's file.
      span: where they are in it.
      source: the file that they come from.
      rows: where they are in the chunk.
    """

    path: str
    span: stripes.Span
    source: str
    rows: ChunkRows


def place_rows(
    dealt: DealtShard, plan: ShardPlan, output: Output, folder: str
) -> tuple[pa.Schema, list[list[PlacedRows]]]:
    """Returns the schema of a shard's rows, and where they are.

    The rows of each partition are in order.

    Args:
      dealt: the shard.
      plan: of all shards.
      output: the recipe's output.
      folder: of the spilled chunks.

    Raises:
      DataError: a file is not as it was written.
    """
    shards, number = plan.locate(dealt.shard)
    places = places_of(shards, output, number)
    placed: list[list[PlacedRows]] = [[] for _ in places]
    schema = pa.schema([])
    for chunk in dealt.chunks:
        path = spilled_path(folder, chunk[:2], chunk.start, shards.name)
        tail = checked_tail(_read(path, chunk.tail), path, chunk.rows)
        schema = tail.schema
        first = shards.offsets[chunk[:2]] + chunk.start
        starts = deal(shards, output, first, chunk.rows)
        for place, own in zip(places, placed, strict=True):
            begin, count = int(starts[place]), int(starts[place + 1] - starts[place])
            if count:
                rows = ChunkRows(chunk.range_number, chunk.part, chunk.start + begin, count)
                own.append(PlacedRows(path, tail.span(begin, count), tail.about["path"], rows))
    return schema, placed


def _read(path: str, begin: int, size: int = -1) -> bytes:
    with files.open_read(path) as file:
        file.seek(begin)
        data = file.read(size)
    if size not in (-1, len(data)):
        raise DataError(changed(path, f"{len(data)} bytes at {begin}, expected {size}"))
    return data


def load_rows(schema: pa.Schema, placed: Sequence[PlacedRows]) -> pa.RecordBatch:
    """Returns the rows of a partition, in order of addresses.

    Raises:
      DataError: a file is not as it was written.
    """
    pieces = [
        (_read(own.path, own.span.begin, own.span.end - own.span.begin), own.span) for own in placed
    ]
    try:
        return stripes.unpack(schema, pieces)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(changed(placed[0].path, str(error))) from error


def encode_rows(
    encode: BatchEncoder, split: str, batch: pa.RecordBatch, placed: Sequence[PlacedRows]
) -> pa.RecordBatch:
    """Encodes the rows of a partition.

    Raises:
      RowError: a value cannot be encoded; the message names the file of its row.
    """
    fitted_on = [own.rows for own in placed] if split in encode.plan.fit.splits else None
    try:
        return encode(batch, placed[0].source, fitted_on)
    except RowError:
        start = 0
        for own in placed:  # finds the rows that fail, and their file
            rows = batch.slice(start, own.rows.rows)
            encode(rows, own.source, fitted_on and [own.rows])
            start += own.rows.rows
        raise


def write_dealt(
    dealt: DealtShard,
    plan: ShardPlan,
    encode: EncodePlan | None,
    target: write.Target,
    spilled: str,
) -> write.ShardInfo:
    """Writes a dealt shard.

    Args:
      dealt: the shard.
      plan: of all shards.
      encode: fitted encodings; ``None``: the spilled rows are encoded.
      target: of all shards.
      spilled: folder of the spilled chunks.

    Raises:
      DataError: as ``write_partitions``, ``load_rows`` and ``encode_rows`` raise it.
    """
    schema, placed = place_rows(dealt, plan, target.output, spilled)
    split, settings = plan.locate(dealt.shard)[0].name, target.settings(plan)
    encoder = None if encode is None else BatchEncoder(encode)

    def prepared(partition: int) -> write.Prepared:
        if not placed[partition]:
            return write.prepare(None, settings, dealt.shard, partition)
        batch = load_rows(schema, placed[partition])
        if encoder is not None:
            batch = encode_rows(encoder, split, batch, placed[partition])
        return write.prepare(batch, settings, dealt.shard, partition)

    steps = (partial(prepared, partition) for partition in range(len(placed)))
    threads = _THREADS if dealt.shard + _LAST_SHARDS >= plan.num_shards else 1
    return write.write_partitions(_prefetched(steps, threads), plan, dealt.shard, target)


def _prefetched(steps: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Yields the results of functions in order; threads compute the next ones."""
    waiting: list[Future[T]] = []
    for step in steps:
        done = [waiting.pop(0).result()] if len(waiting) == threads else []
        waiting.append(_threads.executor.submit(step))
        yield from done
    for future in waiting:
        yield future.result()


@dataclasses.dataclass
class WriteDealtShards(beam.PTransform):
    """Writes one file for each shard, from the files of spilled chunks.

    Input: ``DealtShard`` elements. Output: one ``ShardInfo`` for each.

    Attributes:
      target: of the shards.
      plan: path of the shard plan's file, complete when the first element arrives.
      spilled: folder of the spilled chunks.
      encode: the encodings; ``None``: the spilled rows are encoded.
      fitted: folder of the fitted encodings, complete when the first element arrives.
    """

    target: write.Target
    plan: str
    spilled: str
    encode: EncodePlan | None
    fitted: str = ""

    def expand(self, dealt: beam.PCollection[DealtShard]) -> beam.PCollection[write.ShardInfo]:
        encodings = None if self.encode is None else LoadedEncodings(self.encode, self.fitted)
        plan = LoadedShardPlan(self.plan)
        return dealt | "Write" >> beam.ParDo(
            write.WriteShard(partial(_write, plan, encodings, self.target, self.spilled))
        )


def _write(
    plan: LoadedShardPlan,
    encodings: LoadedEncodings | None,
    target: write.Target,
    spilled: str,
    dealt: DealtShard,
) -> write.ShardInfo:
    encode = None if encodings is None else encodings.get()
    return write_dealt(dealt, plan.get(), encode, target, spilled)
