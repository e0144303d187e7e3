"""Splits by a column: plans their bounds or values, and assigns rows."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

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

# The first value and the first value after it; or all values.
Interval = tuple[pa.Scalar | None, pa.Scalar | None]
Bounds: TypeAlias = Interval | pa.Array

_EXAMPLE_FOR_KIND = {
    "date": "a date such as 2013-11-01",
    "timestamp": "a date or a time such as 2013-11-01T06:00:00",
    "timestamptz": "a date or a time such as 2013-11-01T06:00:00Z",
    "time": "a time such as 06:00:00",
    "int64": "an integer",
    "bool": "true or false",
}


def plan_bounds(split: Split, schema: pa.Schema, problems: list[Problem]) -> tuple[Bounds, ...]:
    """Returns bounds or values of splits, of their column's type; notes problems.

    Args:
      split: the recipe's, by a column.
      schema: of the rows.
      problems: gets those of the column, and of bounds that are wrong or overlap.
    """
    column = split.time_column or ""
    if column not in schema.names:
        problems.append(Problem(("split", "column"), missing_column(column, schema.names)))
        return ()
    kind = schema.field(column).type
    has_values = any(part.values for part in split.times)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    if pa.types.is_nested(kind) or not (has_values or is_number or is_time):
        expected = "one value in a row" if has_values else "a date, timestamp, time or number"
        message = f"column '{column}' is {type_name(kind)}, expected {expected}"
        problems.append(Problem(("split", "column"), message))
        return ()
    parse = _parse_values if has_values else _parse_interval
    bounds = tuple(parse(part, kind, problems) for part in split.times)
    if not problems:
        problems.extend(_overlaps(split.times, bounds))
    return bounds


def _value_of(text: str, kind: pa.DataType) -> pa.Scalar:
    """Parses a value of a column.

    Raises:
      ValueError: it is of another type.
    """
    if pa.types.is_timestamp(kind):
        return pa.scalar(iso_moment(text), kind)
    if pa.types.is_time(kind):
        return pa.scalar(datetime.time.fromisoformat(text), kind)
    found = pa.scalar(text).cast(kind)
    if pa.types.is_floating(kind) and not math.isfinite(found.as_py()):
        raise ValueError(text)
    return found


def _parsed(
    part: TimeSplit, key: str, text: str, kind: pa.DataType, problems: list[Problem]
) -> pa.Scalar | None:
    """Parses a value of a column, or notes a problem."""
    try:
        return _value_of(text, kind)
    except ValueError:
        example = _EXAMPLE_FOR_KIND.get(type_name(kind), "a number")
        message = f"found '{text}', expected {example}, because the column is {kind}"
        problems.append(Problem(("split", part.name, key), message))
        return None


def _parse_values(part: TimeSplit, kind: pa.DataType, problems: list[Problem]) -> pa.Array:
    """Parses the values and notes their problems."""
    return pa.array([_parsed(part, "values", text, kind, problems) for text in part.values], kind)


def _parse_interval(interval: TimeSplit, kind: pa.DataType, problems: list[Problem]) -> Interval:
    """Parses both bounds and notes their problems."""
    start, end = (
        None if text is None else _parsed(interval, key, text, kind, problems)
        for key, text in (("after", interval.after), ("before", interval.before))
    )
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
        if isinstance(left_bounds, pa.Array):
            is_apart = not pc.any(pc.is_in(left_bounds, value_set=right_bounds)).as_py()
        else:
            is_apart = _ends_before(left_bounds, right_bounds) or _ends_before(
                right_bounds, left_bounds
            )
        if not is_apart:
            message = (
                f"splits '{left.name}' and '{right.name}' overlap, expected every value in "
                "one split at most"
            )
            yield Problem(("split", right.name), message)


def _ends_before(left: Interval, right: Interval) -> bool:
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
        assignment[_is_within(column, bounds)] = index
    outside = np.flatnonzero(assignment == len(splits))
    if len(outside):
        value = python_value(column, int(outside[0]))
        found = "null" if value is None else f"'{value}'"
        such = not_null_line(name) if value is None else "filter:"
        intervals = "; ".join(f"{split}:{_shown(bounds)}" for split, bounds in splits.items())
        raise DataError(
            f"{chunk.path}, column '{name}': found {found} in {len(outside)} of "
            f"{len(column)} rows of a chunk, "
            f"expected a value in one of the splits ({intervals}). Widen a split, or leave such "
            f"rows out with '{such}'."
        )
    return assignment


def _shown(bounds: Bounds) -> str:
    if isinstance(bounds, pa.Array):
        return f" {', '.join(map(str, bounds))}"
    start, end = bounds
    since = "" if start is None else f" from {start}"
    return since if end is None else f"{since} until before {end}"


def _is_within(column: pa.Array, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Returns bool[n]: start <= value < end, or one of the values.

    It is false for null and NaN.
    """
    if isinstance(bounds, pa.Array):
        found: npt.NDArray[np.bool_] = pc.is_in(column, value_set=bounds).to_numpy(False)
        return found
    start, end = bounds
    inside = column.is_valid()
    if pa.types.is_floating(column.type):
        inside = pc.and_not(inside, pc.is_nan(column))
    if start is not None:
        inside = pc.and_(inside, pc.greater_equal(column, start))
    if end is not None:
        inside = pc.and_(inside, pc.less(column, end))
    result: npt.NDArray[np.bool_] = pc.fill_null(inside, False).to_numpy(zero_copy_only=False)
    return result
