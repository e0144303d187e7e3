"""The findings of a check in a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def found_by(manifest: Mapping[str, Any], check: str) -> list[dict[str, Any]]:
    """Returns what a check that looked at the rows has found."""
    own = [entry for entry in manifest["findings"] if entry["check"] == check]
    assert own, f"no finding of {check}"
    return [entry for entry in own if entry["line"] != "nothing was found"]
