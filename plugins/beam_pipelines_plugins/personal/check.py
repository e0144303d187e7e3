"""``pii``: columns that have personal data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from beam_pipelines.checks import check
from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.places import Place
from beam_pipelines.recipe.keys import plain_key, section
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import Value, ValueReader, read_choice, read_texts
from beam_pipelines_plugins.personal.scan import Seen, kind_of, least_of, scan_batch

_SHOWN_KIND = {
    "email": "e-mail addresses",
    "phone": "phone numbers",
    "iban": "IBANs",
    "card": "card numbers",
    "ip_address": "IP addresses",
    "us_ssn": "US social security numbers",
    "person_name": "names of persons",
}


class Personal(NamedTuple):
    """Personal data of one kind in one column.

    Attributes:
      column, kind: what was found.
      rows: rows that were looked at.
      found: rows that have such a value.
      place: of the first of them.
    """

    column: str
    kind: str
    rows: int
    found: int
    place: Place

    def to_json(self) -> dict[str, Any]:
        """Returns its entry of the manifest, which has no value."""
        return {
            "column": self.column,
            "kind": self.kind,
            "rows": self.rows,
            "found": self.found,
        }

    def line(self, first: str) -> str:
        """Returns what was found, and where the first row is."""
        return (
            f"column '{self.column}' has {_SHOWN_KIND[self.kind]} in {self.found:,} of "
            f"{self.rows:,} rows ({show_share(self.found, self.rows)}); the first is in {first}"
        )


def find_personal(
    chunks: Iterable[tuple[tuple[int, int], Sequence[Sequence[Any]]]], rows: int
) -> tuple[Personal, ...]:
    """Decides which columns have personal data.

    A test finds them if enough of the values with its shape are right: of random numbers of 16
    digits every tenth has the check digit of a card number, and of card numbers all have it.

    Args:
      chunks: address and ``Seen`` of each chunk, in any order.
      rows: rows that were looked at.

    Returns:
      The findings, ordered by column and kind.
    """
    shaped: dict[tuple[str, int], int] = {}
    right: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], Place] = {}
    for address, pieces in chunks:
        for seen in (Seen(*piece) for piece in pieces):
            key, place = (seen.column, seen.test), Place(*address, seen.first)
            shaped[key] = shaped.get(key, 0) + seen.shaped
            right[key] = right.get(key, 0) + seen.right
            if seen.right:
                first[key] = min(first.get(key, place), place)
    found: dict[tuple[str, str], Personal] = {}
    for (column, test), count in right.items():
        if not count or count < least_of(test) * shaped[column, test]:
            continue
        kind = kind_of(test)
        new = Personal(column, kind, rows, count, first[column, test])
        before = found.get((column, kind), new._replace(found=0))
        found[column, kind] = new._replace(
            found=count + before.found, place=min(new.place, before.place)
        )
    return tuple(found[key] for key in sorted(found))


_read_action = read_choice(("warn", "error"))


@dataclasses.dataclass(frozen=True)
class Pii:
    """The action for columns with personal data."""

    action: Literal["warn", "error"] = plain_key(
        _read_action, "warn", "Whether a column with personal data stops the run."
    )
    allow: tuple[str, ...] = plain_key(read_texts, (), "Columns that may have personal data.")


_read_mapping = section(Pii, "warn, error, or a mapping such as {action: error, allow: [email]}")


def _read(value: Value) -> Pii | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Pii(action)
    return _read_mapping(value)


read_pii: ValueReader[Pii] = ValueReader(
    _read, {"anyOf": [_read_action.schema, _read_mapping.schema]}
)


@dataclasses.dataclass(frozen=True)
class FindPersonal(check.Check):
    """Columns that have personal data: a sum of each chunk."""

    name, reader, help = "pii", read_pii, "Looks for columns with personal data."
    rule: Pii
    columns: tuple[str, ...]

    @classmethod
    def hides(cls, rule: Pii) -> tuple[str, ...]:
        return rule.allow

    @classmethod
    def plan(cls, rule: Pii, recipe: Recipe, known: check.SelectedColumns) -> FindPersonal:  # noqa: ARG003
        known.note_unknown(rule.allow, ("pii", "allow"))
        return cls(rule, tuple(name for name in known.written if name not in rule.allow))

    def piece(self, rows: pa.RecordBatch) -> Any:
        return scan_batch(rows.select(self.columns)) if self.columns else ()

    def judge(self, facts: check.Facts, rows: check.RowReader) -> Iterator[check.Finding]:
        found = find_personal(facts.pieces, facts.rows)
        located = rows.rows_of([each.place for each in found], ())
        names = ", ".join(dict.fromkeys(each.column for each in found))
        hint = (
            f"Leave the columns out ('drop: [{names}]'), or allow them "
            f"('pii: {{action: error, allow: [{names}]}}'), or take 'pii: warn'."
        )
        for each, row in zip(found, located, strict=True):
            first = row.where + rows.joined_words(each.column)
            yield check.Finding(
                self.rule.action, each.line(first), hint, each.to_json() | {"first": first}
            )
