"""Reads a file whole and in ranges, for targets of fuzzing."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import plan, planner
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms import read
from tests.fuzz.finding import explained


class Tables(NamedTuple):
    """The rows of a file.

    Attributes:
      whole: read as planned.
      in_ranges: read in small ranges; ``None``: they are refused.
      why: the error that refuses them.
    """

    whole: pa.Table
    in_ranges: pa.Table | None
    why: Any


def read_both(path: str, range_bytes: int) -> Tables | None:
    """Returns the rows of a file, or ``None`` if it is refused."""

    def read_table(planned: SourcePlan) -> pa.Table:
        return read.read_table(planned, reject=False)[0]

    def read_whole() -> tuple[SourcePlan, pa.Table]:
        planned = planner.plan_source(Source("s", (path,)), "")
        return planned, read_table(planned)

    found, _ = explained(read_whole)
    if found is None:
        return None
    planned, table = found
    ranges = plan.cut_ranges(planned.files, lambda _: True, range_bytes)
    again, why = explained(lambda: read_table(dataclasses.replace(planned, ranges=ranges)))
    return Tables(table, again, why)
