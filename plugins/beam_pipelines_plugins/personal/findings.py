"""Findings about columns that have personal data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.places import Place
from beam_pipelines_plugins.personal.scan import Seen, kind_of, least_of

_SHOWN_KIND = {
    "email": "e-mail addresses",
    "phone": "phone numbers",
    "iban": "IBANs",
    "card": "card numbers",
    "ip_address": "IP addresses",
    "mac_address": "MAC addresses",
    "us_ssn": "US social security numbers",
    "german_tax_id": "German tax numbers",
    "uk_nino": "UK national insurance numbers",
    "passport": "passport numbers",
    "coordinates": "coordinates",
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
