"""The global shuffle: where rows go, and in which order.

Rows are permuted twice: in each chunk, when it gets its split, and in each partition of a shard,
before it is written. Both permutations come from a seeded hash of addresses
(``core/arrow/hashing.py``). So the order depends only on the inputs, the recipe and the
seed. Without a shuffle, rows stay in source order.

In between, they are dealt to the partitions of shards. The position of a row in its split is the
number of rows in earlier chunks, plus its place in its own chunk. Positions are dealt like cards,
one to each place (a partition of a shard) in turn, so that shards differ by one row at most; in
very large splits, several at a time. The rows of a shuffled chunk are in random order, so that each
place gets consecutive ones of them. Without a shuffle, positions are cut into consecutive
intervals.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import slices
from beam_pipelines.core.arrow.columns import concat_batches, take_rows
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.exchange import CollectByPartition, Message
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    ShardPlan,
    SplitShards,
    load_shard_plan,
)
from beam_pipelines.transforms.spill import SpilledChunk

# Reading the rows of one place costs 0.05 ms, however few they are. With more places than this, a
# chunk's rows go to about this many places, and consecutive rows stay together in packs.
MOST_PLACES = 256
# Each place gets at least this many packs, so that shards have nearly equal sizes.
_MIN_PACKS = 32
_CODEC = "lz4"
# Prefix of a block: its length before compression.
_LENGTH = struct.Struct("<Q")


def deal(shards: SplitShards, output: Output, first: int, rows: int) -> npt.NDArray[np.int64]:
    """Returns int64[places + 1]: where the rows of each place begin.

    Place i gets the rows from ``starts[i]`` to before ``starts[i + 1]`` of a chunk, or of a part of
    one.

    Args:
      shards: of the split.
      output: the recipe's output; ``shuffle`` matters.
      first: position of the first row in its split.
      rows: of the chunk.
    """
    count = shards.num_shards * shards.partitions_per_shard
    places = np.arange(count + 1, dtype=np.int64)
    if not output.shuffle:  # the k-th of `count` intervals of equal size
        return np.clip(places * shards.rows // count - first, 0, rows)
    pack = pack_rows(shards.rows, count, len(shards.offsets))

    def dealt_before(position: int) -> npt.NDArray[np.int64]:
        rounds, rest = divmod(position, pack * count)
        return rounds * pack * places + np.minimum(pack * places, rest)

    return dealt_before(first + rows) - dealt_before(first)


def pack_rows(rows: int, places: int, chunks: float) -> int:
    """Returns how many consecutive rows of a chunk go to one place.

    The chunk is shuffled.

    Args:
      rows: of the split.
      places: partitions of all its shards.
      chunks: with rows of the split, or more.
    """
    if places <= MOST_PLACES:
        return 1
    return max(1, min(round(rows / chunks / MOST_PLACES), rows // (places * _MIN_PACKS)))


def shard_of(shards: SplitShards, output: Output, place: int) -> tuple[int, int]:
    """Returns the shard of a place, within its split, and its partition."""
    if output.shuffle:
        partition, shard = divmod(place, shards.num_shards)
        return shard, partition
    return divmod(place, shards.partitions_per_shard)


def places_of(shards: SplitShards, output: Output, shard: int) -> range:
    """Returns the places of a shard, by partition."""
    partitions = shards.partitions_per_shard
    if output.shuffle:
        return range(shard, shards.num_shards * partitions, shards.num_shards)
    return range(shard * partitions, (shard + 1) * partitions)


class DealtChunk(NamedTuple):
    """A spilled chunk with rows for a shard; see ``SpilledChunk``."""

    range_number: int
    part: int
    start: int
    rows: int
    tail: int


class DealtShard(NamedTuple):
    """A shard to write.

    Attributes:
      shard: its number among all shards.
      chunks: that have rows for it, in order.
    """

    shard: int
    chunks: tuple[DealtChunk, ...]


@dataclasses.dataclass
class DealChunks(beam.PTransform):
    """Deals spilled chunks to shards.

    The writers of shards read their rows from the chunks' files.

    Input: ``SpilledChunk`` elements, whose rows are in the order of ``shuffle.chunk_order``.
    Output: a ``DealtShard`` for each unfinished shard, also for one without rows.

    Attributes:
      output: the recipe's output.
      plan: path of the shard plan's file.
      planned: the same path as one element, once the file is complete.
    """

    output: Output
    plan: str
    planned: beam.PCollection[str]

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[DealtShard]:
        dealt = (
            spilled
            | "Await" >> beam.Map(lambda spilled, _: spilled, beam.pvalue.AsSingleton(self.planned))
            | "Deal"
            >> beam.ParDo(CollectByPartition(_deal, self.output, LoadedShardPlan(self.plan)))
        )
        opened = self.planned | "OpenShards" >> beam.FlatMap(
            lambda path: ((number, []) for number in load_shard_plan(path).unfinished())
        )
        return (
            (dealt, opened)
            | beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "Order" >> beam.MapTuple(_order)
        )


def _deal(
    chunk: SpilledChunk, output: Output, plan: LoadedShardPlan
) -> Iterator[tuple[int, DealtChunk]]:
    """Yields the shards that get rows of a chunk, with its address."""
    dealt = DealtChunk(chunk.range_number, chunk.part, chunk.start, chunk.rows, chunk.tail)
    for number in shards_of(plan.get(), output, chunk):
        yield number, dealt


def shards_of(plan: ShardPlan, output: Output, chunk: SpilledChunk) -> list[int]:
    """Returns the numbers of unfinished shards that get rows of a chunk."""
    shards = plan.splits[chunk.split]
    first = shards.offsets[chunk.range_number, chunk.part] + chunk.start
    places = np.flatnonzero(np.diff(deal(shards, output, first, chunk.rows)))
    if output.shuffle:
        numbers = np.unique(places % shards.num_shards)
    else:
        numbers = np.unique(places // shards.partitions_per_shard)
    found = (numbers + shards.first_shard).tolist()
    return [number for number in found if number not in plan.finished]


def _order(shard: int, dealt: Iterable[Sequence[Any]]) -> DealtShard:
    return DealtShard(shard, tuple(sorted(itertools.chain.from_iterable(dealt))))


def scatter(chunk: Chunk, plan: ShardPlan, output: Output) -> Message:
    """Cuts a chunk's rows into blocks for partitions of unfinished shards.

    No group of an engine's shuffle is larger than a partition.

    Args:
      chunk: features as columns, with the rows in ``chunk_order``.
      plan: all shards.
      output: the recipe's output; ``shuffle`` matters.
    """
    shards = plan.splits[chunk.split]
    first = shards.offsets[chunk[:2]] + chunk.start
    starts = deal(shards, output, first, chunk.batch.num_rows)
    blocks: dict[Any, slices.Buffers] = {}
    for place in np.flatnonzero(np.diff(starts)).tolist():
        shard, partition = shard_of(shards, output, place)
        number = shards.first_shard + shard
        if number not in plan.finished:
            first, end = int(starts[place]), int(starts[place + 1])
            blocks[number, partition] = [pack_block(chunk.batch.slice(first, end - first))]
    return Message((*chunk[:2], chunk.start, shards.first_shard), blocks)


def open_partitions(plan: ShardPlan) -> Message:
    """Sends nothing to all partitions, so that shards without rows are written."""
    places = [
        (number, partition)
        for number in plan.unfinished()
        for partition in range(plan.locate(number)[0].partitions_per_shard)
    ]
    return Message((-1, -1, -1, -1), dict.fromkeys(places, b""))


def chunk_order(
    output: Output, split: str, address: tuple[int, int], count: int
) -> npt.NDArray[np.int64] | None:
    """Returns int64[count]: the order in which a chunk's rows are dealt.

    Numbers are those in source order. ``None``: source order.
    """
    return (
        permutation((output.shuffle_seed, _number(split), *address), count)
        if output.shuffle
        else None
    )


def shuffle_chunk(chunk: Chunk, output: Output) -> Chunk:
    """Returns a chunk of a split with its rows in ``chunk_order``."""
    order = chunk_order(output, chunk.split, chunk[:2], chunk.batch.num_rows)
    return chunk if order is None else chunk._replace(batch=take_rows(chunk.batch, order))


def written_order(
    output: Output, shard: int, partition: int, count: int
) -> npt.NDArray[np.int64] | None:
    """Returns int64[count]: the order in which a partition's rows are written.

    Numbers are those in order of addresses. ``None``: that order.
    """
    return permutation((output.shuffle_seed, shard, partition), count) if output.shuffle else None


def permutation(address: Sequence[int], count: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of ``range(count)`` that depends on the address only."""
    seed = 0
    for number in address:
        seed = mix_int(seed + GOLDEN + number)
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    # All steps are bijections of 64 bits: no two keys are equal, so any sort gives the same order.
    return np.argsort(keys)


def pack_block(batch: pa.RecordBatch) -> bytes:
    """Packs rows for one partition; the block is compressed as a whole.

    A block of few rows is mostly metadata.
    """
    data = batches_to_bytes([batch])
    packed: bytes = pa.compress(data, _CODEC, asbytes=True)
    return _LENGTH.pack(len(data)) + packed


def unpack_blocks(blocks: Sequence[bytes]) -> pa.RecordBatch | None:
    """Returns the rows of several blocks, concatenated; ``None`` without blocks."""
    batches = [_unpack(block) for block in blocks]
    if len(batches) < 2:
        return batches[0] if batches else None
    return concat_batches(batches)


def _unpack(block: bytes) -> pa.RecordBatch:
    (size,) = _LENGTH.unpack_from(block)
    data = pa.py_buffer(block).slice(_LENGTH.size)
    (batch,) = bytes_to_batches(pa.decompress(data, size, _CODEC))
    return batch


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
