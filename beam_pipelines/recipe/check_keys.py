"""The keys of checks that other packages add to a recipe."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from importlib.metadata import EntryPoint

GROUP = "beam_pipelines.checks"


@functools.cache
def installed_checks() -> Mapping[str, EntryPoint]:
    """Returns key of a recipe -> entry point, which is not loaded."""
    return {found.name: found for found in importlib.metadata.entry_points(group=GROUP)}
