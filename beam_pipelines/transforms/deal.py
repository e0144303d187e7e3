"""Deals the rows of a split to the partitions of its shards.

The position of a row in its split is the number of rows in earlier chunks, plus its place in its
own chunk. Positions are dealt like cards, one to each place (a partition of a shard) in turn, so
that shards differ by one row at most; in very large splits, several at a time. The rows of a
shuffled chunk are in random order, so that each place gets consecutive ones of them.

Without a shuffle, positions are cut into consecutive intervals, and rows stay in source order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.exchange import CollectByPartition
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
        opened = self.planned | "OpenShards" >> beam.FlatMap(_open_shards)
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


def _open_shards(path: str) -> Iterator[tuple[int, Sequence[DealtChunk]]]:
    return ((number, []) for number in load_shard_plan(path).unfinished())


def _order(shard: int, dealt: Iterable[Sequence[Any]]) -> DealtShard:
    return DealtShard(shard, tuple(sorted(itertools.chain.from_iterable(dealt))))
