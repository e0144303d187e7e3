"""Reads the rows of all splits: read, join, select, split, drop repeats."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam

from beam_pipelines.checks.meet import Meeting
from beam_pipelines.core.bytes_read import take_consumed
from beam_pipelines.core.chunks import ROW, Chunk
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.runners.progress import Kind, ProgressLog
from beam_pipelines.sources.plan import RANGE_BYTES, ByteRange
from beam_pipelines.transforms import equal_rows, metrics
from beam_pipelines.transforms.group import GroupRows
from beam_pipelines.transforms.join.join import JoinChunks, check_unique_key
from beam_pipelines.transforms.join.plan import count_partitions
from beam_pipelines.transforms.read import ReadChunks
from beam_pipelines.transforms.select.reject import Checks, SelectOrReject
from beam_pipelines.transforms.select.select import SelectChunks, SelectPlan, joinable
from beam_pipelines.transforms.split.split import CHUNK_COUNTS, SplitChunks
from beam_pipelines.transforms.split.stratify import AssignSplits

# A larger range is a file that cannot be cut.
_LARGE_RANGE_BYTES = 2 * RANGE_BYTES


@dataclasses.dataclass
class ReadSplits(beam.PTransform):
    """Reads, joins, selects, groups and splits.

    Input: the pipeline's begin. Output: a dict with ``chunks`` and ``chunk_counts`` from
    ``split.SplitChunks``. If the base source declares a key, also ``keys``: complete when the key
    was found unique. If rows are compared, also ``found``: ``Met`` elements. If classes are
    divided, also ``shares``.
    """

    plan: Plan
    folders: RunFolders

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection[Any]]:
        plan, log = self.plan, ProgressLog(self.folders.progress)
        reject = plan.recipe.rejects
        drops = any(meet.drop is not None for meet in plan.select.meets)
        chunks = (
            begin
            | "Read" >> ReadChunks(plan.base, reject, numbered=reject or drops, take=plan.take)
            | "NoteRead" >> beam.ParDo(_NoteRead(log, plan.base.ranges))
        )
        keys = {}
        if plan.base.source.key:
            folder = self.folders.exchange_of("base-key")
            keys["keys"] = chunks | "CheckKey" >> check_unique_key(plan.base, folder)
        if plan.base_filter is not None:
            chunks = self._filter(chunks, plan.base_filter, reject, drops)
        if plan.joins.steps:
            chunks = chunks | "Join" >> JoinChunks(
                plan.joins, self.folders.exchange_of("join"), reject
            )
        selection = plan.select.numbered() if drops else plan.select
        checks = dataclasses.replace(plan.checks, select=selection)
        select = SelectOrReject(checks, plan.base) if reject else SelectChunks(selection)
        chunks = chunks | "Select" >> select
        chunks, compared = self._compare(chunks, drops)
        if plan.groups is not None:
            chunks = chunks | "Group" >> GroupRows(
                plan.groups,
                plan.select.schema,
                len(plan.base.ranges),
                self.folders.exchange_of("group"),
            )
        found = {}
        if plan.split.stratify:
            chunks, found["shares"] = self._assign(chunks)
        chunks = self._compare_splits(chunks, compared)
        if compared:
            found["found"] = compared | "AllFound" >> beam.Flatten()
        splits = chunks | "Split" >> SplitChunks(
            plan.split, self.folders.rejected_of("base"), plan.recipe.output
        )
        kept = splits.chunks | "NoteKept" >> beam.Map(note_rows, log, "kept")
        return {"chunks": kept, "chunk_counts": splits[CHUNK_COUNTS], **keys, **found}

    def _filter(
        self, chunks: beam.PCollection[Chunk], first: SelectPlan, reject: bool, drops: bool
    ) -> beam.PCollection[Chunk]:
        """Leaves out rows that need no join for it."""
        select = first.numbered() if reject or drops else first
        checks = Checks(select, None)
        filtered = SelectOrReject(checks, self.plan.base) if reject else SelectChunks(select)
        return chunks | "Filter" >> filtered | "Joinable" >> beam.Map(joinable, select)

    def _assign(
        self, chunks: beam.PCollection[Chunk]
    ) -> tuple[beam.PCollection[Chunk], beam.PCollection[str]]:
        """Assigns rows to splits by the counts of their classes."""
        folders, partitions = self.folders, count_partitions(self.plan.base)
        assign = AssignSplits(
            self.plan.split,
            partitions,
            folders.scratch_of("class_shares"),
            (folders.scratch_of("classes"), folders.scratch_of("unsplit")),
            folders.exchange_of("classes"),
        )
        assigned = chunks | "AssignSplits" >> assign
        return assigned["chunks"], assigned["shares"]

    def _compare(
        self, chunks: beam.PCollection[Chunk], drops: bool
    ) -> tuple[beam.PCollection[Chunk], list[beam.PCollection[Any]]]:
        """Runs the meets of rows without splits.

        Meets that leave rows out come first. The other meets are of the rows that are left.
        """
        meeting, found = self._meeting(), []
        meets = [meet for meet in self.plan.select.meets if not meet.has_splits]
        for meet in meets:
            if meet.drop is not None:
                met = chunks | f"Meet {meet.name}" >> equal_rows.DropRepeats(meet, meeting)
                chunks = met["chunks"]
                found.append(met["found"])
        if drops:
            chunks = chunks | "WithoutRow" >> beam.Map(equal_rows.without_columns, (ROW,))
        if equal := [meet for meet in meets if meet.drop is None]:
            found.append(chunks | "MeetRows" >> equal_rows.find_rows(equal, meeting))
        if carried := equal_rows.hash_names(meet for meet in meets if meet.drop is None):
            chunks = chunks | "WithoutHashes" >> beam.Map(equal_rows.without_columns, carried)
        return chunks, found

    def _compare_splits(
        self, chunks: beam.PCollection[Chunk], found: list[beam.PCollection[Any]]
    ) -> beam.PCollection[Chunk]:
        """Runs the meets of rows with splits."""
        plan, meeting = self.plan, self._meeting()._replace(split=self.plan.split)
        meets = [meet for meet in plan.select.meets if meet.has_splits]
        if meets:
            found.append(chunks | "MeetSplits" >> equal_rows.find_rows(meets, meeting))
            chunks = chunks | "WithoutMet" >> beam.Map(
                equal_rows.without_columns, equal_rows.hash_names(meets)
            )
        return chunks

    def _meeting(self) -> Meeting:
        """Returns what other ways to meet may use."""
        base = self.plan.base
        return Meeting(base, count_partitions(base), self.folders.exchange_of)


class _NoteRead(beam.DoFn):
    """Notes the rows of chunks, and the bytes of their ranges.

    The bytes of a range are noted with its first chunk. A file that cannot be cut may be a range of
    any size, and a compressed one has many rows: of such a one they are noted as far as it is read,
    and the rest at its end.
    """

    def __init__(self, log: ProgressLog, ranges: Sequence[ByteRange]) -> None:
        self._log, self._ranges, self._rest = log, ranges, 0

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        consumed = take_consumed()
        if chunk.part == 0:
            self._note_rest()
            byte_range = self._ranges[chunk.range_number]
            self._rest = byte_range.end - byte_range.start
        is_small = not consumed and self._rest <= _LARGE_RANGE_BYTES and chunk.part == 0
        is_last = chunk.crc32c is not None
        size = self._rest if is_small or is_last else min(consumed, self._rest)
        self._rest -= size
        self._note(chunk.batch.num_rows, size)
        yield chunk

    def finish_bundle(self) -> None:
        self._note_rest()

    def _note_rest(self) -> None:
        if self._rest:
            self._note(0, self._rest)
        self._rest = 0

    def _note(self, rows: int, size: int) -> None:
        self._log.add(rows, size, "read")
        metrics.count(bytes_read=size)


def note_rows(chunk: Chunk, log: ProgressLog, kind: Kind) -> Chunk:
    """Notes the rows of a chunk, and returns it."""
    log.add(chunk.batch.num_rows, 0, kind)
    return chunk
