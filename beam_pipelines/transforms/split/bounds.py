"""Splits by time: plans their bounds, and assigns rows."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, Problem, missing_column
from beam_pipelines.recipe.splits import Split, TimeSplit, iso_moment
from beam_pipelines.sql.database import not_null_line

Bounds = tuple[pa.Scalar | None, pa.Scalar | None]

_EXAMPLE_FOR_KIND = {
    "date": "a date such as 2013-11-01",
    "timestamp": "a date or a time such as 2013-11-01T06:00:00",
    "timestamptz": "a date or a time such as 2013-11-01T06:00:00Z",
    "time": "a time such as 06:00:00",
    "int64": "an integer",
}


def plan_bounds(split: Split, schema: pa.Schema, problems: list[Problem]) -> tuple[Bounds, ...]:
    """Returns the bounds of splits, as values of their column; notes problems.

    Args:
      split: the recipe's, by time.
      schema: of the rows.
      problems: gets those of the column, and of bounds that are wrong or overlap.
    """
    column = split.time_column or ""
    if column not in schema.names:
        problems.append(Problem(("split", "column"), missing_column(column, schema.names)))
        return ()
    kind = schema.field(column).type
    parse = _parser_of_bounds(kind)
    if parse is None:
        message = (
            f"column '{column}' is {type_name(kind)}, expected a date, timestamp, time or number"
        )
        problems.append(Problem(("split", "column"), message))
        return ()
    bounds = tuple(_parse_interval(interval, kind, parse, problems) for interval in split.times)
    if not problems:
        problems.extend(_overlaps(split.times, bounds))
    return bounds


def _parser_of_bounds(kind: pa.DataType) -> Callable[[str], Any] | None:
    """Returns the parser of values; ``None`` if they have no order."""
    if pa.types.is_timestamp(kind):
        return iso_moment
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat
    if pa.types.is_time(kind):
        return datetime.time.fromisoformat
    if pa.types.is_integer(kind):
        return int
    return _finite if pa.types.is_floating(kind) else None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _parse_interval(
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


def _overlaps(times: Sequence[TimeSplit], bounds: Sequence[Bounds]) -> Iterator[Problem]:
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


def assign_times(chunk: Chunk, name: str, splits: Mapping[str, Bounds]) -> npt.NDArray[np.uint8]:
    """Returns uint8[rows]: the number of each row's split.

    Args:
      chunk: the rows.
      name: the column that is compared.
      splits: name -> its bounds.

    Raises:
      DataError: a row is in no split.
    """
    column = chunk.batch.column(name)
    assignment = np.full(len(column), len(splits), np.uint8)
    for index, bounds in enumerate(splits.values()):
        assignment[_is_between(column, *bounds)] = index
    outside = np.flatnonzero(assignment == len(splits))
    if len(outside):
        value = python_value(column, int(outside[0]))
        found = "null" if value is None else f"'{value}'"
        such = not_null_line(name) if value is None else "filter:"
        intervals = "; ".join(
            f"{split}:{'' if start is None else f' from {start}'}"
            f"{'' if end is None else f' until before {end}'}"
            for split, (start, end) in splits.items()
        )
        raise DataError(
            f"{chunk.path}, column '{name}': found {found} in {len(outside)} of "
            f"{len(column)} rows of a chunk, "
            f"expected a value in one of the splits ({intervals}). Widen a split, or leave such "
            f"rows out with '{such}'."
        )
    return assignment


def _is_between(
    column: pa.Array, start: pa.Scalar | None, end: pa.Scalar | None
) -> npt.NDArray[np.bool_]:
    """Returns bool[n]: start <= value < end; false for null and NaN."""
    inside = column.is_valid()
    if pa.types.is_floating(column.type):
        inside = pc.and_not(inside, pc.is_nan(column))
    if start is not None:
        inside = pc.and_(inside, pc.greater_equal(column, start))
    if end is not None:
        inside = pc.and_(inside, pc.less(column, end))
    result: npt.NDArray[np.bool_] = pc.fill_null(inside, False).to_numpy(zero_copy_only=False)
    return result
