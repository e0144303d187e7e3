"""Finds rows whose value is similar to an earlier one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_pipelines.checks.meet import Drop
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.places import MOST_PLACES, Place, Repeats
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.drop_repeats import RowDropper
from beam_pipelines.transforms.exchange import Exchange, Message, Received, load_payload
from beam_pipelines.transforms.join.hash_join import Packed, about_chunk, chunk_about, pack, unpack
from beam_pipelines.transforms.meet import Met
from beam_pipelines.transforms.near_rows import (
    PAIRS,
    REQUESTS,
    ROWS,
    VALUES,
    Candidates,
    Near,
    NearRule,
    answer_requests,
    find_candidates,
    send_bands,
    send_values,
)

_REQUESTS, _FOUND = "requests", "found"


def _tag_requests(received: Received, rule: NearRule, has_splits: bool) -> Iterator[Any]:
    for message in find_candidates(received, has_splits, rule.most_differing):
        is_request = message.order[0] == REQUESTS
        yield beam.pvalue.TaggedOutput(_REQUESTS, message) if is_request else message


def send_rows(chunk: Chunk, columns: tuple[str, ...], compression: str | None) -> Message:
    """Sends a chunk, or some of its columns, to its range."""
    if columns:
        names = [name for name in chunk.batch.schema.names if name in columns]
        chunk = Chunk(chunk.range_number, chunk.part, chunk.batch.select(names), {})
    payload = pack([Packed(chunk.batch, about_chunk(chunk))], compression)
    return Message((ROWS, chunk.range_number, chunk.part), {chunk.range_number: payload})


def near_chunks(received: Received, rule: NearRule) -> Iterator[tuple[Chunk, Near]]:
    """Yields the chunks of a range, each with its near rows.

    Args:
      received: candidates, values and rows.
      rule: how they are compared.
    """
    candidates = Candidates()
    for content, order in zip(received.contents, received.orders, strict=True):
        payload = load_payload(content)
        if order[0] == PAIRS:
            candidates.add_pairs(payload)
        elif order[0] == VALUES:
            candidates.add_values(payload, order)
        else:
            for batch, about in unpack(payload):
                chunk = chunk_about(received.partition, batch, about)
                yield chunk, candidates.near_rows(chunk, rule)


def repeats_of(meet: str, chunk: Chunk, near: Near) -> Met:
    """Returns the near rows of one chunk."""
    pairs = tuple(
        (Place(*first[:3]), Place(chunk.range_number, chunk.part, row))
        for first, row in zip(
            near.firsts[:MOST_PLACES].tolist(), near.rows[:MOST_PLACES].tolist(), strict=True
        )
    )
    return Met(meet, {(0, 0): Repeats(len(near.rows), pairs)})


class _Find(beam.DoFn):
    """Yields the near rows of the chunks of a range."""

    def __init__(self, rule: NearRule) -> None:
        self._rule = rule

    def process(self, received: Received) -> Iterator[Met]:
        for chunk, near in near_chunks(received, self._rule):
            if len(near.rows):
                yield repeats_of(self._rule.meet, chunk, near)


class _Drop(beam.DoFn):
    """Yields the chunks of a range without near rows, in order."""

    def __init__(self, rule: NearRule, base: SourcePlan, drop: Drop) -> None:
        self._rule = rule
        self._reason = drop.reason
        self._dropper = RowDropper(drop.check, base, drop.column)

    def process(self, received: Received) -> Iterator[Any]:
        for chunk, near in near_chunks(received, self._rule):
            reasons = [
                f"{self._reason}: {self._dropper.column} is {similarity:.2f} similar to that of "
                "an earlier row"
                for similarity in near.similarities.tolist()
            ]
            kept = chunk._replace(batch=chunk.batch.drop_columns([self._rule.column]))
            yield self._dropper.without(kept, near.rows, reasons)
            if len(near.rows):
                yield beam.pvalue.TaggedOutput(_FOUND, repeats_of(self._rule.meet, chunk, near))


@dataclasses.dataclass
class MeetNear(beam.PTransform):
    """Brings rows together with the values that they are compared with.

    Input: ``Chunk`` elements, and their ``send_bands`` messages. Output: one ``Received`` for each
    range, for ``near_chunks``.

    Attributes:
      rule: how values are compared.
      has_splits: whether the earlier row has to be in an earlier split.
      columns: of the chunks that the ranges get; empty: all.
      folders: for three exchanges, used by this step only; ``None`` sends through the engine.
    """

    rule: NearRule
    has_splits: bool
    columns: tuple[str, ...]
    folders: tuple[str | None, str | None, str | None]

    def expand(
        self, inputs: tuple[beam.PCollection[Chunk], beam.PCollection[Message]]
    ) -> beam.PCollection[Received]:
        chunks, bands = inputs
        met = (
            bands
            | "Meet" >> Exchange(self.folders[0])
            | "Find"
            >> beam.FlatMap(_tag_requests, self.rule, self.has_splits).with_outputs(
                _REQUESTS, main="pairs"
            )
        )
        values = chunks | "SendValues" >> beam.Map(send_values, self.rule.column)
        answers = (
            (met[_REQUESTS], values)
            | "Ask" >> Exchange(self.folders[1])
            | "Answer" >> beam.FlatMap(answer_requests)
        )
        # A file stays in the page cache, where lz4 would cost more than it saves.
        compression = "lz4" if self.folders[2] is None else None
        rows = chunks | "SendRows" >> beam.Map(send_rows, self.columns, compression)
        return (met.pairs, answers, rows) | "ToRanges" >> Exchange(self.folders[2])


@dataclasses.dataclass
class NearDuplicates(beam.PTransform):
    """Finds rows whose value is similar to that of an earlier row.

    Input: ``Chunk`` elements with the column of values, and ``ROW`` to leave rows out. Output: a
    dict with ``chunks``, without that column; rows that are left out are in their counts; and
    ``found``: ``Met`` elements.

    Attributes:
      rule: how values are compared.
      base: read again to find the positions of rows that are left out.
      drop: leaves near rows out; ``None``: they stay.
      folders: as in ``MeetNear``.
    """

    rule: NearRule
    base: SourcePlan
    drop: Drop | None
    folders: tuple[str | None, str | None, str | None]

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        bands = chunks | "SendBands" >> beam.Map(send_bands, self.rule)
        columns = () if self.drop else (self.rule.column,)
        meet = MeetNear(self.rule, False, columns, self.folders)
        met = (chunks, bands) | "Near" >> meet
        if self.drop is not None:
            drop = beam.ParDo(_Drop(self.rule, self.base, self.drop))
            left = met | "Drop" >> drop.with_outputs(_FOUND, main="chunks")
            return {"chunks": left.chunks, "found": left[_FOUND]}
        found = met | "FindNear" >> beam.ParDo(_Find(self.rule))
        without = chunks | "WithoutValues" >> beam.Map(without_column, self.rule.column)
        return {"chunks": without, "found": found}


def without_column(chunk: Chunk, name: str) -> Chunk:
    """Returns a chunk without a column."""
    return chunk._replace(batch=chunk.batch.drop_columns([name]))
