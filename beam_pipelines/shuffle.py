"""The global shuffle: which row goes to which shard, and in which order a shard holds its rows.

Every row of a split has a position: rows of earlier pieces, plus its place in its own piece. Dealing positions out like cards,
one to each shard in turn, makes shards of equal size (give or take one row); the deck is shuffled twice, a piece's rows before
they are dealt and a partition's rows before they are written. Both permutations come from a seeded hash of addresses
(hashing.py), so that the order depends on the inputs, the recipe and the seed alone.

Without a shuffle the positions are cut into consecutive intervals, and every row stays in source order.
"""

from __future__ import annotations

import dataclasses
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
from beam_pipelines.records import records_of
from beam_pipelines.shards import ShardPlan, SplitShards
from beam_pipelines.tfrecord import frame

# lz4 packs framed examples at 0.6 GB/s and unpacks them at 2.6 a core; zstd halves the size at 0.7 and 0.3 of that.
# Blocks live for seconds, mostly in the page cache: see benchmarks/bench_stages.py.
_BLOCK_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_BLOCK_SCHEMA = pa.schema([pa.field("record", pa.large_binary())])


def scatter(
    plan: ShardPlan, output: Output, split: str, address: tuple[int, int], records: pa.LargeBinaryArray
) -> Iterator[Parcel]:
    """Cuts a piece's records into one block for each shard and partition.

    Args:
      plan: all shards.
      output: the recipe's output; ``shuffle`` and ``shuffle_seed`` matter.
      split: the piece's split.
      address: the piece's (range_number, part).
      records: framed examples, in source order.

    Yields:
      For each partition that gets anything, a parcel of order (partition, range_number, part, split's first shard) with a block for each shard.
    """
    shards = plan.splits[split]
    places = _places(shards, output, address, len(records))
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(shards.num_shards * shards.partitions_per_shard + 1))
    rows = order
    if output.shuffle:
        rows = permutation((output.shuffle_seed, _number(split), *address), len(records))[order]
    sorted_records = records.take(pa.array(rows))
    for partition in range(shards.partitions_per_shard):
        blocks: dict[int, bytes] = {}
        for shard in range(shards.num_shards):
            place = partition * shards.num_shards + shard
            start, end = int(bounds[place]), int(bounds[place + 1])
            if end > start:
                blocks[shards.first_shard + shard] = pack_block(sorted_records.slice(start, end - start))
        if blocks:
            yield Parcel((partition, *address, shards.first_shard), blocks)


def _places(shards: SplitShards, output: Output, address: tuple[int, int], rows: int) -> npt.NDArray[np.int64]:
    """Returns, for each dealt row of a piece, ``partition * num_shards + shard``."""
    positions = shards.offsets[address] + np.arange(rows, dtype=np.int64)
    count = shards.num_shards * shards.partitions_per_shard
    if output.shuffle:
        return positions % count
    # The k-th of `count` intervals of equal size is partition k % partitions_per_shard of shard k // partitions_per_shard.
    interval = ((positions + 1) * count - 1) // max(shards.rows, 1)
    shard, partition = np.divmod(interval, shards.partitions_per_shard)
    return partition * shards.num_shards + shard


def permute(output: Output, shard: int, partition: int, records: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Returns one partition's records, given in order of their addresses, in the order in which they are written."""
    if not output.shuffle:
        return records
    return records.take(pa.array(permutation((output.shuffle_seed, shard, partition), len(records))))


def permutation(address: Sequence[int], count: int) -> npt.NDArray[np.int64]:
    """Returns a permutation of ``range(count)`` that depends on the address alone."""
    seed = 0
    for number in address:
        seed = mix_int(seed + GOLDEN + number)
    keys = mix(np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    return np.argsort(keys, kind="stable")


def pack_block(records: pa.LargeBinaryArray) -> bytes:
    """Packs records as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([records], schema=_BLOCK_SCHEMA)
    with pa.ipc.new_stream(sink, _BLOCK_SCHEMA, options=_BLOCK_OPTIONS) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack_blocks(blocks: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Returns the records of several blocks, one after the other."""
    arrays = [batch.column(0) for block in blocks for batch in pa.ipc.open_stream(block, options=_READ_OPTIONS)]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.large_binary())


@dataclasses.dataclass
class ScatterRecords(beam.PTransform):
    """Serializes pieces and deals their records out to shards.

    Input: ``Piece`` elements with a split and with features as columns. Output: two PCollections of ``Parcel`` elements for an
    exchange, whose partitions are shards. Every shard is sent at least an empty block, so that it is written even if it gets no row.

    Attributes:
      output: the recipe's output.
      plan: the shards, one element.
      lists: names of the features that are feature lists; empty: records are tf.Examples.
    """

    output: Output
    plan: beam.PCollection[ShardPlan]
    lists: tuple[str, ...] = ()

    def expand(self, pieces: beam.PCollection[Piece]) -> tuple[beam.PCollection[Parcel], ...]:
        plan = beam.pvalue.AsSingleton(self.plan)
        rows = pieces | "Scatter" >> beam.FlatMap(_scatter_piece, self.output, plan, self.lists)
        empty = self.plan | "OpenShards" >> beam.FlatMap(_open_shards)
        return rows, empty


def _scatter_piece(piece: Piece, output: Output, plan: ShardPlan, lists: tuple[str, ...]) -> Iterator[Parcel]:
    records = frame(records_of(piece.batch, output.record, lists))
    return scatter(plan, output, piece.split, (piece.range_number, piece.part), records)


def _open_shards(plan: ShardPlan) -> Iterator[Parcel]:
    empty = pack_block(pa.array([], pa.large_binary()))
    yield Parcel((0, -1, -1, -1), dict.fromkeys(range(plan.num_shards), empty))


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
