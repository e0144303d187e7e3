"""Computes statistics per split from pieces, whatever their order and the number of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines import files
from beam_pipelines.memory import give_back_memory
from beam_pipelines.merge_tree import FAN_IN, MergeTree, Node, merge_in_order
from beam_pipelines.pieces import Piece
from beam_pipelines.statistics.plan import StatisticsPlan
from beam_pipelines.statistics.storage import column_names, from_bytes, to_bytes
from beam_pipelines.statistics.table import TableStatistics

# Of how many parts of the columns the statistics of several files are merged one after the other.
_SHARES = 4


@dataclasses.dataclass
class ComputeStatistics(beam.PTransform):
    """Computes the statistics of each split.

    Statistics are computed per piece, added up per range, and merged along a fixed tree over range numbers, 16 at a time: the
    result depends on neither arrival order nor the number of workers, nor a worker's memory on the number of ranges.

    Input: ``Piece`` elements with ``split`` set, each (range number, part, split) once. Where a range's pieces come apart
    (in different bundles), all that is neither weighted nor beyond the exact bounds stays the same to the last bit. Output: one dict, split name -> ``TableStatistics``, with all ``splits`` in
    their order, those without rows included. A retry gives the same.

    Attributes:
      num_ranges: number of ranges of the plan; range numbers are below it.
      splits: names of the splits.
      schema: columns of the pieces.
      plan: weight and slices.
      folder: where statistics of ranges wait, used by nobody else; ``None`` to send them through the engine. They are megabytes for each
        range, which Beam's local runner would hold several times over.
    """

    num_ranges: int
    splits: tuple[str, ...]
    schema: pa.Schema
    plan: StatisticsPlan = dataclasses.field(default_factory=StatisticsPlan)
    folder: str | None = None

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[dict[str, TableStatistics]]:
        """Wires the tree."""
        nodes = (
            pieces
            | "Accumulate" >> beam.ParDo(_Accumulate(self.plan))  # ((split, range number), Node of TableStatistics)
            | "Keep" >> beam.Map(_keep_node, self.plan, self.folder)
            | "MergeTree" >> MergeTree(self.num_ranges, _MergeKept(self.plan))
        )
        # A side input, because a group would not be there if there were no pieces, and flattening is a detour.
        return (
            pieces.pipeline
            | "Once" >> beam.Create([None])
            | "MergeSplits" >> beam.Map(_merge_splits, beam.pvalue.AsList(nodes), self.splits, self.schema, self.plan)
        )


class _Accumulate(beam.DoFn):
    """Adds up the pieces of a range while they follow each other, so that little crosses the runner."""

    def __init__(self, plan: StatisticsPlan) -> None:
        self._plan = plan

    def start_bundle(self) -> None:
        self._range_number = -1
        self._trees: dict[str, Tree] = {}

    def process(self, piece: Piece) -> Iterator[tuple[tuple[str, int], Node]]:
        if piece.range_number != self._range_number:
            yield from self._flush()
            self._range_number = piece.range_number
        if piece.batch.num_rows:
            part = Node((piece.range_number, piece.part), TableStatistics.of(piece.batch, self._plan))
            self._trees.setdefault(piece.split, Tree()).add(part)

    def finish_bundle(self) -> Iterator[Any]:
        for node in self._flush():
            yield GlobalWindows.windowed_value(node)

    def _flush(self) -> Iterator[tuple[tuple[str, int], Node]]:
        for split, tree in self._trees.items():
            yield (split, self._range_number), tree.merged()
        self._trees = {}


class Tree:
    """Merges what is added in order, 16 at a time, and the results 16 at a time: errors add up with the levels only."""

    def __init__(self) -> None:
        self._levels: list[list[Node]] = []

    def add(self, node: Node, level: int = 0) -> None:
        """Adds a node to a level."""
        if level == len(self._levels):
            self._levels.append([])
        nodes = self._levels[level]
        nodes.append(node)
        if len(nodes) == FAN_IN:
            self._levels[level] = []
            self.add(merge_in_order(nodes, TableStatistics.merged), level + 1)

    def merged(self) -> Node:
        """Returns the statistics of all nodes together; at least one."""
        rest: list[Node] = []
        for nodes in self._levels:
            rest = [merge_in_order([*nodes, *rest], TableStatistics.merged)] if nodes else rest
        return rest[0]


def _keep_node(
    entry: tuple[tuple[str, int], Node], plan: StatisticsPlan, folder: str | None
) -> tuple[tuple[str, int], Node]:
    """Returns a node of a split with the path of its statistics in their place, if there is a folder for them."""
    key, node = entry
    if folder is None:
        return entry
    path = files.join(folder, "_".join([key[0], *map(str, node.order)]))
    return key, node._replace(value=_keep(node.value, plan, path))


def _keep(table: TableStatistics, plan: StatisticsPlan, path: str) -> str:
    with files.replace(path) as file:  # a retry writes the same
        file.write(to_bytes(table, plan))
    return path


def _load(kept: TableStatistics | str, names: Sequence[str] | None = None) -> TableStatistics:
    return from_bytes(files.read_bytes(kept), kept, names)[0] if isinstance(kept, str) else kept


@dataclasses.dataclass(frozen=True)
class _MergeKept:
    """Merges statistics, and keeps the result where they were kept."""

    plan: StatisticsPlan

    def __call__(self, kept: Sequence[TableStatistics | str]) -> TableStatistics | str:
        if len(kept) == 1:
            return kept[0]
        merged = _merge(kept)
        give_back_memory()
        # The first of them is the first of no others.
        return _keep(merged, self.plan, f"{kept[0]}+") if isinstance(kept[0], str) else merged


def _merge(kept: Sequence[TableStatistics | str]) -> TableStatistics:
    """Returns the statistics of all together; of files a share of the columns at a time, as decoded they may take gigabytes."""
    paths = [part for part in kept if isinstance(part, str)]
    if len(paths) < len(kept) or len(kept) == 1:
        return TableStatistics.merged([_load(part) for part in kept])
    names = column_names(files.read_bytes(paths[0]), paths[0])
    shares = [names[start::_SHARES] for start in range(min(_SHARES, len(names)))]
    parts = [TableStatistics.merged([_load(path, share) for path in paths], len(names)) for share in shares]
    return TableStatistics.joined(parts, names)


def _merge_splits(
    _: None,
    nodes: Iterable[tuple[tuple[str, int], Node]],
    splits: tuple[str, ...],
    schema: pa.Schema,
    plan: StatisticsPlan,
) -> dict[str, TableStatistics]:
    of_split: dict[str, list[Node]] = {split: [] for split in splits}
    for (split, _number), node in nodes:
        of_split[split].append(node)
    give_back_memory()
    return {
        split: merge_in_order(ordered, _merge).value if ordered else TableStatistics.empty(schema, plan)
        for split, ordered in of_split.items()
    }
