"""The global shuffle: which row goes to which shard, and in which order a shard holds its rows.

Every row of a split has a position: rows of earlier pieces, plus its place in its own piece. Dealing positions out like cards,
one to each shard in turn, makes shards of equal size, give or take one row; of very large splits they are dealt a few at a time. The
deck is shuffled twice, a piece's rows before they are dealt and a partition's rows before they are written. Both permutations come from
a seeded hash of addresses (hashing.py), so that the order depends on the inputs, the recipe and the seed alone.

Without a shuffle the positions are cut into consecutive intervals, and every row stays in source order.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Iterator, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.exchange import Parcel
from beam_pipelines.hashing import GOLDEN, mix, mix_int
from beam_pipelines.pieces import Piece
from beam_pipelines.recipe import Output
from beam_pipelines.shards import ShardPlan, SplitShards

# A block costs a tenth of a millisecond, whatever its size. So where there are more places than this, a piece is cut into about so many blocks:
# some consecutive cards of the shuffled piece go to one place together,
MAX_BLOCKS = 256
# but not so many that a place gets fewer packs than this, as shards are to be even.
_MIN_PACKS = 32
# lz4 halves rows at 0.6 GB/s a core: as much as it costs to write them to the page cache three times. So it is for what leaves the machine.
_CODEC = "lz4"
# Before a block stands its length before compression; 0: it is not compressed.
_LENGTH = struct.Struct("<Q")


def scatter(
    plan: ShardPlan, output: Output, split: str, address: tuple[int, int], batch: pa.RecordBatch, compress: bool = False
) -> Iterator[Parcel]:
    """Cuts a piece's rows into one block for each shard and partition.

    Args:
      plan: all shards.
      output: the recipe's output; ``shuffle`` and ``shuffle_seed`` matter.
      split: the piece's split.
      address: the piece's (range_number, part).
      batch: features as columns, in source order.
      compress: whether blocks are compressed.

    Yields:
      For each partition that gets anything, a parcel of order (partition, range_number, part, split's first shard) with a block for each shard.
    """
    shards = plan.splits[split]
    places = _places(shards, output, address, batch.num_rows)
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(shards.num_shards * shards.partitions_per_shard + 1))
    rows = order
    if output.shuffle:
        rows = permutation((output.shuffle_seed, _number(split), *address), batch.num_rows)[order]
    dealt = batch.take(pa.array(rows))
    for partition in range(shards.partitions_per_shard):
        blocks: dict[int, bytes] = {}
        for shard in range(shards.num_shards):
            place = partition * shards.num_shards + shard
            start, end = int(bounds[place]), int(bounds[place + 1])
            if end > start:
                blocks[shards.first_shard + shard] = pack_block(dealt.slice(start, end - start), compress)
        if blocks:
            yield Parcel((partition, *address, shards.first_shard), blocks)


def _places(shards: SplitShards, output: Output, address: tuple[int, int], rows: int) -> npt.NDArray[np.int64]:
    """Returns, for each dealt row of a piece, ``partition * num_shards + shard``."""
    positions = shards.offsets[address] + np.arange(rows, dtype=np.int64)
    count = shards.num_shards * shards.partitions_per_shard
    if output.shuffle:
        return positions // pack_rows(shards.rows, count, len(shards.offsets)) % count
    # The k-th of `count` intervals of equal size is partition k % partitions_per_shard of shard k // partitions_per_shard.
    interval = ((positions + 1) * count - 1) // max(shards.rows, 1)
    shard, partition = np.divmod(interval, shards.partitions_per_shard)
    return partition * shards.num_shards + shard


def pack_rows(rows: int, places: int, pieces: float) -> int:
    """Returns how many consecutive rows of a shuffled piece are dealt to one place together.

    Args:
      rows: of the split.
      places: partitions of all its shards.
      pieces: that the split has rows of, or more.
    """
    if places <= MAX_BLOCKS:
        return 1
    return max(1, min(round(rows / pieces / MAX_BLOCKS), rows // (places * _MIN_PACKS)))


def written_order(output: Output, shard: int, partition: int, count: int) -> npt.NDArray[np.int64] | None:
    """Returns the order in which a partition's rows are written, given in order of their addresses; ``None``: as they come."""
    return permutation((output.shuffle_seed, shard, partition), count) if output.shuffle else None


def permutation(address: Sequence[int], count: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of ``range(count)`` that depends on the address alone."""
    seed = 0
    for number in address:
        seed = mix_int(seed + GOLDEN + number)
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    return np.argsort(keys, kind="stable")


def pack_block(batch: pa.RecordBatch, compress: bool = False) -> bytes:
    """Packs rows as an Arrow stream, compressed as a whole if at all: blocks of few rows are mostly metadata."""
    sink = pa.BufferOutputStream()
    sink.write(_LENGTH.pack(0))
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data = sink.getvalue()
    if not compress:
        return bytes(data)
    stream_size = data.size - _LENGTH.size
    packed: bytes = pa.compress(data.slice(_LENGTH.size), _CODEC, asbytes=True)
    return _LENGTH.pack(stream_size) + packed


def unpack_blocks(blocks: Sequence[bytes]) -> pa.RecordBatch | None:
    """Returns the rows of several blocks, one after the other, or ``None`` if none of them has any."""
    batches = [_unpack(block) for block in blocks if block]
    if len(batches) < 2:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _unpack(block: bytes) -> pa.RecordBatch:
    (size,) = _LENGTH.unpack_from(block)
    data = pa.py_buffer(block).slice(_LENGTH.size)
    with pa.ipc.open_stream(pa.decompress(data, size, _CODEC) if size else data) as stream:
        return stream.read_next_batch()


@dataclasses.dataclass
class ScatterRows(beam.PTransform):
    """Deals the rows of pieces out to shards.

    Input: ``Piece`` elements with a split and with features as columns. Output: two PCollections of ``Parcel`` elements for an
    exchange, whose partitions are shards. Every shard is sent at least an empty block, so that it is written even if it gets no row.

    Attributes:
      output: the recipe's output.
      plan: the shards, one element.
      compress: whether blocks are compressed.
    """

    output: Output
    plan: beam.PCollection[ShardPlan]
    compress: bool

    def expand(self, pieces: beam.PCollection[Piece]) -> tuple[beam.PCollection[Parcel], ...]:
        plan = beam.pvalue.AsSingleton(self.plan)
        rows = pieces | "Scatter" >> beam.FlatMap(_scatter_piece, self.output, plan, self.compress)
        empty = self.plan | "OpenShards" >> beam.FlatMap(_open_shards)
        return rows, empty


def _scatter_piece(piece: Piece, output: Output, plan: ShardPlan, compress: bool) -> Iterator[Parcel]:
    return scatter(plan, output, piece.split, (piece.range_number, piece.part), piece.batch, compress)


def _open_shards(plan: ShardPlan) -> Iterator[Parcel]:
    yield Parcel((0, -1, -1, -1), dict.fromkeys(range(plan.num_shards), b""))


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
