"""Joins chunks with further sources, broadcast or hash partitioned.

Small right sources are broadcast: each worker process reads and indexes them once, and probes the
index chunk by chunk. Large ones are hash partitioned (``transforms/join/hash_join.py``). Both give
the same chunks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.shared import Shared

from beam_pipelines.core.arrow.ipc import unpack
from beam_pipelines.core.arrow.key_index import KeyIndex, index_keys
from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.chunks import Chunk, ChunkCounts, add_counts
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.joins.index import JoinIndex, build_index, join_batch, table_batch
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms import read
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.join import hash_join
from beam_pipelines.transforms.join.plan import JoinPlan, JoinStep, count_partitions
from beam_pipelines.transforms.meet import MeetByKey, cut_by_key, send_counts, send_rows
from beam_pipelines.transforms.select.rejected_files import store_rejected


def check_unique(
    index: KeyIndex, table: Mapping[str, pa.Array] | pa.RecordBatch, key: Sequence[str], where: str
) -> int:
    """Checks that no key of the index has two rows.

    Args:
      index: over the columns ``key`` of ``table``.
      table: to show a repeated key.
      key: the columns that are declared unique.
      where: the source, for the message.

    Returns:
      The number of keys. Rows with a null in a key column match nothing, and are not counted.

    Raises:
      DataError: shows the first repeated key in the table, and its number of rows.
    """
    counts = np.diff(index.starts)
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        worst = repeated[np.argmin(index.rows[index.starts[repeated]])]
        row = int(index.rows[index.starts[worst]])
        shown = ", ".join(f"{name}={python_value(table[name], row)!r}" for name in key)
        others = (
            f" (and {len(repeated) - 1} more keys occur more than once)"
            if len(repeated) > 1
            else ""
        )
        raise DataError(
            f"{where}: found {shown} {counts[worst]} times{others}, expected once, because the "
            "source declares "
            f"'key: [{', '.join(key)}]'. Remove the repeated rows, or leave 'key' out if several "
            "matches are meant."
        )
    return len(counts)


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
    return build_index(table, step.join, step.added)


def join_chunk(chunk: Chunk, step: JoinStep, index: JoinIndex) -> Chunk:
    """Joins one chunk; adds the join's counts."""
    batch, counts = join_batch(chunk.batch, index, step.join, step.number)
    return chunk._replace(batch=batch, counts=add_counts(chunk.counts, counts))


class _ProbeIndex(beam.DoFn):
    """Probes the index of a join, which a process' threads share."""

    def __init__(self, step: JoinStep, reject: bool) -> None:
        self._step = step
        self._reject = reject
        self._shared = Shared()
        self._index: JoinIndex | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        # Shared keeps only the last object of a process, and a chain of joins has several.
        if self._index is None:
            self._index = self._shared.acquire(lambda: load_index(self._step, self._reject))
        yield join_chunk(chunk, self._step, self._index)


@dataclasses.dataclass
class JoinByHash(beam.PTransform):
    """Joins chunks with a right source of any size, by partition.

    Input: ``Chunk`` elements. Output: a ``Chunk`` with the same address for each, in any order.

    Attributes:
      step: the join.
      folder: for the exchanges, on storage that all workers share.
      reject: as in ``read.ReadChunks``.
    """

    step: JoinStep
    folder: str
    reject: bool

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        step = self.step
        right = chunks.pipeline | "ReadRight" >> read.ReadChunks(step.source_plan, self.reject)
        sends = (
            partial(hash_join.send_left, step=step),
            partial(hash_join.send_right, step=step),
        )
        joined = (chunks, right) | "MeetInPartitions" >> MeetByKey(
            sends,
            partial(hash_join.join_partition, step=step),
            files.join(self.folder, f"join{step.number}-meet"),
            spreads=True,
        )
        return (chunks, *joined) | "ReturnToRanges" >> MeetByKey(
            (send_counts, None, None),
            partial(hash_join.restore_range, step=step),
            files.join(self.folder, f"join{step.number}-return"),
        )


@dataclasses.dataclass
class JoinChunks(beam.PTransform):
    """Joins chunks with one right source after the other.

    Input: ``Chunk`` elements. Output: a ``Chunk`` for each, with the same address and the joins'
    counts. Rows keep their order; several matches of a row are in the right source's order. The
    strategies do not change the bytes.

    Attributes:
      plan: from ``plan_join``.
      folder: for the exchanges of hash joins, used by this step only.
      reject: as in ``read.ReadChunks``.
    """

    plan: JoinPlan
    folder: str
    reject: bool

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        for step in self.plan.steps:
            if step.strategy == "broadcast":
                join: beam.PTransform = beam.ParDo(_ProbeIndex(step, self.reject))
            else:
                join = JoinByHash(step, self.folder, self.reject)
            chunks = chunks | f"Join{step.number}" >> join
        return chunks


def send_keys(chunk: Chunk, key: tuple[str, ...], partitions: int) -> Message:
    """Sends only the key columns of a chunk to their partitions."""
    return send_rows(chunk[:2], cut_by_key(chunk.batch.select(key), key, partitions))


def check_partition(received: Received, source: Source) -> Iterator[int]:
    """Yields the number of keys in one partition.

    Raises:
      DataError: a key occurs more than once; the message shows it.
    """
    batches = [packed.batch for payload in received.payloads() for packed in unpack(payload)]
    batch = table_batch(pa.Table.from_batches(batches))
    yield check_unique(index_keys(batch.columns), batch, source.key, source.name)


def check_unique_key(plan: SourcePlan, folder: str) -> MeetByKey:
    """Returns a transform that fails if a source's key is not unique.

    Input: the source's ``Chunk`` elements. Output: the number of keys in each partition, for other
    steps to wait for; rows with a null in a key column are not counted.

    Args:
      plan: of the source, with a declared ``key``.
      folder: as in ``MeetByKey``.
    """
    send = partial(send_keys, key=plan.source.key, partitions=count_partitions(plan))
    return MeetByKey(send, partial(check_partition, source=plan.source), folder)


class CountedSources(NamedTuple):
    """Row counts and key counts of right sources.

    Attributes:
      chunk_counts: ``(source, ChunkCounts)``, one for each chunk.
      keys: number of keys in each partition of a source with a declared key; complete when the keys
        are checked.
    """

    chunk_counts: beam.PCollection[tuple[str, ChunkCounts]]
    keys: beam.PCollection[int]


@dataclasses.dataclass
class CountRightSources(beam.PTransform):
    """Reads each right source again: counts rows, checks declared keys.

    Input: the start of a pipeline. Output: ``CountedSources``; a source that is joined twice is
    counted once.

    Attributes:
      plan: from ``plan_join``.
      folder: for the exchange of keys, used by this step only.
      reject: as in ``read.ReadChunks``.
      rejected: folder for rejected rows, used by this step only.
    """

    plan: JoinPlan
    folder: str
    reject: bool
    rejected: str = ""

    def expand(self, start: beam.pvalue.PBegin) -> CountedSources:
        chunk_counts, keys = [], []
        for name, step in {step.join.source: step for step in self.plan.steps}.items():
            plan = step.source_plan
            chunks = start.pipeline | f"Read_{name}" >> read.ReadChunks(plan, self.reject)
            chunk_counts.append(
                chunks
                | f"Counts_{name}"
                >> beam.Map(_counts_with_source, name, files.join(self.rejected, name))
            )
            if plan.source.key:
                folder = files.join(self.folder, f"key-{name}")
                keys.append(chunks | f"CheckKey_{name}" >> check_unique_key(plan, folder))
        return CountedSources(
            chunk_counts | "Counts" >> beam.Flatten(pipeline=start.pipeline),
            keys | "Keys" >> beam.Flatten(pipeline=start.pipeline),
        )


def _counts_with_source(chunk: Chunk, source: str, folder: str) -> tuple[str, ChunkCounts]:
    rejected = store_rejected(chunk, folder)
    counted = ChunkCounts(
        chunk.range_number, chunk.part, chunk.counts, {}, rejected, chunk.crc32c, chunk.path
    )
    return source, counted
