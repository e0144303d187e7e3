"""Statistics of numbers: moments, extremes, zeros, and the distribution that medians and histograms are read from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.statistics.moments import Moments
from beam_pipelines.statistics.packing import pack, unpack

# Distinct values are exact up to here: 256 KiB a column.
MAX_DISTINCT = 1 << 14
# Beyond it the distribution is kept as this many weighted points: a rank is then off by at most 1/POINTS per compression.
POINTS = 1 << 11

# Values that tell whether a column is one of many distinct numbers.
_LOOK_AHEAD = 1 << 12

_Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]


class Bucket(NamedTuple):
    """One bar of a histogram: ``weight`` values in [low, high); the last bucket includes ``high``."""

    low: float
    high: float
    weight: float


@dataclasses.dataclass(frozen=True)
class NumberStatistics:
    """Statistics of the numbers of a column. NaN counts as a value and is left out of everything but ``nans``.

    Attributes:
      moments: of the finite values.
      values: finite values, ascending, int64 or float64: all distinct ones while ``exact``, else points of the
        distribution, the smallest and the largest value among them.
      counts: number of values that each stands for.
      exact: whether ``values`` are all there are.
      zeros: number of values equal to zero.
      nans, minus_infinities, plus_infinities: numbers of those.
    """

    moments: Moments
    values: _Values
    counts: npt.NDArray[np.int64]
    exact: bool = True
    zeros: int = 0
    nans: int = 0
    minus_infinities: int = 0
    plus_infinities: int = 0

    @classmethod
    def of(cls, array: pa.Array) -> NumberStatistics:
        """Returns the statistics of an int64, float or double array; nulls are left out."""
        values, counts = _distinct(array)
        nans, minus, plus = 0, 0, 0
        if values.dtype == np.float64 and not np.isfinite(values).all():
            nans, minus, plus = (
                int(counts[chosen].sum()) for chosen in (np.isnan(values), values == -np.inf, values == np.inf)
            )
            finite = np.isfinite(values)
            values, counts = values[finite], counts[finite]
        zeros = int(counts[values == 0].sum())
        moments = Moments.of(values, counts)
        return cls(moments, *_bounded(values, counts, exact=True), zeros, nans, minus, plus)

    @classmethod
    def merged(cls, parts: Sequence[NumberStatistics]) -> NumberStatistics:
        """Returns the statistics of all parts' values together.

        All but the distribution are the same whatever the order of the parts, and the distribution is while it is exact.
        """
        values = np.concatenate([part.values for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        return cls(
            Moments.merged(part.moments for part in parts),
            *_bounded(*_added(values, counts), exact=all(part.exact for part in parts)),
            *(
                sum(getattr(part, name) for part in parts)
                for name in ("zeros", "nans", "minus_infinities", "plus_infinities")
            ),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rest = tuple(getattr(self, field.name) for field in dataclasses.fields(self)[3:])
        return _unpickle, (self.moments, pack(pa.array(self.values), self.counts), rest)

    @property
    def count(self) -> int:
        """Number of values that are not NaN."""
        return self.moments.count + self.minus_infinities + self.plus_infinities

    @property
    def mean(self) -> float:
        """Mean of the values that are not NaN, as in TFDV: infinite or NaN where infinities are among them."""
        infinite = (math.inf if self.plus_infinities else 0.0) - (math.inf if self.minus_infinities else 0.0)
        return self.moments.mean + infinite

    @property
    def standard_deviation(self) -> float:
        """Population standard deviation of the values that are not NaN; NaN where infinities are among them."""
        if self.plus_infinities or self.minus_infinities:
            return math.nan
        return self.moments.standard_deviation

    @property
    def minimum(self) -> int | float | None:
        """Smallest value, infinities included; ``None`` of no values."""
        return -math.inf if self.minus_infinities else self._at(0)

    @property
    def maximum(self) -> int | float | None:
        """Largest value, infinities included; ``None`` of no values."""
        return math.inf if self.plus_infinities else self._at(-1)

    def _at(self, index: int) -> int | float | None:
        if len(self.values):
            value: int | float = self.values[index].item()
            return value
        return -math.inf if self.minus_infinities else math.inf if self.plus_infinities else None

    @property
    def distinct(self) -> int | None:
        """Number of distinct values (each infinity is one, NaN none); ``None`` when there were too many to count."""
        if not self.exact:
            return None
        return len(self.values) + bool(self.minus_infinities) + bool(self.plus_infinities)

    def quantiles(self, number: int) -> list[float]:
        """Returns ``number`` + 1 values that cut the distribution into equal parts, from the minimum to the maximum.

        Each is a value of the column (the one of rank ``ceil(k * count / number)``); an empty list of no values.
        """
        if not self.count:
            return []
        values = np.concatenate([[-np.inf], self.values.astype(np.float64), [np.inf]])
        counts = np.concatenate([[self.minus_infinities], self.counts, [self.plus_infinities]])
        present = counts > 0
        ranks = np.ceil(np.arange(number + 1) * self.count / number).clip(1)
        places = np.searchsorted(np.cumsum(counts[present]), ranks)
        return [float(value) for value in values[present][places]]

    def histogram(self, number: int) -> list[Bucket]:
        """Returns ``number`` buckets of equal width over the finite values; one if they are all equal, none of none."""
        if not len(self.values):
            return []
        low, high = float(self.values[0]), float(self.values[-1])
        edges = np.linspace(low, high, number + 1) if math.isfinite(high - low) else _wide_edges(low, high, number)
        if not (np.diff(edges) > 0).all():
            return [Bucket(low, high, float(self.counts.sum()))]
        places = np.searchsorted(edges, self.values.astype(np.float64), side="right").clip(1, number) - 1
        counts = np.bincount(places, weights=self.counts, minlength=number)
        return [Bucket(float(edges[i]), float(edges[i + 1]), float(counts[i])) for i in range(number)]


def _unpickle(moments: Moments, packed: bytes, rest: tuple[Any, ...]) -> NumberStatistics:
    values, counts = unpack(packed)
    return NumberStatistics(moments, values.to_numpy(), counts, *rest)


def _distinct(array: pa.Array) -> tuple[_Values, npt.NDArray[np.int64]]:
    """Returns the distinct values, ascending, and how often each occurs."""
    if _is_varied(array):
        dtype = np.float64 if pa.types.is_floating(array.type) else np.int64
        numbers = array.drop_null().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
        values, counts = np.unique(numbers, return_counts=True)
        return values, counts.astype(np.int64, copy=False)
    tally = array.value_counts()
    hashed, counts = tally.field(0), tally.field(1)
    if hashed.null_count:
        valid = hashed.is_valid()
        hashed, counts = hashed.filter(valid), counts.filter(valid)
    values = hashed.to_numpy()
    order = np.argsort(values)
    return values[order], counts.to_numpy()[order]


def _is_varied(array: pa.Array) -> bool:
    """Whether most values differ, so that sorting (40 ns a value) beats hashing (8 ns for few distinct values, else 150)."""
    if pa.types.is_floating(array.type):  # and hashing tells 0.0 and -0.0 apart
        return True
    beginning = array.slice(0, _LOOK_AHEAD)
    return len(beginning.unique()) > len(beginning) // 2


def _added(values: _Values, counts: npt.NDArray[np.int64]) -> tuple[_Values, npt.NDArray[np.int64]]:
    """Sorts values and adds the counts of equal ones."""
    if not len(values):
        return values, counts
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[starts], np.add.reduceat(counts, starts)


def _bounded(
    values: _Values, counts: npt.NDArray[np.int64], exact: bool
) -> tuple[_Values, npt.NDArray[np.int64], bool]:
    """Replaces more than ``MAX_DISTINCT`` values by ``POINTS`` of them that stand for about as many values each.

    The first and the last value stay. Each other point is the middle value of a group, by weight.
    """
    if len(values) <= MAX_DISTINCT:
        return values, counts, exact
    ends = np.cumsum(counts[1:-1])
    groups = (ends - 1) * (POINTS - 2) // ends[-1]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    weights = np.add.reduceat(counts[1:-1], starts)
    middles = np.searchsorted(ends, np.cumsum(weights) - weights // 2)
    points = np.concatenate([values[:1], values[1:-1][middles], values[-1:]])
    return points, np.concatenate([counts[:1], weights, counts[-1:]]), False


def _wide_edges(low: float, high: float, number: int) -> npt.NDArray[np.float64]:
    return np.linspace(low / 2, high / 2, number + 1) * 2  # high - low is beyond float64
