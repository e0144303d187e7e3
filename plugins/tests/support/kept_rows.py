"""Keeps the rows of tables in files, as a run does."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan


def kept(
    plans: Mapping[str, SourcePlan],
    folder: pathlib.Path,
    note_rows: Callable[[int], None] = lambda _: None,
) -> dict[str, SourcePlan]:
    """The plans of the same rows in files."""
    format_ = format_of(next(iter(plans.values())))
    return format_.keep(plans, {}, str(folder), note_rows)
