"""``duplicates``: rows with the values of an earlier row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipelines.checks.check import Check, Facts, Known, Rows
from beam_pipelines.checks.finding import Finding
from beam_pipelines.checks.meet import Drop, Meet, repeats
from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.duplicates import ROWS, Duplicates
from beam_pipelines.recipe.model import Recipe

EQUAL = "duplicates"


@dataclasses.dataclass(frozen=True)
class FindDuplicates(Check):
    """Rows with the values of an earlier row.

    Attributes:
      rule: of the recipe.
      columns: that are compared; none: similar values of one (``transforms/near_duplicates.py``).
    """

    name = "duplicates"
    listed = "pairs"
    changes_rows, appends = True, False
    rule: Duplicates
    columns: tuple[str, ...]

    @classmethod
    def plan(cls, recipe: Recipe, known: Known) -> FindDuplicates | None:
        rule = recipe.duplicates
        if rule is None:
            return None
        if rule.near is not None:
            return cls(rule, ())
        known.note_unknown(rule.by, ("duplicates", "by"))
        return cls(rule, rule.by or known.written)

    @property
    def meets(self) -> tuple[Meet, ...]:  # type: ignore[override]
        if not self.columns:
            return ()
        by = self.rule.by
        has = f"the same {', '.join(by)}" if by else "the same values"
        reason = f"a duplicate: an earlier row has {has}"
        drop = Drop(self.name, reason, by[0] if len(by) == 1 else "") if self.rule.drops else None
        return (Meet(EQUAL, self.columns, repeats, drop=drop),)

    @property
    def sees(self) -> tuple[str, ...]:
        return self.columns

    def judge(self, facts: Facts, rows: Rows) -> Iterator[Finding]:
        rule, near, found = self.rule, self.rule.near, facts.repeats(EQUAL)
        pairs = rows.pairs_of(found.pairs)
        entry = {
            **({"by": list(rule.by) or ROWS} if near is None else {}),
            **({} if near is None else {"near": dataclasses.asdict(near)}),
            "action": rule.action,
            "rows": facts.rows,
            "found": found.rows,
            "first": [[pair.first, pair.row] for pair in pairs],
        }
        listed = tuple(
            {
                "source": rows.source,
                "file": pair.file,
                "position": pair.place,
                "reason": f"a {'near ' if near else ''}duplicate of {pair.first}",
                "text": pair.text,
                "first_text": pair.first_text,
            }
            for pair in pairs
        )
        lines = tuple(f"{pair.row}, as {pair.first}" for pair in pairs)
        severity = "ok" if rule.action == "drop" or not found.rows else rule.action
        yield Finding(severity, lines, entry, listed)

    def entry(self, findings: Sequence[Finding]) -> Any:
        return findings[0].data

    def headline(self, stopping: Sequence[Finding], findings: Sequence[Finding]) -> str:
        return f"duplicates: {show_found(findings[0].data)}"

    def cure(self, stopping: Sequence[Finding]) -> str:
        return (
            "Mend the data; or leave the later rows out with 'action: drop', or take "
            "'action: warn'."
        )

    @classmethod
    def warnings_of(cls, entry: Any) -> Iterator[str]:
        if entry and entry["found"] and entry["action"] != "drop":
            first, duplicate = entry["first"][0]
            yield f"duplicates: {show_found(entry)}; the first is {duplicate}, as {first}"


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
