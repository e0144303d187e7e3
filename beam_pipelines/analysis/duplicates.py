"""Findings about rows that occur twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.duplicates import ROWS, Duplicates


class Pair(NamedTuple):
    """An earlier row and a later one like it, in files.

    Attributes:
      first, row: the file's name and the place in it, of each.
      file, place: of the later row.
      text, first_text: of both rows as found.
    """

    first: str
    row: str
    file: str
    place: str
    text: str
    first_text: str


class FoundDuplicates(NamedTuple):
    """Rows with the values of an earlier row.

    Attributes:
      rule: of the recipe.
      rows: rows that were compared.
      found: those that an earlier row equals.
      pairs: the first of them.
    """

    rule: Duplicates
    rows: int
    found: int
    pairs: tuple[Pair, ...]

    @property
    def stops(self) -> bool:
        """Whether they stop the run."""
        return self.found > 0 and self.rule.action == "error"

    def to_json(self) -> dict[str, Any]:
        """Returns the entry of the manifest."""
        near = self.rule.near
        return {
            **({"by": list(self.rule.by) or ROWS} if near is None else {}),
            **({} if near is None else {"near": dataclasses.asdict(near)}),
            "action": self.rule.action,
            "rows": self.rows,
            "found": self.found,
            "first": [[pair.first, pair.row] for pair in self.pairs],
        }


def show_found(entry: Mapping[str, Any]) -> str:
    """Returns what was found, of the entry of a manifest."""
    found, rows = entry["found"], entry["rows"]
    start = f"{found:,} of {rows:,} rows ({show_share(found, rows)}) have"
    if near := entry.get("near"):
        return (
            f"{start} a {near['column']} that is {near['similarity']:g} similar or more to that of "
            "an earlier row"
        )
    by = "" if entry["by"] == ROWS else f" of {', '.join(entry['by'])}"
    return f"{start} the values{by} of an earlier row"


def warnings_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line on the duplicates that a dataset has."""
    entry = manifest.get("duplicates")
    if entry and entry["found"] and entry["action"] != "drop":
        first, duplicate = entry["first"][0]
        yield f"duplicates: {show_found(entry)}; the first is {duplicate}, as {first}"
