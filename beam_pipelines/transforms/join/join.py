"""Joins the rows so far with further sources: small ones broadcast, large ones hash partitioned; both give the same pieces.

Broadcast: each worker process reads and indexes the right source once and probes the index piece by piece.
Hash partitioned: see ``transforms/join/hash_join.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam
from apache_beam.utils.shared import Shared

from beam_pipelines.core import files
from beam_pipelines.core.chunks import Piece, Receipt, add_counts
from beam_pipelines.core.key_index import index_keys
from beam_pipelines.transforms import read
from beam_pipelines.transforms.exchange import Exchange
from beam_pipelines.transforms.join import hash_join
from beam_pipelines.transforms.join.index import JoinIndex, build_index, check_unique, join_batch, table_batch
from beam_pipelines.transforms.join.plan import JoinPlan, JoinStep
from beam_pipelines.transforms.join.unique_key import CheckUniqueKey
from beam_pipelines.transforms.rejected_rows import store_rejected


def load_index(step: JoinStep, reject: bool) -> JoinIndex:
    """Reads the right source of a broadcast join and indexes it.

    Raises:
      DataError: the source cannot be read, or its declared key is not unique.
    """
    table, _, _ = read.read_table(step.source_plan, reject)
    source = step.source_plan.source
    if source.key:
        batch = table_batch(table.select(source.key))
        check_unique(index_keys(batch.columns), batch, source.key, source.name)
    return build_index(table, step.right_on, step.added)


def join_piece(piece: Piece, step: JoinStep, index: JoinIndex) -> Piece:
    """Joins one piece; its account gets the join's counts."""
    batch, counts = join_batch(piece.batch, index, step.left_on, step.join.how, step.number)
    return piece._replace(batch=batch, counts=add_counts(piece.counts, counts))


class _ProbeIndex(beam.DoFn):
    """Probes the index that all threads of a worker process share; it belongs to this step of this pipeline only."""

    def __init__(self, step: JoinStep, reject: bool) -> None:
        self._step = step
        self._reject = reject
        self._shared = Shared()
        self._index: JoinIndex | None = None

    def process(self, piece: Piece) -> Iterator[Piece]:
        if self._index is None:  # Shared itself keeps only the last object of a process: a chain of joins has several
            self._index = self._shared.acquire(lambda: load_index(self._step, self._reject))
        yield join_piece(piece, self._step, self._index)


@dataclasses.dataclass
class JoinBroadcast(beam.PTransform):
    """Joins pieces with a right source that every worker process holds.

    Input: ``Piece`` elements. Output: a ``Piece`` with the same address for each.

    Attributes:
      step: the join.
      reject: as ``read.ReadBatches`` takes it.
    """

    step: JoinStep
    reject: bool

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[Piece]:
        return pieces | "Probe" >> beam.ParDo(_ProbeIndex(self.step, self.reject))


@dataclasses.dataclass
class JoinByHash(beam.PTransform):
    """Joins pieces with a right source of any size, partition by partition.

    Input: ``Piece`` elements. Output: the very pieces that ``JoinBroadcast`` gives, in no order.

    Attributes:
      step: the join.
      folder: where rows wait, or ``None`` to send them through the engine.
      reject: as ``read.ReadBatches`` takes it.
    """

    step: JoinStep
    folder: str | None
    reject: bool

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[Piece]:
        step = self.step
        left = pieces | "SendLeft" >> beam.Map(hash_join.send_left, step.left_on, step.partitions)
        right = (
            pieces.pipeline
            | "ReadRight" >> read.ReadBatches(step.source_plan, self.reject)
            | "SendRight" >> beam.Map(hash_join.send_right, step.right_on, step.partitions)
        )
        joined = (
            (left, right)
            | "MeetInPartitions" >> Exchange(_subfolder(self.folder, f"join{step.number}-meet"))
            | "JoinPartition" >> beam.FlatMap(hash_join.join_partition, step)  # Parcel
        )
        accounts = pieces | "SendAccount" >> beam.Map(hash_join.send_account)
        return (
            (accounts, joined)
            | "ReturnToRanges" >> Exchange(_subfolder(self.folder, f"join{step.number}-return"))
            | "RestoreRange" >> beam.FlatMap(hash_join.restore_range, step)  # Piece
        )


def _subfolder(folder: str | None, name: str) -> str | None:
    return None if folder is None else files.join(folder, name)


@dataclasses.dataclass
class JoinBatches(beam.PTransform):
    """Joins pieces with one right source after the other.

    Input: ``Piece`` elements. Output: a ``Piece`` for each of them, with the same address, its rows in order (several
    matches of a row in the right source's order), and the joins' counts in its account. The same bytes whatever the
    strategies.

    Attributes:
      plan: what ``plan_join`` returned.
      folder: where rows of hash-partitioned joins wait, used by nobody else; ``None`` sends them through the engine.
      reject: as ``read.ReadBatches`` takes it.
    """

    plan: JoinPlan
    folder: str | None
    reject: bool

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[Piece]:
        for step in self.plan.steps:
            if step.strategy == "broadcast":
                join: beam.PTransform = JoinBroadcast(step, self.reject)
            else:
                join = JoinByHash(step, self.folder, self.reject)
            pieces = pieces | f"Join{step.number}" >> join
        return pieces


class CountedSources(NamedTuple):
    """Row counts and key counts of right sources.

    Attributes:
      receipts: ``(source, Receipt)``, one for each piece.
      keys: number of keys in each partition of a source with a declared key, which was found unique; to wait for.
    """

    receipts: beam.PCollection[tuple[str, Receipt]]
    keys: beam.PCollection[int]


@dataclasses.dataclass
class CountRightSources(beam.PTransform):
    """Reads each right source once more, to account for its rows and to check its declared key.

    Input: the start of a pipeline. Output: ``CountedSources``, each source once however often it is joined.

    Attributes:
      plan: what ``plan_join`` returned.
      folder: where keys wait, used by nobody else; ``None`` sends them through the engine.
      reject: as ``read.ReadBatches`` takes it.
      rejected: folder for rejected rows, used by nobody else.
    """

    plan: JoinPlan
    folder: str | None
    reject: bool
    rejected: str = ""

    def expand(self, start: beam.pvalue.PBegin) -> CountedSources:
        receipts, keys = [], []
        for name, step in {step.join.source: step for step in self.plan.steps}.items():
            plan = step.source_plan
            pieces = start.pipeline | f"Read_{name}" >> read.ReadBatches(plan, self.reject)
            receipts.append(
                pieces | f"Receipt_{name}" >> beam.Map(_keyed_receipt, name, files.join(self.rejected, name))
            )
            if plan.source.key:
                folder = _subfolder(self.folder, f"key-{name}")
                keys.append(pieces | f"CheckKey_{name}" >> CheckUniqueKey(plan, folder))
        return CountedSources(
            receipts | "Receipts" >> beam.Flatten(pipeline=start.pipeline),
            keys | "Keys" >> beam.Flatten(pipeline=start.pipeline),
        )


def receipts_by_source(receipts: Iterable[tuple[str, Receipt]]) -> dict[str, list[Receipt]]:
    """Returns source -> the receipts of its pieces, in order."""
    by_source: dict[str, list[Receipt]] = {}
    for source, receipt in receipts:
        by_source.setdefault(source, []).append(receipt)
    return {source: sorted(own, key=lambda receipt: receipt[:2]) for source, own in by_source.items()}


def _keyed_receipt(piece: Piece, source: str, folder: str) -> tuple[str, Receipt]:
    rejected = store_rejected(piece, folder)
    receipt = Receipt(piece.range_number, piece.part, piece.counts, {}, rejected, piece.crc32c, piece.path)
    return source, receipt
