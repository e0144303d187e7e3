"""Finds the first and the last time of each split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.core.places import Place
from beam_pipelines.core.python_values import python_values

# The column of times that chunks carry.
TIME = "\0time"


class Moment(NamedTuple):
    """A date, timestamp, time or number, and its first row.

    Attributes:
      time: the value; the number of units since 1970, or since midnight.
      shown: the same for people.
      place: of the row.
    """

    time: float
    shown: str
    place: Place


class SplitTimes(NamedTuple):
    """The first and the last time of each split, by its number.

    A split without a time has none.
    """

    first: dict[int, Moment]
    last: dict[int, Moment]


def find_times(chunk: Chunk, assignment: npt.NDArray[np.uint8]) -> SplitTimes:
    """Returns the times of a chunk.

    Nulls and NaN are left out.

    Args:
      chunk: with the column ``TIME``, and maybe ``PLACE``; before it is split.
      assignment: the splits of its rows.
    """
    column, names = chunk.batch.column(TIME), chunk.batch.schema.names
    is_known = column.is_valid()
    if pa.types.is_floating(column.type):
        is_known = pc.and_(is_known, pc.invert(pc.fill_null(pc.is_nan(column), True)))
    known = is_known.to_numpy(zero_copy_only=False)
    found = SplitTimes({}, {})
    for number in np.unique(assignment).tolist():
        rows = np.flatnonzero(known & (assignment == number))
        if not len(rows):
            continue
        own = column.take(pa.array(rows))
        for moments, time in zip(found, pc.min_max(own).values(), strict=True):
            row = int(rows[pc.index(own, time).as_py()])
            if PLACE in names:
                row = chunk.batch.column(PLACE)[row].as_py()
            place = Place(chunk.range_number, chunk.part, row)
            (shown,) = python_values(pa.array([time]))
            moments[number] = Moment(_number(time), str(shown), place)
    return found


def _number(time: pa.Scalar) -> float:
    """Returns a time as a number of the same order."""
    if pa.types.is_temporal(time.type):
        time = time.cast(f"int{time.type.bit_width}")
    number: float = time.as_py()
    return number


def merge_times(found: Iterable[SplitTimes]) -> SplitTimes:
    """Returns the first and last times of all chunks."""
    first: dict[int, Moment] = {}
    last: dict[int, Moment] = {}
    # Of equal times the first row counts, whatever chunk comes first.
    for firsts, lasts in found:
        for number, moment in firsts.items():
            first[number] = min(first.get(number, moment), moment)
        for number, moment in lasts.items():
            own = last.setdefault(number, moment)
            if moment.time > own.time or (moment.time == own.time and moment.place < own.place):
                last[number] = moment
    return SplitTimes(first, last)
