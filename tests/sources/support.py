"""Helpers shared by the tests of sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import plan, planner
from beam_pipelines.transforms import read
from tests.support.made_source import made_source


def write(path: Path, content: bytes | str) -> str:
    """Writes a file and returns its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def source(*paths: str | Path, **options: Any) -> Source:
    """Returns a source named ``s``."""
    return made_source("s", tuple(map(str, paths)), **options)


def plan_of(*paths: str | Path, range_bytes: int | None = None, **options: Any) -> plan.SourcePlan:
    """Plans a source; with small ranges if asked to."""
    if range_bytes is None:
        return planner.plan_source(source(*paths, **options), "")
    with pytest.MonkeyPatch.context() as patch:
        cut = functools.partial(plan.cut_ranges, range_bytes=range_bytes)
        patch.setattr(plan, "cut_ranges", cut)
        return planner.plan_source(source(*paths, **options), "")


def read_rows(
    *paths: str | Path, range_bytes: int | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Plans and reads a source."""
    table, counts, rejected = read.read_table(
        plan_of(*paths, range_bytes=range_bytes, **options), reject=False
    )
    assert counts == {"read": table.num_rows, "rejected": 0}
    assert rejected == ()
    return table.to_pylist()


def types_of(*paths: str | Path, **options: Any) -> Mapping[str, str]:
    """Plans a source and returns its column types."""
    return {field.name: str(field.type) for field in plan_of(*paths, **options).schema}


def problems_of(*paths: str | Path, **options: Any) -> dict[tuple[str | int, ...], str]:
    """Plans a source that has problems and returns them, path -> message."""
    with pytest.raises(RecipeProblems) as caught:
        plan_of(*paths, **options)
    return {problem.path: problem.message for problem in caught.value.problems}
