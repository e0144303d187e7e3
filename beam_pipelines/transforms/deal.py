"""Deals the rows of spilled chunks to shards.

The rows of one place (``transforms/shuffle.py``) are next to each other in a chunk's file. Writers
of shards read them there. In an object store such a read is a request for a few rows, so the rows
of neighbouring places are merged before (``transforms/merged_files.py``).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import concat_batches
from beam_pipelines.core.arrow.ipc import PackedBatch, pack, unpack
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout import stripes
from beam_pipelines.files.beam.file_ranges import Address, read_ranges
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.exchange import CollectByPartition, Message, Sent, addresses
from beam_pipelines.transforms.merged_files import BIN, MergeBins
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    ShardPlan,
    SplitShards,
    load_shard_plan,
)
from beam_pipelines.transforms.shuffle import deal, places_of, shards_of
from beam_pipelines.transforms.spill import SpilledChunk, changed, checked_tail, spilled_path


class DealtChunk(NamedTuple):
    """A ``SpilledChunk`` with rows for a shard or a bin.

    ``length`` is about the bytes of these rows, if they are of a bin.
    """

    range_number: int
    part: int
    start: int
    rows: int
    tail: int
    length: int = 0


class DealtShard(NamedTuple):
    """A shard to write.

    Attributes:
      shard: its number among all shards.
      dealt: the chunks that have rows for it, in order; or, if they were merged, its partitions
        with the addresses of their rows, in order.
    """

    shard: int
    dealt: tuple[DealtChunk, ...] | tuple[tuple[int, Sent], ...]


@dataclasses.dataclass
class DealChunks(beam.PTransform):
    """Deals spilled chunks to shards.

    Input: ``SpilledChunk`` elements, whose rows are in the order of ``shuffle.chunk_order``.
    Output: a ``DealtShard`` for each unfinished shard, also for one without rows.

    Attributes:
      output: the recipe's output.
      plan: path of the shard plan's file.
      planned: the same path as one element, once the file is complete.
      spilled: folder of the spilled chunks.
      merged: folder for merged rows; empty: they are not merged.
    """

    output: Output
    plan: str
    planned: beam.PCollection[str]
    spilled: str
    merged: str = ""

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[DealtShard]:
        plan = LoadedShardPlan(self.plan)
        items_of = to_bins if self.merged else to_shards
        dealt = (
            spilled
            | "Await" >> beam.Map(lambda spilled, _: spilled, beam.pvalue.AsSingleton(self.planned))
            | "Deal" >> beam.ParDo(CollectByPartition(items_of, self.output, plan))
        )
        if self.merged:
            merge = partial(merge_rows, plan=plan, output=self.output, folder=self.spilled)
            dealt = (
                dealt
                | "MergeFiles" >> MergeBins(merge, self.merged)
                | "ToShards"
                >> beam.MapTuple(
                    lambda place, sent: (place[0], [(place[1], each) for each in sent])
                )
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


def _order(shard: int, dealt: Iterable[Sequence[Any]]) -> DealtShard:
    return DealtShard(shard, tuple(sorted(itertools.chain.from_iterable(dealt))))


def to_shards(
    chunk: SpilledChunk, output: Output, plan: LoadedShardPlan
) -> Iterator[tuple[int, DealtChunk]]:
    """Yields the shards that get rows of a chunk, with its address."""
    numbers, *_ = _places(chunk, output, plan.get())
    for number in np.unique(numbers).tolist():
        yield number, DealtChunk(*chunk[:3], chunk.rows, chunk.tail)


def to_bins(
    chunk: SpilledChunk, output: Output, plan: LoadedShardPlan
) -> Iterator[tuple[tuple[str, int], DealtChunk]]:
    """Yields the bins that get rows of a chunk, with its address."""
    _, places, rows = _places(chunk, output, plan.get())
    bins, firsts = np.unique(places // BIN, return_index=True)
    sums = np.add.reduceat(rows, firsts) if len(firsts) else firsts
    for bin_, own in zip(bins.tolist(), sums.tolist(), strict=True):
        length = int(chunk.tail * own / chunk.rows)
        yield (chunk.split, bin_), DealtChunk(*chunk[:3], chunk.rows, chunk.tail, length)


def _places(chunk: SpilledChunk, output: Output, plan: ShardPlan) -> tuple[Any, Any, Any]:
    """Returns int64[n] each: shards, places and numbers of rows.

    They are those of the n places of unfinished shards that get rows of a chunk.
    """
    shards = plan.splits[chunk.split]
    first = shards.offsets[chunk[:2]] + chunk.start
    places, _, rows = deal(shards, output, first, chunk.rows)
    numbers = shards_of(shards, output, places)
    left = ~np.isin(numbers, list(plan.finished))
    return numbers[left], places[left], rows[left]


class Origin(NamedTuple):
    """Where consecutive rows come from.

    Attributes:
      source: the file.
      rows: how many they are.
    """

    source: str
    rows: int


class PlacedRows(NamedTuple):
    """Rows of a spilled chunk for one place.

    Attributes:
      path: the chunk's file.
      span: where they are in it.
      origin: where they come from.
    """

    path: str
    span: stripes.Span
    origin: Origin


# Rows of a place, in order of addresses, and where they come from.
Loaded = tuple[pa.RecordBatch, Sequence[Origin]]


def place_rows(
    chunks: Sequence[DealtChunk],
    shards: SplitShards,
    places: Sequence[int],
    output: Output,
    folder: str,
) -> tuple[pa.Schema, list[list[PlacedRows]]]:
    """Returns the schema of rows, and where those of each place are.

    Args:
      chunks: that have the rows, in order.
      shards: of the chunks' split.
      places: for which rows are wanted.
      output: the recipe's output.
      folder: of the spilled chunks.

    Raises:
      DataError: a file is not as it was written.
    """
    placed: dict[int, list[PlacedRows]] = {place: [] for place in places}
    schema, wanted = pa.schema([]), np.array(places, np.int64)
    paths = [spilled_path(folder, chunk[:2], chunk.start, shards.name) for chunk in chunks]
    tails = read_ranges(
        [Address(path, chunk.tail, None) for path, chunk in zip(paths, chunks, strict=True)]
    )
    for chunk, path, data in zip(chunks, paths, tails, strict=True):
        tail = checked_tail(data, path, chunk.rows)
        schema = tail.schema
        first = shards.offsets[chunk[:2]] + chunk.start
        dealt = deal(shards, output, first, chunk.rows, wanted)
        for place, begin, count in zip(*(each.tolist() for each in dealt), strict=True):
            origin = Origin(tail.about["path"], count)
            placed[place].append(PlacedRows(path, tail.span(begin, count), origin))
    return schema, [*placed.values()]


def place_shard(
    dealt: DealtShard, plan: ShardPlan, output: Output, folder: str
) -> tuple[pa.Schema, list[list[PlacedRows]]]:
    """Returns ``place_rows`` of a shard's partitions."""
    shards, number = plan.locate(dealt.shard)
    chunks: Any = dealt.dealt
    return place_rows(chunks, shards, places_of(shards, output, number), output, folder)


def load_rows(schema: pa.Schema, placed: Sequence[PlacedRows]) -> Loaded:
    """Returns the rows of a place.

    Raises:
      DataError: a file is not as it was written.
    """
    spans = [Address(own.path, own.span.begin, own.span.end - own.span.begin) for own in placed]
    return _unpacked(schema, placed, read_ranges(spans))


def _unpacked(schema: pa.Schema, placed: Sequence[PlacedRows], spans: Sequence[bytes]) -> Loaded:
    pieces = [(data, own.span) for data, own in zip(spans, placed, strict=True)]
    try:
        return stripes.unpack(schema, pieces), [own.origin for own in placed]
    except (ValueError, pa.ArrowException) as error:
        raise DataError(changed(placed[0].path, str(error))) from error


def merge_rows(
    bin_: tuple[str, int],
    chunks: Sequence[DealtChunk],
    plan: LoadedShardPlan,
    output: Output,
    folder: str,
) -> Message:
    """Merges rows of chunks for the places of a bin.

    Args:
      bin_: split, and number of the bin.
      chunks: that have the rows, in order.
      plan: of all shards.
      output: the recipe's output.
      folder: of the spilled chunks.

    Returns:
      Shard and partition -> rows, for ``load_merged``.

    Raises:
      DataError: a file is not as it was written.
    """
    shards, finished = plan.get().splits[bin_[0]], plan.get().finished
    count = shards.num_shards * shards.partitions_per_shard
    places = range(bin_[1] * BIN, min((bin_[1] + 1) * BIN, count))
    schema, placed = place_rows(chunks, shards, places, output, folder)
    # The places of a bin are next to each other in a file.
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for own in itertools.chain.from_iterable(placed):
        begins.setdefault(own.path, own.span.begin)
        ends[own.path] = own.span.end
    spans = read_ranges([Address(path, begins[path], ends[path] - begins[path]) for path in begins])
    data = dict(zip(begins, spans, strict=True))
    numbers = shards_of(shards, output, np.array(places)).tolist()
    merged: dict[Any, bytes] = {}
    for place, number, rows in zip(places, numbers, placed, strict=True):
        if rows and number not in finished:
            cut = [
                data[own.path][own.span.begin - begins[own.path] : own.span.end - begins[own.path]]
                for own in rows
            ]
            batch, origins = _unpacked(schema, rows, cut)
            partition = places_of(shards, output, number - shards.first_shard).index(place)
            merged[number, partition] = pack([PackedBatch(batch, {"origins": origins})])
    return Message(chunks[0][:3], merged)


def load_merged(sent: Sequence[Sent], folder: str) -> Loaded:
    """Returns the rows of a place.

    Args:
      sent: where they are, in order.
      folder: of the merged rows.

    Raises:
      DataError: a file is not as it was written.
    """
    found = addresses(sent, folder)
    batches, origins = [], []
    for address, payload in zip(found, read_ranges(found), strict=True):
        try:
            for batch, about in unpack(payload):
                batches.append(batch)
                origins += [Origin(*origin) for origin in about["origins"]]
        except (pa.ArrowException, ValueError) as error:
            raise DataError(changed(address.path, str(error))) from error
    return (batches[0] if len(batches) == 1 else concat_batches(batches)), origins
