"""The global shuffle: the order of rows in chunks and in shards.

Rows are permuted twice: in each chunk, when it gets its split, and in each partition of a shard,
before it is written. In between they are dealt (``deal.py``). Both permutations come from a seeded
hash of addresses (``core/hashing.py``). So the order depends only on the inputs, the recipe and the
seed. Without a shuffle, rows stay in source order.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import slices
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.columns import concat_batches, take_rows
from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.deal import deal, shard_of
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    ShardPlan,
    load_shard_plan,
)

_CODEC = "lz4"
# Prefix of a block: its length before compression.
_LENGTH = struct.Struct("<Q")


def scatter(
    plan: ShardPlan,
    output: Output,
    split: str,
    address: tuple[int, int],
    batch: pa.RecordBatch,
    start: int,
) -> Iterator[Message]:
    """Cuts a chunk's rows into blocks for partitions of unfinished shards.

    Args:
      plan: all shards.
      output: the recipe's output; ``shuffle`` matters.
      split: the chunk's split.
      address: the chunk's (range_number, part).
      batch: features as columns; in the order of ``chunk_order``.
      start: number of the batch's first row in the chunk.

    Yields:
      One message, if there is a block. No group of an engine's shuffle is larger than a partition.
    """
    shards = plan.splits[split]
    starts = deal(shards, output, shards.offsets[address] + start, batch.num_rows)
    blocks: dict[Any, slices.Buffers] = {}
    for place in np.flatnonzero(np.diff(starts)).tolist():
        shard, partition = shard_of(shards, output, place)
        number = shards.first_shard + shard
        if number not in plan.finished:
            first, end = int(starts[place]), int(starts[place + 1])
            blocks[number, partition] = [pack_block(batch.slice(first, end - first))]
    if blocks:
        yield Message((*address, start, shards.first_shard), blocks)


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


@dataclasses.dataclass
class ScatterRows(beam.PTransform):
    """Deals the rows of chunks, for an exchange by the engine.

    Input: ``Chunk`` elements with a split and with features as columns, in ``chunk_order``. Output:
    two PCollections of ``Message`` elements for an exchange, whose partitions are (shard,
    partition). Every partition of an unfinished shard gets at least an empty payload, so that the
    shard is written even without rows.

    Attributes:
      output: the recipe's output.
      plan: path of the shard plan's file, complete when the first chunk arrives.
      planned: the same path as one element, once the file is complete.
    """

    output: Output
    plan: str
    planned: beam.PCollection[str]

    def expand(self, chunks: beam.PCollection[Chunk]) -> tuple[beam.PCollection[Message], ...]:
        rows = chunks | "Scatter" >> beam.FlatMap(
            _scatter_chunk, self.output, LoadedShardPlan(self.plan)
        )
        empty = self.planned | "OpenShards" >> beam.FlatMap(
            lambda path: _open_shards(load_shard_plan(path))
        )
        return rows, empty


def _scatter_chunk(chunk: Chunk, output: Output, plan: LoadedShardPlan) -> Iterator[Message]:
    address = (chunk.range_number, chunk.part)
    return scatter(plan.get(), output, chunk.split, address, chunk.batch, chunk.start)


def _open_shards(plan: ShardPlan) -> Iterator[Message]:
    for number in plan.unfinished():
        partitions = plan.locate(number)[0].partitions_per_shard
        yield Message(
            (-1, -1, -1, -1), {(number, partition): b"" for partition in range(partitions)}
        )


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
