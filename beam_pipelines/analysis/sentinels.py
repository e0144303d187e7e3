"""Numbers and dates that stand for nothing, such as -999 or 1900-01-01."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.columns import is_date

# The least share of the values.
_LEAST = 0.001
_NUMBERS = (-1, -9, -99, -999, -9999, -99999, -999999, 999, 9999, 99999, 999999)
# -1 may be a number like others, if these are small.
_FAR = 20
_DATES = ("0001-01-01", "1899-12-30", "1900-01-01", "1970-01-01", "2099-12-31", "9999-12-31")
_DAYS = frozenset(np.array(_DATES, "datetime64[D]").astype(np.int64).tolist())
_MICROSECONDS_PER_DAY = 86_400_000_000


class Sentinel(NamedTuple):
    """A value that may mean null.

    Attributes:
      value: as a number; of dates and timestamps, as they are stored.
      times: how often it occurs.
      low, high: the least and the greatest other value.
    """

    value: float
    times: int
    low: float
    high: float


def find_sentinel(
    numbers: npt.NDArray[Any], counts: npt.NDArray[Any], total: int, kind: pa.DataType
) -> Sentinel | None:
    """Returns the value far from all others that stands for nothing.

    It is the least or the greatest one. It is further from the others than these are from each
    other, or it is negative, and no other is.

    Args:
      numbers: the distinct values, ascending.
      counts: how often each occurs.
      total: of all values.
      kind: type of the column.
    """
    if len(numbers) < 3:
        return None
    for place, rest in ((0, numbers[1:]), (len(numbers) - 1, numbers[:-1])):
        value, count = numbers[place].item(), int(counts[place])
        is_rare = count < _LEAST * total or count < 2
        if is_rare or not _is_sentinel(value, kind):
            continue
        low, high = rest[0].item(), rest[-1].item()
        gap = low - value if place == 0 else value - high
        is_below = value < 0 <= low and not is_date(kind) and (value != -1 or high >= _FAR)
        if value == -1 and not is_below:
            continue
        if gap > high - low or is_below:
            return Sentinel(value, count, low, high)
    return None


def _is_sentinel(value: float, kind: pa.DataType) -> bool:
    """Whether a number or date stands for nothing in many files."""
    if pa.types.is_date(kind):
        return value in _DAYS
    if pa.types.is_timestamp(kind):
        return not value % _MICROSECONDS_PER_DAY and value // _MICROSECONDS_PER_DAY in _DAYS
    return value in _NUMBERS
