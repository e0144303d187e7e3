"""The global shuffle: the shard and the position of each row.

The position of a row in its split is the number of rows in earlier chunks, plus its place in its
own chunk. Positions are dealt like cards, one to each shard in turn, so that shards differ by one
row at most; in very large splits, several at a time. Rows are permuted twice: in each chunk, when
it gets its split, and in each partition, before it is written. Both permutations come from a seeded
hash of addresses (``core/hashing.py``). So the order depends only on the inputs, the recipe and the
seed.

Without a shuffle, positions are cut into consecutive intervals, and rows stay in source order.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import slices
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.columns import concat_batches, take_rows
from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.ipc import bytes_to_batches
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    ShardPlan,
    SplitShards,
    load_shard_plan,
)

# A block costs 0.1 ms, whatever its size. With more places than this, a chunk is cut into about
# this many blocks, and consecutive rows of the shuffled chunk stay together in packs.
MAX_BLOCKS = 256
# Each place gets at least this many packs, so that shards have nearly equal sizes.
_MIN_PACKS = 32
# lz4 halves rows at 0.6 GB/s a core, which costs as much as three writes to the page cache. So only
# blocks that leave the machine are compressed.
_CODEC = "lz4"
# Prefix of a block: its length before compression; 0: it is not compressed.
_LENGTH = struct.Struct("<Q")


def scatter(
    plan: ShardPlan,
    output: Output,
    split: str,
    address: tuple[int, int],
    batch: pa.RecordBatch,
    compress: bool = False,
    apart: bool = False,
    start: int = 0,
) -> Iterator[Message]:
    """Cuts a chunk's rows into a payload for each unfinished shard.

    A payload has a block for each partition of its shard.

    Args:
      plan: all shards.
      output: the recipe's output; ``shuffle`` matters.
      split: the chunk's split.
      address: the chunk's (range_number, part).
      batch: features as columns; in the order of ``chunk_order``.
      compress: compresses blocks.
      apart: makes each block a payload of its own, for ``(shard, partition)``, so that no group of
        an engine's shuffle is larger than a partition.
      start: number of the batch's first row in the chunk.

    Yields:
      One message, if there is a payload. So elements and files stay few for many chunks and shards.
    """
    shards = plan.splits[split]
    payloads: dict[Any, slices.Buffers] = {}
    for shard, hands in itertools.groupby(
        sorted(_deal(shards, output, shards.offsets[address] + start, batch.num_rows)),
        key=lambda hand: hand.shard,
    ):
        if shards.first_shard + shard not in plan.finished:
            number = shards.first_shard + shard
            rows = {hand.partition: batch.slice(hand.start, hand.rows) for hand in hands}
            if apart:
                payloads |= {
                    (number, partition): [_pack(own, compress)] for partition, own in rows.items()
                }
            else:
                payloads[number] = pack_blocks(rows, shards.partitions_per_shard, compress)
    if payloads:
        yield Message((*address, start, shards.first_shard), payloads)


class _Hand(NamedTuple):
    """Consecutive rows of a chunk for one partition of one shard."""

    shard: int
    partition: int
    start: int
    rows: int


def _deal(shards: SplitShards, output: Output, first: int, rows: int) -> Iterator[_Hand]:
    """Yields the hands of a chunk, or of a part of one.

    The rows of a shuffled chunk are in random order, so that each place gets consecutive rows.

    Args:
      first: position of the first row in its split.
      rows: of the chunk.
    """
    positions = first + np.arange(rows, dtype=np.int64)
    count = shards.num_shards * shards.partitions_per_shard
    if output.shuffle:
        places = positions // pack_rows(shards.rows, count, len(shards.offsets)) % count
    else:  # the k-th of `count` intervals of equal size
        places = ((positions + 1) * count - 1) // max(shards.rows, 1)
    dealt = np.bincount(places, minlength=count)
    ends = np.cumsum(dealt)
    for place in np.flatnonzero(dealt).tolist():
        if output.shuffle:
            partition, shard = divmod(place, shards.num_shards)
        else:
            shard, partition = divmod(place, shards.partitions_per_shard)
        yield _Hand(shard, partition, int(ends[place] - dealt[place]), int(dealt[place]))


def pack_rows(rows: int, places: int, chunks: float) -> int:
    """Returns how many consecutive rows of a chunk go to one place.

    The chunk is shuffled.

    Args:
      rows: of the split.
      places: partitions of all its shards.
      chunks: with rows of the split, or more.
    """
    if places <= MAX_BLOCKS:
        return 1
    return max(1, min(round(rows / chunks / MAX_BLOCKS), rows // (places * _MIN_PACKS)))


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


def pack_blocks(
    rows: Mapping[int, pa.RecordBatch], partitions: int, compress: bool = False
) -> list[bytes | pa.Buffer]:
    """Packs a chunk's rows for a shard: blocks, then their index.

    Args:
      rows: partition -> its rows; a partition without rows may be missing.
      partitions: of the shard.
      compress: compresses each block as a whole; a block of few rows is mostly metadata.

    Returns:
      Buffers to concatenate.
    """
    blocks = [
        _pack(rows[partition], compress) if partition in rows else b""
        for partition in range(partitions)
    ]
    return [*blocks, struct.pack(f"<{partitions}Q", *itertools.accumulate(map(len, blocks)))]


def _pack(batch: pa.RecordBatch, compress: bool) -> bytes | pa.Buffer:
    sink = pa.BufferOutputStream()
    sink.write(_LENGTH.pack(0))
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data = sink.getvalue()
    if not compress:
        return data
    packed: bytes = pa.compress(data.slice(_LENGTH.size), _CODEC, asbytes=True)
    return _LENGTH.pack(data.size - _LENGTH.size) + packed


def index_bytes(partitions: int) -> int:
    """Returns the size of the index that ends a ``pack_blocks`` payload."""
    return partitions * _LENGTH.size


def block_bounds(index: bytes) -> npt.NDArray[np.int64]:
    """Returns int64[partitions + 1]: the bounds of each partition's block.

    Partition i has the bytes from ``bounds[i]`` to ``bounds[i + 1]``, none without rows.
    """
    return np.concatenate([np.zeros(1, np.int64), np.frombuffer(index, "<i8")])


def unpack_blocks(blocks: Sequence[bytes]) -> pa.RecordBatch | None:
    """Returns the rows of several blocks, concatenated; ``None`` without blocks."""
    batches = [_unpack(block) for block in blocks]
    if len(batches) < 2:
        return batches[0] if batches else None
    return concat_batches(batches)


def _unpack(block: bytes) -> pa.RecordBatch:
    (size,) = _LENGTH.unpack_from(block)
    data = pa.py_buffer(block).slice(_LENGTH.size)
    (batch,) = bytes_to_batches(pa.decompress(data, size, _CODEC) if size else data)
    return batch


@dataclasses.dataclass
class ScatterRows(beam.PTransform):
    """Deals the rows of chunks to shards.

    Input: ``Chunk`` elements with a split and with features as columns, in ``chunk_order``. Output:
    two PCollections of ``Message`` elements for an exchange; partitions are shards, or partitions
    of shards. Every unfinished shard gets at least an empty payload, so that it is written even
    without rows.

    Attributes:
      output: the recipe's output.
      plan: path of the shard plan's file, complete when the first chunk arrives.
      planned: the same path as one element, once the file is complete.
      compress, apart: as in ``scatter``.
    """

    output: Output
    plan: str
    planned: beam.PCollection[str]
    compress: bool
    apart: bool

    def expand(self, chunks: beam.PCollection[Chunk]) -> tuple[beam.PCollection[Message], ...]:
        rows = chunks | "Scatter" >> beam.FlatMap(
            _scatter_chunk, self.output, LoadedShardPlan(self.plan), self.compress, self.apart
        )
        empty = self.planned | "OpenShards" >> beam.FlatMap(
            lambda path, apart: _open_shards(load_shard_plan(path), apart), self.apart
        )
        return rows, empty


def _scatter_chunk(
    chunk: Chunk, output: Output, plan: LoadedShardPlan, compress: bool, apart: bool
) -> Iterator[Message]:
    address = (chunk.range_number, chunk.part)
    return scatter(
        plan.get(), output, chunk.split, address, chunk.batch, compress, apart, chunk.start
    )


def _open_shards(plan: ShardPlan, apart: bool) -> Iterator[Message]:
    unfinished = [number for number in range(plan.num_shards) if number not in plan.finished]
    if not apart:
        yield Message((-1, -1, -1, -1), dict.fromkeys(unfinished, b""))
        return
    for number in unfinished:
        partitions = plan.locate(number)[0].partitions_per_shard
        yield Message(
            (-1, -1, -1, -1), {(number, partition): b"" for partition in range(partitions)}
        )


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
