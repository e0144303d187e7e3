"""Findings: the results of checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from beam_pipelines.core.places import Pair

Severity = Literal["ok", "warn", "error"]


class Finding(NamedTuple):
    """One result of a check.

    Attributes:
      severity: ``error`` stops the run.
      line: what was found, and where the first row is; without a value of a private column.
      hint: what to do about it.
      data: more of its entry in the manifest.
      listed: the first rows, as ``rejected/`` lists them.
    """

    severity: Severity
    line: str
    hint: str = ""
    data: Mapping[str, Any] = {}
    listed: tuple[Mapping[str, Any], ...] = ()

    def to_json(self, check: str) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        return {"check": check, "severity": self.severity, "line": self.line, **self.data}


def listed_pairs(
    source: str, pairs: Iterable[Pair], reasons: Iterable[str], **more: str
) -> tuple[Mapping[str, Any], ...]:
    """Returns pairs of rows as ``rejected/`` lists them."""
    return tuple(
        {
            "source": source,
            **more,
            "file": pair.file,
            "position": pair.place,
            "reason": reason,
            "text": pair.text,
            "first_text": pair.first_text,
        }
        for pair, reason in zip(pairs, reasons, strict=True)
    )


def first_of(pairs: Iterable[Pair]) -> list[list[str]]:
    """Returns the places of pairs, the earlier row of each first."""
    return [[pair.first, pair.row] for pair in pairs]
