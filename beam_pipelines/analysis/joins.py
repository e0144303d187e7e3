"""Judges joins by their row counts: what matches nothing, or multiplies rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.layout.manifest import Manifest


class JoinMatches(NamedTuple):
    """Counts of a join: left rows, and their matches.

    Attributes:
      source: name of the right source.
      matched, unmatched: left rows with and without a match, kept or not.
      added: rows that second and further matches add.
      require_match: least share of matched rows, or ``None``.
      max_fanout: most rows that a matched row becomes on average, or ``None``.
    """

    source: str
    matched: int
    unmatched: int
    added: int
    require_match: float | None = None
    max_fanout: float | None = None

    @property
    def rows(self) -> int:
        """Left rows that came in."""
        return self.matched + self.unmatched

    @property
    def share(self) -> float:
        """Share of them with a match; 1 without rows."""
        return self.matched / self.rows if self.rows else 1.0

    @property
    def fanout(self) -> float:
        """Rows that a row with a match becomes on average."""
        return (self.matched + self.added) / self.matched if self.matched else 1.0

    def problems(self) -> Iterator[str]:
        """Yields what the recipe does not allow."""
        if self._matches_nothing:
            yield self._no_match()
        if self.require_match is not None and self.share < self.require_match:
            yield (
                f"join with '{self.source}': found a match for {self.matched:,} of {self.rows:,} "
                f"rows ({show_share(self.matched, self.rows)}), expected at least "
                f"{100 * self.require_match:.6g}% of them ('require_match'). Mend the keys, or "
                "lower it."
            )
        if self.max_fanout is not None and self.fanout > self.max_fanout:
            yield (
                f"join with '{self.source}': found {self.matched + self.added:,} rows of "
                f"{self.matched:,} with a match, {self.fanout:.3g} each, expected at most "
                f"{self.max_fanout:.6g} ('max_fanout'). Make the keys of the source unique, or "
                "raise it."
            )

    def warnings(self) -> Iterator[str]:
        """Yields likely mistakes that the recipe does not speak of."""
        if self._matches_nothing:
            yield self._no_match()
        if self.max_fanout is None and self.added:
            yield (
                f"join with '{self.source}': {self.matched:,} rows with a match became "
                f"{self.matched + self.added:,}, {self.fanout:.3g} each. Declare the 'key' of the "
                "source if it is to be unique, or 'max_fanout' if it is not."
            )

    @property
    def _matches_nothing(self) -> bool:
        return self.require_match is None and self.rows > 0 and not self.matched

    def _no_match(self) -> str:
        return (
            f"join with '{self.source}': none of {self.rows:,} rows has a match. Compare the keys, "
            "and any times, of both sides; keys that differ by blanks, case, leading zeros or the "
            "time of day need 'derive' of a source. 'require_match: 0' says that none is right."
        )


def check_joins(joins: Iterable[JoinMatches]) -> None:
    """Raises ``DataError`` for joins that the recipe does not allow."""
    problems = [problem for join in joins for problem in join.problems()]
    if problems:
        raise DataError("\n".join([*problems, "Nothing was written."]))


def matches_of(how: str, matched: int, unmatched: int, dropped: int) -> tuple[int, int]:
    """Returns the left rows with and without a match."""
    if how == "anti":
        return dropped, unmatched
    return matched, unmatched + dropped


def joins_of(manifest: Manifest) -> list[JoinMatches]:
    """Returns the joins of a dataset or a description."""
    recipe = manifest.recipe.get("join", ())
    return [
        JoinMatches(
            counts.source,
            *matches_of(counts.how, counts.matched, counts.unmatched, counts.dropped),
            counts.added,
            join.get("require_match"),
            join.get("max_fanout"),
        )
        for counts, join in zip(manifest.joins, recipe, strict=True)
    ]
