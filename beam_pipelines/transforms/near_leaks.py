"""Finds rows of one split that are similar to another's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam
import numpy as np

from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.core.places import MOST_PLACES, Place, Repeats
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.meet import Met
from beam_pipelines.transforms.near_duplicates import MeetNear, near_chunks
from beam_pipelines.transforms.near_rows import NearRule, send_bands
from beam_pipelines.transforms.split import SplitPlan, assign_split


def send_split_bands(chunk: Chunk, rule: NearRule, split: SplitPlan) -> Message:
    """Sends the hashes of a chunk's bands with their splits."""
    return send_bands(chunk, rule, assign_split(split, chunk))


def near_leaks(received: Received, rule: NearRule) -> Iterator[Met]:
    """Yields the leaks of each chunk of a range.

    Args:
      received: candidates, values and rows.
      rule: how they are compared.
    """
    for chunk, near in near_chunks(received, rule):
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
            yield Met(rule.meet, found)


@dataclasses.dataclass
class NearLeaks(beam.PTransform):
    """Finds rows of one split that are similar to another's.

    Input: ``Chunk`` elements with the column of values, before they are split. Output:
    ``Met`` elements.

    Attributes:
      rule: how values are compared.
      split: assigns rows.
      folders: as in ``MeetNear``.
    """

    rule: NearRule
    split: SplitPlan
    folders: tuple[str | None, str | None, str | None]

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Met]:
        bands = chunks | "SendBands" >> beam.Map(send_split_bands, self.rule, self.split)
        meet = MeetNear(self.rule, True, (self.rule.column, PLACE), self.folders)
        met = (chunks, bands) | "Near" >> meet
        return met | "FindLeaks" >> beam.FlatMap(near_leaks, self.rule)
