"""Parses the bounds of splits by time, and finds those that overlap."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.splits import TimeSplit, iso_moment

Bounds = tuple[pa.Scalar | None, pa.Scalar | None]

_EXAMPLE_FOR_KIND = {
    "date": "a date such as 2013-11-01",
    "timestamp": "a date or a time such as 2013-11-01T06:00:00",
    "timestamptz": "a date or a time such as 2013-11-01T06:00:00Z",
    "time": "a time such as 06:00:00",
    "int64": "an integer",
}


def parser_of_bounds(kind: pa.DataType) -> Callable[[str], Any] | None:
    """Returns the parser of values; ``None`` if they have no order."""
    if pa.types.is_timestamp(kind):
        return iso_moment
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat
    if pa.types.is_time(kind):
        return datetime.time.fromisoformat
    if pa.types.is_integer(kind):
        return int
    return float if pa.types.is_floating(kind) else None


def parse_interval(
    interval: TimeSplit, kind: pa.DataType, parse: Callable[[str], Any], problems: list[Problem]
) -> Bounds:
    """Parses both bounds and notes their problems."""
    found: list[pa.Scalar | None] = []
    for key, text in (("after", interval.after), ("before", interval.before)):
        try:
            found.append(None if text is None else pa.scalar(parse(text), kind))
        except (ValueError, OverflowError, pa.ArrowInvalid):
            found.append(None)
            expected = (
                f"expected {_EXAMPLE_FOR_KIND.get(type_name(kind), 'a number')}, because the "
                f"column is {kind}"
            )
            problems.append(Problem(("split", interval.name, key), f"found '{text}', {expected}"))
    start, end = found
    if start is not None and end is not None and not pc.less(start, end).as_py():
        message = (
            f"found after {interval.after} and before {interval.before}, which holds "
            "nothing: 'after' is the earlier"
        )
        problems.append(Problem(("split", interval.name), message))
    return start, end


def overlaps(times: Sequence[TimeSplit], bounds: Sequence[Bounds]) -> Iterator[Problem]:
    """Yields a problem for each two splits that overlap."""
    for (left, left_bounds), (right, right_bounds) in itertools.combinations(
        zip(times, bounds, strict=True), 2
    ):
        if not _ends_before(left_bounds, right_bounds) and not _ends_before(
            right_bounds, left_bounds
        ):
            message = (
                f"splits '{left.name}' and '{right.name}' overlap, expected every value in "
                "one split at most"
            )
            yield Problem(("split", right.name), message)


def _ends_before(left: Bounds, right: Bounds) -> bool:
    return (
        left[1] is not None
        and right[0] is not None
        and bool(pc.less_equal(left[1], right[0]).as_py())
    )
