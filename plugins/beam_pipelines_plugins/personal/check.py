"""``pii``: columns that have personal data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from beam_pipelines.checks.check import Check, Facts, Rows, SelectedColumns
from beam_pipelines.checks.finding import Finding
from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.values import Reader, Value, read_choice, read_texts
from beam_pipelines.recipe.yaml import Scalar
from beam_pipelines_plugins.personal.findings import find_personal
from beam_pipelines_plugins.personal.scan import scan_batch

_read_action = read_choice(("warn", "error"))


@dataclasses.dataclass(frozen=True)
class Pii:
    """The action for columns with personal data."""

    action: Literal["warn", "error"] = recipe_key(
        _read_action, "warn", "`warn`", "Whether a column with personal data stops the run."
    )
    allow: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns that may have personal data."
    )


_read_mapping = section(Pii, "warn, error, or a mapping such as {action: error, allow: [email]}")


def _read(value: Value) -> Pii | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Pii(action)
    return _read_mapping(value)


read_pii: Reader[Pii] = Reader(_read, {"anyOf": [_read_action.schema, _read_mapping.schema]})


@dataclasses.dataclass(frozen=True)
class FindPersonal(Check):
    """Columns that have personal data: a sum of each chunk."""

    name, reader, help = "pii", read_pii, "Looks for columns with personal data."
    rule: Pii
    columns: tuple[str, ...]

    @classmethod
    def hides(cls, rule: Pii) -> tuple[str, ...]:
        return rule.allow

    @classmethod
    def plan(cls, rule: Pii, recipe: Recipe, known: SelectedColumns) -> FindPersonal:  # noqa: ARG003
        known.note_unknown(rule.allow, ("pii", "allow"))
        return cls(rule, tuple(name for name in known.written if name not in rule.allow))

    def piece(self, rows: pa.RecordBatch) -> Any:
        return scan_batch(rows.select(self.columns)) if self.columns else ()

    def judge(self, facts: Facts, rows: Rows) -> Iterator[Finding]:
        found = find_personal(facts.pieces, facts.rows)
        located = rows.rows_of([each.place for each in found], ())
        names = ", ".join(dict.fromkeys(each.column for each in found))
        hint = (
            f"Leave the columns out ('drop: [{names}]'), or allow them "
            f"('pii: {{action: error, allow: [{names}]}}'), or take 'pii: warn'."
        )
        for each, row in zip(found, located, strict=True):
            first = row.where + rows.joined_words(each.column)
            yield Finding(
                self.rule.action, each.line(first), hint, each.to_json() | {"first": first}
            )
