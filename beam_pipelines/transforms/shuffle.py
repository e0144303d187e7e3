"""The global shuffle: which row goes to which shard, and in which order a shard holds its rows.

Every row of a split has a position: rows of earlier chunks, plus its place in its own chunk.
Dealing positions out like cards, one to each shard in turn, makes shards of equal size, give or
take one row; of very large splits they are dealt a few at a time. The deck is shuffled twice, a
chunk's rows when it gets its split and a partition's rows before they are written. Both
permutations come from a seeded hash of addresses (hashing.py), so that the order depends on the
inputs, the recipe and the seed alone.

Without a shuffle the positions are cut into consecutive intervals, and every row stays in source
order.
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
from beam_pipelines.recipe.model import Output
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    ShardPlan,
    SplitShards,
    load_shard_plan,
)

# A block costs a tenth of a millisecond, whatever its size. So where there are more places than
# this, a chunk is cut into about so many blocks: some consecutive cards of the shuffled chunk go to
# one place together,
MAX_BLOCKS = 256
# but not so many that a place gets fewer packs than this, as shards are to be even.
_MIN_PACKS = 32
# lz4 halves rows at 0.6 GB/s a core: as much as it costs to write them to the page cache three
# times. So it is for what leaves the machine.
_CODEC = "lz4"
# Before a block stands its length before compression; 0: it is not compressed.
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
    """Cuts a chunk's rows into a payload for each shard that is yet to be written, with a block for
    each of its partitions.

    Args:
      plan: all shards.
      output: the recipe's output; ``shuffle`` matters.
      split: the chunk's split.
      address: the chunk's (range_number, part).
      batch: features as columns; shuffled, if rows are to be (``chunk_order``), else in source
        order.
      compress: whether blocks are compressed.
      apart: whether each block is a payload of its own, for ``(shard, partition)``: so no group of
        an engine's shuffle is larger than a partition.
      start: number of the batch's first row in the chunk.

    Yields:
      One message, if there is anything to send: so few elements, and files, that many chunks for
        many shards cost the runner little.
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
    """Rows of a chunk, one after the other, that are dealt to one partition of one shard of its
    split.
    """

    shard: int
    partition: int
    start: int
    rows: int


def _deal(shards: SplitShards, output: Output, first: int, rows: int) -> Iterator[_Hand]:
    """Yields the hands of a chunk, or of a part of one, whose first row has a position in its
    split.

    Of a shuffled chunk it does not matter which rows a place gets, only how many: so it gets those
    that follow each other.
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
    """Returns how many consecutive rows of a shuffled chunk are dealt to one place together.

    Args:
      rows: of the split.
      places: partitions of all its shards.
      chunks: that the split has rows of, or more.
    """
    if places <= MAX_BLOCKS:
        return 1
    return max(1, min(round(rows / chunks / MAX_BLOCKS), rows // (places * _MIN_PACKS)))


def chunk_order(
    output: Output, split: str, address: tuple[int, int], count: int
) -> npt.NDArray[np.int64] | None:
    """Returns the order in which the rows of a chunk of a split are dealt, given in source order;
    ``None``: as they come.
    """
    return (
        permutation((output.shuffle_seed, _number(split), *address), count)
        if output.shuffle
        else None
    )


def shuffle_chunk(chunk: Chunk, output: Output) -> Chunk:
    """Returns a chunk of a split with its rows in the order in which they are dealt."""
    order = chunk_order(output, chunk.split, chunk[:2], chunk.batch.num_rows)
    return chunk if order is None else chunk._replace(batch=take_rows(chunk.batch, order))


def written_order(
    output: Output, shard: int, partition: int, count: int
) -> npt.NDArray[np.int64] | None:
    """Returns the order in which a partition's rows are written, given in order of their addresses;
    ``None``: as they come.
    """
    return permutation((output.shuffle_seed, shard, partition), count) if output.shuffle else None


def permutation(address: Sequence[int], count: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of ``range(count)`` that depends on the address alone."""
    seed = 0
    for number in address:
        seed = mix_int(seed + GOLDEN + number)
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    # Every step is a bijection of 64 bits: no two keys are equal, so that any sort gives the same.
    return np.argsort(keys)


def pack_blocks(
    rows: Mapping[int, pa.RecordBatch], partitions: int, compress: bool = False
) -> list[bytes | pa.Buffer]:
    """Packs what a shard gets of a chunk: a block for each of its partitions, and behind them where
    each of these ends.

    Args:
      rows: partition -> its rows; those that get none may be missing.
      partitions: of the shard.
      compress: whether blocks are compressed, each as a whole: of few rows they are mostly
        metadata.

    Returns:
      What is to stand one behind the other.
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
    """Returns how many bytes, at the end of a payload of ``pack_blocks``, say where its blocks
    lie.
    """
    return partitions * _LENGTH.size


def block_bounds(index: bytes) -> npt.NDArray[np.int64]:
    """Returns int64[partitions + 1]: partition i has the bytes from ``bounds[i]`` to
    ``bounds[i + 1]``, none if it got no rows.
    """
    return np.concatenate([np.zeros(1, np.int64), np.frombuffer(index, "<i8")])


def unpack_blocks(blocks: Sequence[bytes]) -> pa.RecordBatch | None:
    """Returns the rows of several blocks, one after the other, or ``None`` if there are none."""
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
    """Deals the rows of chunks out to shards.

    Input: ``Chunk`` elements with a split and with features as columns, in the order of
    ``chunk_order``. Output: two PCollections of ``Message`` elements for an exchange, whose
    partitions are shards, or partitions of shards. Every shard that is not finished is sent at
    least an empty payload, so that it is written even if it gets no row.

    Attributes:
      output: the recipe's output.
      plan: path of the shard plan's file, complete when the first chunk comes.
      planned: the same path as one element, when the file is complete.
      compress, apart: see ``scatter``.
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
