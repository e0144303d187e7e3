"""``duplicates``: rows with the values of an earlier row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from beam_pipelines.checks import check
from beam_pipelines.checks.meet import Meet, RowDrop, repeats
from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.keys import plain_key, recipe_key, section
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import Value, read_choice, read_texts, reader

EQUAL = "duplicates"
_HINT = "Mend the data; or leave the later rows out with 'action: drop', or take 'action: warn'."

ROWS = "rows"


@reader(**read_texts.schema)
def _read_by(value: Value) -> tuple[str, ...] | None:
    """The columns to compare; none: whole rows."""
    if isinstance(value.tree, Scalar) and value.tree.text == ROWS:
        return ()
    return read_texts(value)


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """The action for rows with the values of an earlier row.

    Attributes:
      by: columns to compare; empty: all that are written.
    """

    by: tuple[str, ...] = recipe_key(
        _read_by, (), "`rows`", "Whole rows, or the columns whose values are compared."
    )
    action: Literal["warn", "drop", "error"] = plain_key(
        read_choice(("warn", "drop", "error")),
        "warn",
        "Whether later ones are a warning, are left out, or stop the run.",
    )


read_duplicates = section(Duplicates, "a mapping such as {by: rows, action: drop}")


@dataclasses.dataclass(frozen=True)
class FindDuplicates(check.Check):
    """Rows with the values of an earlier row.

    Attributes:
      rule: of the recipe.
      columns: that are compared.
    """

    name, reader, help = "duplicates", read_duplicates, "Looks for rows that recur."
    changes_rows, finds_equal_rows = True, True
    rule: Duplicates
    columns: tuple[str, ...]

    @classmethod
    def plan(cls, rule: Duplicates, recipe: Recipe, known: check.SelectedColumns) -> FindDuplicates:  # noqa: ARG003
        known.note_unknown(rule.by, ("duplicates", "by"))
        return cls(rule, rule.by or known.written)

    @property
    def meets(self) -> tuple[Meet, ...]:
        by = self.rule.by
        has = f"the same {', '.join(by)}" if by else "the same values"
        reason = f"a duplicate: an earlier row has {has}"
        drop = RowDrop(self.name, reason, by[0] if len(by) == 1 else "")
        is_dropped = self.rule.action == "drop"
        return (Meet(EQUAL, self.columns, repeats, drop=drop if is_dropped else None),)

    @property
    def sees(self) -> tuple[str, ...]:
        return self.columns

    def judge(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        rule, found = self.rule, facts.repeats(EQUAL)
        pairs = rows.pairs_of(found.pairs)
        first = f"; the first is {pairs[0].row}, as {pairs[0].first}" if pairs else ""
        share = show_share(found.rows, facts.rows)
        by = f" of {', '.join(rule.by)}" if rule.by else ""
        yield check.Finding(
            "ok" if rule.action == "drop" or not found.rows else rule.action,
            f"{found.rows:,} of {facts.rows:,} rows ({share}) have the values{by} of an earlier row"
            f"{first}",
            _HINT,
            {
                "by": list(rule.by) or ROWS,
                "action": rule.action,
                "rows": facts.rows,
                "found": found.rows,
                "first": check.first_of(pairs),
            },
            check.listed_pairs(
                rows.source, pairs, (f"a duplicate of {pair.first}" for pair in pairs)
            ),
        )
