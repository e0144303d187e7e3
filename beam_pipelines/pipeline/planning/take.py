"""Plans a run on a part of the rows: ``--limit`` and ``--sample``."""

from __future__ import annotations

import dataclasses
import itertools

from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.sources import format_of
from beam_pipelines.transforms.read import read_leading_ranges
from beam_pipelines.transforms.take import Take


def plan_take(plan: Plan, limit: int | None, share: float | None) -> Plan:
    """Returns a plan that takes a part of the base source's rows.

    Reads the source up to the limit, to know the range of the last row.

    Args:
      plan: of all rows.
      limit: number of the first rows; ``None``: all.
      share: of these rows, by a hash of their places; ``None``: all.

    Raises:
      DataError: the source cannot be read.
    """
    if limit is None and share is None:
        return plan
    take = Take(limit, share)
    # A database gives its first rows only (prepared_sources.py).
    if limit is None or not format_of(plan.base).has_files:
        return dataclasses.replace(plan, run=plan.run._replace(take=take))
    number, rows = _last_range(plan, limit)
    ranges, files = plan.base.ranges[: number + 1], plan.base.files
    last = ranges[-1]
    end = last.members[1] or files.index(last.file) + 1
    base = dataclasses.replace(plan.base, ranges=ranges, files=files[:end])
    left = itertools.islice(plan.base.ranges, number + 1, None)
    unread = sum(byte_range.end - byte_range.start for byte_range in left)
    take = Take(limit, share, number, rows, unread)
    sources = {**plan.sources, plan.recipe.base: base}
    return dataclasses.replace(plan, run=plan.run._replace(take=take), sources=sources)


def _last_range(plan: Plan, limit: int) -> tuple[int, int]:
    """Returns the range of the last row, and its rows to take."""
    left = limit
    number = rows = 0
    for number, rows in read_leading_ranges(plan.base, plan.recipe.rejects, limit):
        if rows >= left:
            return number, left
        left -= rows
    return number, rows
