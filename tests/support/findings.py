"""The findings of a check in a manifest."""

from __future__ import annotations

from typing import Any

from beam_pipelines.core.layout.manifest import Manifest


def found_by(manifest: Manifest, check: str) -> list[dict[str, Any]]:
    """Returns what a check that looked at the rows has found."""
    own = [entry for entry in manifest.findings if entry["check"] == check]
    assert own, f"no finding of {check}"
    return [entry for entry in own if entry["line"] != "nothing was found"]
