"""``pii``: columns that have personal data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines.checks.check import Check, Facts, Known, Rows
from beam_pipelines.checks.finding import Finding
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.pii import Pii
from beam_pipelines_plugins.personal.findings import find_personal
from beam_pipelines_plugins.personal.scan import scan_batch


@dataclasses.dataclass(frozen=True)
class FindPersonal(Check):
    """Columns that have personal data: a sum of each chunk."""

    name = "pii"
    rule: Pii
    columns: tuple[str, ...]

    @classmethod
    def plan(cls, recipe: Recipe, known: Known) -> FindPersonal | None:
        rule = recipe.pii
        if rule is None:
            return None
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
            yield Finding(
                self.rule.action, each.line(row.where), hint, each.to_json() | {"first": row.where}
            )
