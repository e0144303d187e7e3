"""Where rows of a source lie, found by reading their range once more: for those that turn out to be bad after they were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.sources import FORMATS_OF_FOLDERS
from beam_pipelines.sources.plan import Range, SourcePlan
from beam_pipelines.sources.positions import Position, positions_of
from beam_pipelines.sources.text.quotes import fold
from beam_pipelines.transforms import read


class RowPlaces:
    """Finds rows of a source's ranges, and keeps what the next range of a file needs."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._to_scan = {(range_.file.path, range_.chunk): range_ for range_ in read.ranges_to_scan(plan)}
        self._transitions: dict[str, list[read.Transition]] = {}
        self._last: tuple[int, list[Rejected]] | None = None

    def states(self, range_: Range) -> dict[str, bytes]:
        """Returns the quote states of the range's file, scanned as far as the range's end."""
        path = range_.file.path
        if (path, range_.chunk) not in self._to_scan:
            return {}
        transitions = self._transitions.setdefault(path, [])
        while len(transitions) <= range_.chunk:
            transitions.append(read.scan_range(self._plan, self._to_scan[path, len(transitions)]))
        return {path: fold(transitions)}

    def find(self, range_number: int, rows: Sequence[int]) -> list[Position]:
        """Finds rows of one range.

        Args:
          range_number: of the source.
          rows: their numbers among those of the range that could be read, from 0, ascending.
        """
        range_ = self._plan.ranges[range_number]
        if range_.members == (0, 0) or self._plan.format in FORMATS_OF_FOLDERS:
            states = self.states(range_)
            return positions_of(self._plan, range_, states, self._rejected(range_, states), rows)
        return list(self._in_members(range_, rows))

    def _rejected(self, range_: Range, states: dict[str, bytes]) -> list[Rejected]:
        """Returns the rows of a range that cannot be read."""
        if self._last is None or self._last[0] != range_.number:
            pieces = read.read_range(self._plan, range_, states, reject=True)
            self._last = range_.number, [bad for piece in pieces for bad in piece.rejected]
        return self._last[1]

    def _in_members(self, range_: Range, rows: Sequence[int]) -> Iterator[Position]:
        """Yields the positions of rows of a range of several files."""
        wanted, before = list(rows), 0
        for own in read.ranges_of_members(self._plan, range_):
            if not wanted:
                return
            pieces = list(read.read_range(self._plan, own, {}, reject=True))
            behind = before + sum(piece.batch.num_rows for piece in pieces)
            here = [row - before for row in wanted if row < behind]
            rejected = [bad for piece in pieces for bad in piece.rejected]
            yield from positions_of(self._plan, own, {}, rejected, here)
            wanted, before = wanted[len(here) :], behind
