"""Findings about rows of one split that are also in another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.leaks import Leaks

ROWS = "rows"


class Leak(NamedTuple):
    """Rows of a split that are also in a split above it.

    Attributes:
      rule: of the recipe.
      what: ``rows``, or the columns of the entity.
      first, split: the earlier split, and the rows' own.
      rows: of the split.
      found: those that leak.
      pairs: where the first of them are: the earlier row, and the row itself.
      rows_shown: of each row: its file, position and text, and the text of the earlier row.
    """

    rule: Leaks
    what: tuple[str, ...] | str
    first: str
    split: str
    rows: int
    found: int
    pairs: tuple[tuple[str, str], ...]
    rows_shown: tuple[tuple[str, str, str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        return {
            "what": self.what if isinstance(self.what, str) else list(self.what),
            "action": self.rule.action,
            "also_in": self.first,
            "split": self.split,
            "rows": self.rows,
            "found": self.found,
            "first": [list(pair) for pair in self.pairs],
        }


def show_leak(entry: Mapping[str, Any]) -> str:
    """Returns a leak in a line, of its entry in a manifest."""
    found, rows = entry["found"], entry["rows"]
    what = "are" if entry["what"] == ROWS else f"have a {', '.join(entry['what'])} that is"
    first, row = entry["first"][0]
    return (
        f"{found:,} of {rows:,} rows of '{entry['split']}' ({show_share(found, rows)}) {what} also "
        f"in '{entry['also_in']}'; the first is {row}, as {first}"
    )


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yields the leaks of a dataset."""
    for entry in manifest.get("leaks", ()):
        yield f"leaks: {show_leak(entry)}"
