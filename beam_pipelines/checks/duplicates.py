"""``duplicates``: rows with the values of an earlier row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from beam_pipelines.checks.check import (
    Check,
    Facts,
    Finding,
    NearColumn,
    RowReader,
    SelectedColumns,
    first_of,
    listed_pairs,
    plan_near,
    read_near,
)
from beam_pipelines.checks.meet import Meet, RowDrop, Way, repeats
from beam_pipelines.core.formatting import show_share
from beam_pipelines.recipe.keys import recipe_key, section
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
      near: the column whose similar values are duplicates, in place of equal ones, or ``None``.
    """

    by: tuple[str, ...] = recipe_key(
        _read_by, (), "`rows`", "Whole rows, or the columns whose values are compared."
    )
    near: NearColumn | None = recipe_key(
        read_near, None, "none", "A column whose similar values are duplicates, not equal rows."
    )
    action: Literal["warn", "drop", "error"] = recipe_key(
        read_choice(("warn", "drop", "error")),
        "warn",
        "`warn`",
        "Whether later ones are a warning, are left out, or stop the run.",
    )

    @property
    def drops(self) -> bool:
        """Whether later rows are left out."""
        return self.action == "drop"


def _check(value: Value, _: Duplicates) -> None:
    """Notes ``by`` with ``near``."""
    if {"by", "near"} <= value.keys:
        value.wrong("found both 'by' and 'near', expected one of them.", "near")


read_duplicates = section(Duplicates, "a mapping such as {by: rows, action: drop}", _check)


@dataclasses.dataclass(frozen=True)
class FindDuplicates(Check):
    """Rows with the values of an earlier row.

    Attributes:
      rule: of the recipe.
      columns: that are compared.
      way: in which similar values meet; ``None``: equal ones do.
    """

    name, reader, help = "duplicates", read_duplicates, "Looks for rows that recur."
    changes_rows, finds_equal_rows = True, True
    rule: Duplicates
    columns: tuple[str, ...]
    way: Way | None = None

    @classmethod
    def plan(cls, rule: Duplicates, recipe: Recipe, known: SelectedColumns) -> FindDuplicates:  # noqa: ARG003
        if rule.near is not None:
            return cls(rule, (rule.near.column,), plan_near(rule.near, known, cls.name))
        known.note_unknown(rule.by, ("duplicates", "by"))
        return cls(rule, rule.by or known.written)

    @property
    def meets(self) -> tuple[Meet, ...]:
        near = self.rule.near
        if near is not None:
            drop = RowDrop(self.name, "a near duplicate", near.column) if self.rule.drops else None
            return (Meet(EQUAL, self.columns, repeats, drop=drop, way=self.way),)
        by = self.rule.by
        has = f"the same {', '.join(by)}" if by else "the same values"
        reason = f"a duplicate: an earlier row has {has}"
        drop = (
            RowDrop(self.name, reason, by[0] if len(by) == 1 else "") if self.rule.drops else None
        )
        return (Meet(EQUAL, self.columns, repeats, drop=drop),)

    @property
    def sees(self) -> tuple[str, ...]:
        return self.columns

    def judge(self, facts: Facts, rows: RowReader) -> Iterator[Finding]:
        rule, near, found = self.rule, self.rule.near, facts.repeats(EQUAL)
        pairs = rows.pairs_of(found.pairs)
        compared: dict[str, Any] = {"by": list(rule.by) or ROWS}
        if near is not None:
            compared = {"near": dataclasses.asdict(near)}
        first = f"; the first is {pairs[0].row}, as {pairs[0].first}" if pairs else ""
        share = show_share(found.rows, facts.rows)
        kind = "" if near is None else "near "
        reasons = (f"a {kind}duplicate of {pair.first}" for pair in pairs)
        yield Finding(
            "ok" if rule.action == "drop" or not found.rows else rule.action,
            f"{found.rows:,} of {facts.rows:,} rows ({share}) have {self._like()}{first}",
            _HINT,
            compared
            | {
                "action": rule.action,
                "rows": facts.rows,
                "found": found.rows,
                "first": first_of(pairs),
            },
            listed_pairs(rows.source, pairs, reasons),
        )

    def _like(self) -> str:
        """Returns what a row has of an earlier one, in words."""
        if near := self.rule.near:
            similar = f"{near.similarity:g} similar or more"
            return f"a {near.column} that is {similar} to that of an earlier row"
        by = f" of {', '.join(self.rule.by)}" if self.rule.by else ""
        return f"the values{by} of an earlier row"
