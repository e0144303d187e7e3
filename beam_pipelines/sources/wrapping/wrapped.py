"""The base of formats that change the columns of another format."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Format, Position, QuoteStates
from beam_pipelines.sources.plan import ByteRange, SourcePlan
from beam_pipelines.sources.text.quotes import Dialect

# Attributes of the format of the files that this format has, too.
_TRAITS = (
    *("suffixes", "Options", "infers_types", "has_arrays", "is_compressed", "has_lines"),
    *("checks_images", "rounds_sparse", "tfx_rows"),
)


@dataclasses.dataclass(frozen=True)
class Wrapped(Format):
    """A format whose rows another format reads.

    Attributes:
      format: of the files.
    """

    format: Format

    def __post_init__(self) -> None:
        for name in _TRAITS:
            object.__setattr__(self, name, getattr(self.format, name))

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return self.format.check(self._own(source))

    def paths_of(self, source: Source) -> Mapping[str, tuple[str, ...]]:
        """Returns key -> paths of other files that the options name."""
        return self.format.paths_of(source)

    def has_own_names(self, source: Source) -> bool:
        """Whether files name their columns; see ``Format``."""
        return self.format.has_own_names(source)

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return self.format.splittable(source, path)

    def quoting(self, source: Source) -> Dialect | None:
        """Returns the dialect if line ends may be inside quotes."""
        return self.format.quoting(source)

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of other files that are read."""
        return self.format.companions(self._inner(plan))

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Finds rows of a range in their file; see ``Format``."""
        return self.format.positions(self._inner(plan), byte_range, quote_states, rejected, rows)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns the word for a row, and a range's first row number."""
        return self.format.numbering(self._inner(plan), byte_range)

    def _own(self, source: Source) -> Source:
        """Returns the source as the format of the files takes it."""
        return source

    @abc.abstractmethod
    def _inner(self, plan: SourcePlan) -> SourcePlan:
        """Returns the plan of the files' own columns."""
