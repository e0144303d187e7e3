"""The keys of checks that other packages add to a recipe."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

GROUP = "beam_pipelines.checks"


@functools.cache
def installed_checks() -> Mapping[str, EntryPoint]:
    """Returns key of a recipe -> entry point, which is not loaded."""
    return {found.name: found for found in importlib.metadata.entry_points(group=GROUP)}


def changing_rows(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a recipe whose checks leave rows out."""
    return {
        name: value
        for name, value in sorted(given.items())
        if installed_checks()[name].load().changes_rows
    }
