"""Computes statistics per split from pieces, whatever their order and the number of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.pieces import Piece
from beam_pipelines.statistics.table import TableStatistics

_FAN_IN = 16

# (order, statistics): order is the address of the first piece, or, higher up in the tree, the number of the node.
_Ordered = tuple[tuple[int, ...], TableStatistics]


@dataclasses.dataclass
class ComputeStatistics(beam.PTransform):
    """Computes the statistics of each split.

    Statistics are computed per piece, added up per range, and merged along a fixed tree over range numbers, 16 at a time: the
    result depends on neither arrival order nor the number of workers, nor a worker's memory on the number of ranges.

    Input: ``Piece`` elements with ``split`` set, each (range number, part, split) once. Where a range's pieces come apart
    (in different bundles), all but what is beyond the exact bounds stays the same to the last bit. Output: one dict, split name -> ``TableStatistics``, with all ``splits`` in
    their order, those without rows included. A retry gives the same.

    Attributes:
      num_ranges: number of ranges of the plan; range numbers are below it.
      splits: names of the splits.
      schema: columns of the pieces.
    """

    num_ranges: int
    splits: tuple[str, ...]
    schema: pa.Schema

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[dict[str, TableStatistics]]:
        """Wires the tree."""
        nodes = pieces | "Accumulate" >> beam.ParDo(_Accumulate())  # ((split, range number), (order, statistics))
        width, level = self.num_ranges, 0
        while width > _FAN_IN:
            nodes = nodes | f"MergeLevel{level}" >> _MergeLevel()
            width, level = -(-width // _FAN_IN), level + 1
        # A side input, because a group would not be there if there were no pieces, and flattening is a detour.
        return (
            pieces.pipeline
            | "Once" >> beam.Create([None])
            | "MergeSplits" >> beam.Map(_merge_splits, beam.pvalue.AsList(nodes), self.splits, self.schema)
        )


class _Accumulate(beam.DoFn):
    """Adds up the pieces of a range while they follow each other, so that little crosses the runner."""

    def start_bundle(self) -> None:
        self._range_number = -1
        self._parts: dict[str, list[_Ordered]] = {}

    def process(self, piece: Piece) -> Iterator[tuple[tuple[str, int], _Ordered]]:
        if piece.range_number != self._range_number:
            yield from self._flush()
            self._range_number = piece.range_number
        if piece.batch.num_rows:
            part = ((piece.range_number, piece.part), TableStatistics.of(piece.batch))
            parts = self._parts.setdefault(piece.split, [])
            parts.append(part)
            if len(parts) == _FAN_IN:
                parts[:] = [_merge_in_order(parts)]

    def finish_bundle(self) -> Iterator[Any]:
        for node in self._flush():
            yield GlobalWindows.windowed_value(node)

    def _flush(self) -> Iterator[tuple[tuple[str, int], _Ordered]]:
        for split, parts in self._parts.items():
            yield (split, self._range_number), _merge_in_order(parts)
        self._parts = {}


class _MergeLevel(beam.PTransform):
    """Merges each 16 neighbours of one level of the tree."""

    def expand(self, nodes: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return (
            nodes
            | "Parent" >> beam.MapTuple(lambda key, node: ((key[0], key[1] // _FAN_IN), node))
            | "Group" >> beam.GroupByKey()
            | "Merge" >> beam.MapTuple(lambda key, children: (key, _merge_in_order(children)))
        )


def _merge_in_order(nodes: Iterable[_Ordered]) -> _Ordered:
    ordered = sorted(nodes, key=lambda node: node[0])
    return ordered[0][0], TableStatistics.merged([statistics for _, statistics in ordered])


def _merge_splits(
    _: None, nodes: Iterable[tuple[tuple[str, int], _Ordered]], splits: tuple[str, ...], schema: pa.Schema
) -> dict[str, TableStatistics]:
    of_split: dict[str, list[_Ordered]] = {split: [((-1,), TableStatistics.empty(schema))] for split in splits}
    for (split, _number), node in nodes:
        of_split[split].append(node)
    return {split: _merge_in_order(ordered)[1] for split, ordered in of_split.items()}
