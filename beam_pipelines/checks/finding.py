"""What a check found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Severity = Literal["ok", "warn", "error"]


class Finding(NamedTuple):
    """One result of a check.

    Attributes:
      severity: ``error`` stops the run.
      lines: of the error.
      data: its entry in the manifest.
      listed: the first rows, as ``rejected/`` lists them.
    """

    severity: Severity
    lines: tuple[str, ...]
    data: Mapping[str, Any]
    listed: tuple[Mapping[str, Any], ...] = ()
