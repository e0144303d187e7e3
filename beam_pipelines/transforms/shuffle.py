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

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.shards import SplitShards

# Reading the rows of one place costs 0.05 ms, however few they are. With more places than this, a
# chunk's rows go to about this many places, and consecutive rows stay together in packs.
MOST_PLACES = 256
# Each place gets at least this many packs, so that shards have nearly equal sizes.
_MIN_PACKS = 32


def deal(
    shards: SplitShards,
    output: Output,
    first: int,
    rows: int,
    among: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns int64[n] each: places, starts of their rows, and numbers of rows.

    The places are those that get rows of a chunk, or of a part of one, ascending.

    Args:
      shards: of the split.
      output: the recipe's output; ``shuffle`` matters.
      first: position of the first row in its split.
      rows: of the chunk.
      among: int64[m], ascending: the places to look for; ``None``: all.
    """
    count, last = shards.num_shards * shards.partitions_per_shard, first + rows - 1
    pack = pack_rows(shards.rows, count, len(shards.offsets))
    if among is None and output.shuffle:  # few of millions of places
        packs = np.arange(first // pack, min(last // pack + 1, first // pack + count))
        among = np.sort(packs % count)
    elif among is None:
        edges = [((position + 1) * count - 1) // max(1, shards.rows) for position in (first, last)]
        among = np.arange(edges[0], edges[1] + 1)

    def dealt_before(position: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        rounds, rest = divmod(position, pack * count)
        return rounds * pack * places + np.minimum(pack * places, rest)

    def starts_of(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if not output.shuffle:  # the k-th of `count` intervals of equal size
            return np.clip(places * shards.rows // count - first, 0, rows)
        return dealt_before(first + rows, places) - dealt_before(first, places)

    starts, ends = starts_of(among), starts_of(among + 1)
    has_rows = starts < ends
    return among[has_rows], starts[has_rows], (ends - starts)[has_rows]


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


def shards_of(
    shards: SplitShards, output: Output, places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns int64[n]: the numbers, among all shards, of n places' shards."""
    if output.shuffle:
        return shards.first_shard + places % shards.num_shards
    return shards.first_shard + places // shards.partitions_per_shard


def places_of(shards: SplitShards, output: Output, shard: int) -> range:
    """Returns the places of a shard, by partition."""
    partitions = shards.partitions_per_shard
    if output.shuffle:
        return range(shard, shards.num_shards * partitions, shards.num_shards)
    return range(shard * partitions, (shard + 1) * partitions)


def chunk_order(
    output: Output, split: str, address: tuple[int, int], count: int
) -> npt.NDArray[np.int64] | None:
    """Returns int64[count]: the order in which a chunk's rows are dealt.

    Numbers are those in source order. ``None``: source order.
    """
    return (
        permutation((output.shuffle_seed, zlib.crc32(split.encode()), *address), count)
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
