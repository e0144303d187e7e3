"""Writes dealt shards: loads their rows, encodes and writes them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.errors import RowError
from beam_pipelines.encodings.apply import BatchEncoder
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms import write
from beam_pipelines.transforms.deal import (
    DealtShard,
    Loaded,
    load_merged,
    load_rows,
    place_shard,
)
from beam_pipelines.transforms.encode import LoadedEncodings
from beam_pipelines.transforms.exchange import Sent
from beam_pipelines.transforms.shards import LoadedShardPlan, ShardPlan

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


def encode_rows(encode: BatchEncoder, loaded: Loaded) -> pa.RecordBatch:
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
        self, dealt: DealtShard, plan: ShardPlan, output: Output
    ) -> list[Callable[[], Loaded] | None]:
        """Returns functions that load a shard's partitions; ``None`` of one without rows."""
        found: Any
        if self.merged:
            found = [[] for _ in range(plan.locate(dealt.shard)[0].partitions_per_shard)]
            for partition, sent in cast("Sequence[tuple[int, Sent]]", dealt.dealt):
                found[partition].append(sent)
            load = partial(load_merged, folder=self.merged)
        else:
            schema, found = place_shard(dealt, plan, output, self.folder)
            load = partial(load_rows, schema)
        return [partial(load, own) if own else None for own in found]


def write_dealt(
    dealt: DealtShard,
    plan: ShardPlan,
    encode: EncodePlan | None,
    target: write.Target,
    spilled: Spilled,
) -> write.ShardInfo:
    """Writes a dealt shard.

    Args:
      dealt: the shard.
      plan: of all shards.
      encode: fitted encodings; ``None``: the spilled rows are encoded.
      target: of all shards.
      spilled: where the rows are.

    Raises:
      DataError: as ``write_partitions``, ``load_rows`` and ``encode_rows`` raise it.
    """
    settings = target.settings(plan, dealt.shard)
    encoder = None if encode is None else BatchEncoder(encode)
    loads = spilled.loads(dealt, plan, target.output)

    def prepared(partition: int, load: Callable[[], Loaded] | None) -> pa.RecordBatch:
        batch = None
        if load is not None:
            loaded = load()
            batch = loaded[0] if encoder is None else encode_rows(encoder, loaded)
        return write.prepare(batch, settings, dealt.shard, partition)

    steps = (partial(prepared, *each) for each in enumerate(loads))
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
      spilled: where the rows are.
      encode: the encodings; ``None``: the spilled rows are encoded.
      fitted: folder of the fitted encodings, complete when the first element arrives.
    """

    target: write.Target
    plan: str
    spilled: Spilled
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
    spilled: Spilled,
    dealt: DealtShard,
) -> write.ShardInfo:
    encode = None if encodings is None else encodings.get()
    return write_dealt(dealt, plan.get(), encode, target, spilled)
