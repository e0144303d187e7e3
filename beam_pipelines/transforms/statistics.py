"""Computes statistics per split from chunks.

The order of chunks and the number of workers do not matter.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.analysis.statistics import messages
from beam_pipelines.analysis.statistics.blocks import Columns, columns_of
from beam_pipelines.analysis.statistics.datasets import SplitFiles, split_to_files
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.arrow.memory import give_back_memory
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_ranges import Address
from beam_pipelines.transforms import exchange
from beam_pipelines.transforms.meet import FAN_IN, MergeTree, Node, merge_in_order

# Shares of the columns. Each is merged by itself, on any worker: all columns of 16 ranges may take
# gigabytes in memory.
_SHARES = 4


class StoredShare(NamedTuple):
    """Where the statistics of a share of a split's columns are.

    Attributes:
      split: its name.
      share: number of the share.
      tables: messages of the statistics.
      files: their part of each of the ``SplitFiles``.
    """

    split: str
    share: int
    tables: tuple[bytes | Address, ...]
    files: tuple[Address, ...]


@dataclasses.dataclass
class AccumulateStatistics(beam.PTransform):
    """Computes statistics of shares of each split's columns, for ``SplitTables``.

    Statistics are computed per chunk, added up per range, and merged along a fixed tree over range
    numbers, 16 at a time. So the result does not depend on arrival order or the number of workers,
    and a worker's memory not on the number of ranges.

    Input: ``Chunk`` elements with ``split`` set, each (range number, part, split) once. If the
    chunks of a range are in different bundles, unweighted exact statistics stay the same to the
    last bit.
    Output: ``StoredShare`` elements; a retry gives the same statistics.

    Attributes:
      num_ranges: number of ranges of the plan; range numbers are below it.
      plan: weight and slices.
      folder: for the statistics, used by this step alone.
    """

    num_ranges: int
    plan: StatisticsPlan
    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[StoredShare]:
        """Wires the tree."""
        return (
            chunks
            | "Accumulate"
            >> beam.ParDo(_Accumulate(self.plan))  # Message, ((split, share), range number)
            | "MergeTree" >> MergeTree(self.num_ranges, _merge_stored, self.folder, most=1)
            | "OfShare" >> beam.MapTuple(lambda key, sent: (key[0], sent))
            | "Spread" >> beam.GroupByKey()
            | "WriteShare" >> beam.Map(_write_share, self.plan, self.folder)
        )


class _Accumulate(beam.DoFn):
    """Adds up consecutive chunks of a range.

    This sends few bytes through the runner.
    """

    def __init__(self, plan: StatisticsPlan) -> None:
        self._plan = plan

    def start_bundle(self) -> None:
        self._range_number = -1
        self._trees: dict[str, Tree] = {}

    def process(self, chunk: Chunk) -> Iterator[exchange.Message]:
        if chunk.range_number != self._range_number:
            yield from self._flush()
            self._range_number = chunk.range_number
        if chunk.batch.num_rows:
            address = (chunk.range_number, chunk.part)
            part = Node(address, TableStatistics.of(chunk.batch, self._plan))
            self._trees.setdefault(chunk.split, Tree()).add(part)

    def finish_bundle(self) -> Iterator[Any]:
        for message in self._flush():
            yield GlobalWindows.windowed_value(message)

    def _flush(self) -> Iterator[exchange.Message]:
        for split, tree in self._trees.items():
            order, table = tree.merged()
            size = -(-len(table.columns) // _SHARES) or 1
            shares = enumerate(range(0, len(table.columns) or 1, size))
            payloads = {
                ((split, share), self._range_number): _packed(
                    len(table.columns), table.of_columns(start, size)
                )
                for share, start in shares
            }
            yield exchange.Message(order, payloads)
        self._trees = {}


class Tree:
    """Merges nodes in order, 16 at a time, level by level.

    The results are merged 16 at a time, too. So errors add up only with the number of levels.
    """

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
        """Returns the statistics of all nodes, at least one."""
        rest: list[Node] = []
        for nodes in self._levels:
            rest = [merge_in_order([*nodes, *rest], TableStatistics.merged)] if nodes else rest
        return rest[0]


def _packed(columns: int, table: TableStatistics) -> bytes:
    """Returns the statistics of some columns, with the number of all."""
    blocks, others = Columns(table.found).blocks()
    rest = dataclasses.replace(table, columns=others)
    return messages.to_message((columns, rest, blocks, [*table.columns]))


def _merge_stored(received: exchange.Received) -> bytes:
    if len(received.contents) == 1:
        return exchange.load_payload(received.contents[0])
    merged = _packed(*_merge(received.contents))
    give_back_memory()
    return merged


def _merge(contents: Sequence[bytes | Address]) -> tuple[int, TableStatistics]:
    """Returns the number of all columns, and statistics of a share."""
    loaded = [
        messages.from_message(exchange.load_payload(content), getattr(content, "path", "a message"))
        for content in contents
    ]
    number, _, _, names = loaded[0]
    table = TableStatistics.merged([one for _, one, _, _ in loaded], number)
    blocks, limits = [blocks for _, _, blocks, _ in loaded], ColumnLimits.of_columns(number)
    columns = columns_of(names, blocks, table.columns, limits)
    return number, dataclasses.replace(table, columns=columns)


def _write_share(
    group: tuple[tuple[str, int], Iterable[Sequence[exchange.Sent]]],
    plan: StatisticsPlan,
    folder: str,
) -> StoredShare:
    """Writes the files of a share."""
    (split, share), _ = group
    received = exchange.receive(*group, folder)
    parts = split_to_files(_merge(received.contents)[1], plan)
    folder = files.join(folder, "files")
    message = exchange.Message(received.orders[0], dict(enumerate(parts)))
    stored = [one for _, one in exchange.store_message(message, folder)]
    give_back_memory()
    addresses = tuple(exchange.addresses(stored, folder))
    return StoredShare(split, share, received.contents, addresses)


class SplitTables(Mapping[str, TableStatistics]):
    """Statistics of splits by name, loaded when they are asked for.

    A pickle of it has where they are.

    Args:
      stored: output of ``AccumulateStatistics``.
      splits: names, in order.
      schema, plan: of the statistics of a split without rows.
    """

    def __init__(
        self,
        stored: Iterable[StoredShare],
        splits: Sequence[str],
        schema: pa.Schema,
        plan: StatisticsPlan,
    ) -> None:
        self._args = sorted(stored), tuple(splits), schema, plan

    def __reduce__(self) -> tuple[Any, ...]:
        return SplitTables, self._args

    def __getitem__(self, split: str) -> TableStatistics:
        return self._tables[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._args[1])

    def __len__(self) -> int:
        return len(self._args[1])

    @functools.cached_property
    def _tables(self) -> dict[str, TableStatistics]:
        stored, splits, schema, plan = self._args
        found: dict[str, TableStatistics] = {}
        for split in splits:
            parts = [_merge(one.tables)[1] for one in stored if one.split == split]
            found[split] = (
                TableStatistics.joined(parts) if parts else TableStatistics.empty(schema, plan)
            )
        give_back_memory()
        return found

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yields the files of a dataset's statistics: path in the dataset, content."""
        stored, splits, _, plan = self._args
        for split in splits:
            parts = [
                SplitFiles(*map(exchange.load_payload, one.files))
                for one in stored
                if one.split == split
            ]
            found = SplitFiles.joined(parts) if parts else split_to_files(self[split], plan)
            yield from found.named(split)
