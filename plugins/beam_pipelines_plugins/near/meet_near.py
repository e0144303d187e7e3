"""Brings rows together whose values are similar."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from beam_pipelines.checks.meet import Meeting, RowDrop
from beam_pipelines.core.arrow.ipc import unpack
from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.core.places import MOST_PLACES, Place, Repeats
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.equal_rows import Met, RowDropper
from beam_pipelines.transforms.exchange import Message, Received, load_payload
from beam_pipelines.transforms.meet import MeetByKey, send_chunk
from beam_pipelines.transforms.split.split import SplitPlan, assign_split
from beam_pipelines_plugins.near.near_rows import (
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


def _tag_requests(received: Received, has_splits: bool) -> Iterator[Any]:
    for message in find_candidates(received, has_splits):
        is_request = message.order[0] == REQUESTS
        yield beam.pvalue.TaggedOutput(_REQUESTS, message) if is_request else message


def _send_bands(chunk: Chunk, rule: NearRule, split: SplitPlan | None) -> Message:
    return send_bands(chunk, rule, None if split is None else assign_split(split, chunk))


def send_rows(chunk: Chunk, columns: tuple[str, ...], compresses: bool) -> Message:
    """Sends a chunk, or some of its columns, to its range."""
    if columns:
        names = [name for name in chunk.batch.schema.names if name in columns]
        chunk = Chunk(chunk.range_number, chunk.part, chunk.batch.select(names), {})
    return send_chunk(chunk, ROWS, compresses)


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
                chunk = Chunk.of(received.partition, batch, about)
                yield chunk, candidates.near_rows(chunk, rule)


def repeats_of(meet: str, chunk: Chunk, near: Near) -> Iterator[Met]:
    """Yields the near rows of one chunk by their splits, if any."""
    found = {}
    splits = np.stack([near.firsts[:, 3], near.splits])
    for earlier, own in np.unique(splits, axis=1).T.tolist():
        rows = np.flatnonzero((splits[0] == earlier) & (splits[1] == own))
        pairs = tuple(
            (Place(*first[:3]), Place(chunk.range_number, chunk.part, row))
            for first, row in zip(
                near.firsts[rows[:MOST_PLACES]].tolist(),
                near.rows[rows[:MOST_PLACES]].tolist(),
                strict=True,
            )
        )
        found[earlier, own] = Repeats(len(rows), pairs)
    if found:
        yield Met(meet, found)


def _find(received: Received, rule: NearRule) -> Iterator[Met]:
    for chunk, near in near_chunks(received, rule):
        yield from repeats_of(rule.meet, chunk, near)


class _DropNear:
    """Yields the chunks of a range without near rows, in order."""

    def __init__(self, rule: NearRule, base: SourcePlan, drop: RowDrop) -> None:
        self._rule = rule
        self._reason = drop.reason
        self._dropper = RowDropper(drop.check, base, drop.column)

    def __call__(self, received: Received) -> Iterator[Any]:
        for chunk, near in near_chunks(received, self._rule):
            reasons = [
                f"{self._reason}: {self._dropper.column} is {similarity:.2f} similar to that of "
                "an earlier row"
                for similarity in near.similarities.tolist()
            ]
            kept = chunk._replace(batch=chunk.batch.drop_columns([self._rule.column]))
            yield self._dropper.without(kept, near.rows, reasons)
            for met in repeats_of(self._rule.meet, chunk, near):
                yield beam.pvalue.TaggedOutput(_FOUND, met)


@dataclasses.dataclass
class MeetNear(beam.PTransform):
    """Finds rows whose value is similar to one before it.

    Input: ``Chunk`` elements with the column of values, and ``ROW`` to leave rows out. Output: as
    ``Way.transform`` says.

    Attributes:
      rule: how values are compared.
      drop: leaves near rows out; ``None``: they stay.
      meeting: with splits, the row before has to be in an earlier one.
    """

    rule: NearRule
    drop: RowDrop | None
    meeting: Meeting

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        rule, split = self.rule, self.meeting.split
        bands, values, near = (
            self.meeting.exchange_of(f"{rule.meet} {part}") for part in ("bands", "values", "near")
        )
        met = chunks | "Find" >> MeetByKey(
            partial(_send_bands, rule=rule, split=split),
            partial(_tag_requests, has_splits=split is not None),
            bands,
            (_REQUESTS,),
        )
        sends = (None, partial(send_values, column=rule.column))
        answers = (met[_REQUESTS], chunks) | "Ask" >> MeetByKey(sends, answer_requests, values)
        columns = () if self.drop else (rule.column, PLACE)
        rows = partial(send_rows, columns=columns, compresses=near is None)
        received = (met.main, answers, chunks)
        if self.drop is None:
            find = MeetByKey((None, None, rows), partial(_find, rule=rule), near)
            return {"found": received | "FindNear" >> find}
        drop = _DropNear(rule, self.meeting.base, self.drop)
        left = received | "Drop" >> MeetByKey((None, None, rows), drop, near, (_FOUND,))
        return {"chunks": left.main, "found": left[_FOUND]}
