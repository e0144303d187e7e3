"""Positions of rows that are found bad only after the read.

Each position is found by reading the row's byte range once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import ByteRange, SourcePlan
from beam_pipelines.sources.source_format import Position
from beam_pipelines.sources.text.quotes import fold
from beam_pipelines.transforms import read


class RowPositions:
    """Finds the positions of rows; keeps scans and rejected rows between calls."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._transitions: dict[str, list[read.Transition]] = {}
        self._last: tuple[int, list[Rejected]] | None = None

    def quote_states(self, byte_range: ByteRange) -> dict[str, bytes]:
        """Returns the quote states of a range's file, up to its end.

        Args:
          byte_range: of the plan, or the beginning of one.
        """
        path, number = byte_range.file.path, byte_range.number_in_file
        first = byte_range.number - number
        beginning = self._plan.ranges[first : first + 1]
        if not [*read.ranges_to_scan(dataclasses.replace(self._plan, ranges=beginning))]:
            return {}
        whole = self._plan.ranges[byte_range.number]
        transitions, is_cut = self._transitions.setdefault(path, []), byte_range.end < whole.end
        while len(transitions) < number + (not is_cut):
            following = self._plan.ranges[first + len(transitions)]
            transitions.append(read.scan_range(self._plan, following))
        own = [read.scan_range(self._plan, byte_range)] if is_cut else transitions[number:]
        return {path: fold([*transitions[:number], *own])}

    def find(self, range_number: int, rows: Sequence[int]) -> list[Position]:
        """Finds rows of one byte range.

        Args:
          range_number: of the source.
          rows: ascending row numbers, from 0, among the readable rows of the range.
        """
        found = self._find(range_number, rows)
        if self._plan.private:
            return [place._replace(text="") for place in found]
        return found

    def _find(self, range_number: int, rows: Sequence[int]) -> list[Position]:
        byte_range = self._plan.ranges[range_number]
        format_ = format_of(self._plan)
        if byte_range.members == (0, 0) or format_.is_file_a_row:
            states = self.quote_states(byte_range)
            return format_.positions(
                self._plan.as_read, byte_range, states, self._rejected(byte_range, states), rows
            )
        return list(self._in_members(byte_range, rows))

    def _rejected(self, byte_range: ByteRange, states: dict[str, bytes]) -> list[Rejected]:
        """Returns the rows of a range that cannot be read."""
        if self._last is None or self._last[0] != byte_range.number:
            chunks = read.read_range(self._plan, byte_range, states, reject=True)
            self._last = byte_range.number, [bad for chunk in chunks for bad in chunk.rejected]
        return self._last[1]

    def _in_members(self, byte_range: ByteRange, rows: Sequence[int]) -> Iterator[Position]:
        """Yields the positions of rows of a range of several files."""
        wanted, before, format_ = list(rows), 0, format_of(self._plan)
        for own in read.ranges_of_members(self._plan, byte_range):
            if not wanted:
                return
            chunks = list(read.read_range(self._plan, own, {}, reject=True))
            end = before + sum(chunk.batch.num_rows for chunk in chunks)
            here = [row - before for row in wanted if row < end]
            rejected = [bad for chunk in chunks for bad in chunk.rejected]
            yield from format_.positions(self._plan.as_read, own, {}, rejected, here)
            wanted, before = wanted[len(here) :], end
