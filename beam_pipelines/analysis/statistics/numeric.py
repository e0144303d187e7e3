"""Statistics of numbers: moments, extremes, zeros, and the distribution.

Medians, quantiles and histograms are computed from the distribution.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.distribution import (
    Distribution,
    ExactMoments,
    WeightedMoments,
    quantiles,
)
from beam_pipelines.analysis.statistics.limits import MAX_NUMBERS, ColumnLimits
from beam_pipelines.core.arrow.weighted_values import Numbers, count_sorted

# Up to here all distinct values are counted.
MAX_DISTINCT = MAX_NUMBERS


class FiniteNumbers:
    """Finite numbers and infinities, by count or by weight."""

    moments: ExactMoments | WeightedMoments
    distribution: Distribution
    minus_infinities: float
    plus_infinities: float

    @property
    def mean(self) -> float:
        """Mean without NaN; NaN where there are infinities, as in TFDV."""
        return math.nan if self.minus_infinities or self.plus_infinities else self.moments.mean

    @property
    def standard_deviation(self) -> float:
        """Population standard deviation without NaN; NaN where there are infinities."""
        has_infinities = self.minus_infinities or self.plus_infinities
        return math.nan if has_infinities else self.moments.standard_deviation

    def cumulated(self, number: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Returns ``number`` + 1 quantiles and the weight up to each.

        Infinities are included. The sum of the weights must be positive.
        """
        values, weights = self.distribution.values, self.distribution.weights
        if self.minus_infinities or self.plus_infinities:
            values = np.concatenate([[-np.inf], values.astype(np.float64), [np.inf]])
            weights = np.concatenate([[self.minus_infinities], weights, [self.plus_infinities]])
            values, weights = values[weights > 0], weights[weights > 0]
        return quantiles(values, weights, number)


@dataclasses.dataclass(frozen=True)
class WeightedNumbers(FiniteNumbers):
    """Statistics of numbers by their rows' weights; NaN is left out.

    Attributes:
      moments, distribution: of the finite values.
      minus_infinities, plus_infinities: weights of those.
    """

    moments: WeightedMoments
    distribution: Distribution
    minus_infinities: float = 0.0
    plus_infinities: float = 0.0

    @classmethod
    def of(
        cls, values: Numbers, weights: npt.NDArray[np.float64], limits: ColumnLimits
    ) -> WeightedNumbers:
        """Returns the statistics of distinct ascending values, with NaN and infinities."""
        minus, plus = (float(weights[values == infinity].sum()) for infinity in (-np.inf, np.inf))
        finite = np.isfinite(values)
        values, weights = values[finite], weights[finite]
        return cls(
            WeightedMoments.of(values, weights),
            Distribution.of(values, weights, limits),
            minus,
            plus,
        )

    @classmethod
    def merged(cls, parts: Sequence[WeightedNumbers], limits: ColumnLimits) -> WeightedNumbers:
        """Returns the statistics of all parts' values together."""
        return cls(
            WeightedMoments.merged(part.moments for part in parts),
            Distribution.merged([part.distribution for part in parts], limits),
            sum(part.minus_infinities for part in parts),
            sum(part.plus_infinities for part in parts),
        )


@dataclasses.dataclass(frozen=True)
class NumberStatistics(FiniteNumbers):
    """Statistics of the numbers of a column.

    NaN counts as a value, and only in ``nans``.

    Attributes:
      moments: of the finite values.
      distribution: of the finite values; its weights are counts.
      zeros: number of values equal to zero.
      nans, minus_infinities, plus_infinities: numbers of those.
      weighted: the same by weight, where the rows have weights.
    """

    moments: ExactMoments
    distribution: Distribution
    zeros: int = 0
    nans: int = 0
    minus_infinities: int = 0
    plus_infinities: int = 0
    weighted: WeightedNumbers | None = None

    @classmethod
    def of(
        cls,
        array: pa.Array,
        weights: npt.NDArray[np.float64] | None = None,
        limits: ColumnLimits | None = None,
    ) -> NumberStatistics:
        """Returns the statistics of an array, without its nulls.

        Args:
          array: int64, float or double.
          weights: float64[n] >= 0.
          limits: sizes at which accumulators turn into sketches.
        """
        return cls.of_value_counts(*count_distinct(array, weights), limits or ColumnLimits())

    @classmethod
    def of_value_counts(
        cls,
        values: Numbers,
        counts: npt.NDArray[np.int64],
        sums: npt.NDArray[np.float64] | None,
        limits: ColumnLimits,
    ) -> NumberStatistics:
        """Returns the statistics of the result of ``count_distinct``."""
        weighted = None if sums is None else WeightedNumbers.of(values, sums, limits)
        nans, minus, plus = 0, 0, 0
        if len(values) and not (math.isfinite(values[0]) and math.isfinite(values[-1])):
            nans, minus, plus = (
                int(counts[chosen].sum())
                for chosen in (np.isnan(values), values == -np.inf, values == np.inf)
            )
            finite = np.isfinite(values)
            values, counts = values[finite], counts[finite]
        zeros = int(counts[values == 0].sum())
        moments = ExactMoments.of(values, counts)
        return cls(
            moments, Distribution.of(values, counts, limits), zeros, nans, minus, plus, weighted
        )

    @classmethod
    def merged(
        cls, parts: Sequence[NumberStatistics], limits: ColumnLimits | None = None
    ) -> NumberStatistics:
        """Returns the statistics of all parts' values together.

        Unweighted statistics do not depend on the order of the parts, except for a distribution
        that is not exact.
        """
        limits = limits or ColumnLimits()
        weighted = [part.weighted for part in parts if part.weighted is not None]
        return cls(
            ExactMoments.merged(part.moments for part in parts),
            Distribution.merged([part.distribution for part in parts], limits),
            sum(part.zeros for part in parts),
            sum(part.nans for part in parts),
            sum(part.minus_infinities for part in parts),
            sum(part.plus_infinities for part in parts),
            WeightedNumbers.merged(weighted, limits) if weighted else None,
        )

    @property
    def values(self) -> Numbers:
        """Finite values, ascending: all distinct ones while ``exact``, else points."""
        return self.distribution.values

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of values for each of ``values``."""
        return self.distribution.weights.astype(np.int64, copy=False)

    @property
    def exact(self) -> bool:
        """Whether ``values`` are all distinct values."""
        return self.distribution.exact

    @property
    def count(self) -> int:
        """Number of values that are not NaN."""
        return self.moments.count + self.minus_infinities + self.plus_infinities

    @property
    def minimum(self) -> int | float | None:
        """Smallest value, infinities included; ``None`` without values."""
        return -math.inf if self.minus_infinities else self._at(0)

    @property
    def maximum(self) -> int | float | None:
        """Largest value, infinities included; ``None`` without values."""
        return math.inf if self.plus_infinities else self._at(-1)

    def _at(self, index: int) -> int | float | None:
        if len(self.values):
            value: int | float = self.values[index].item()
            return value
        return -math.inf if self.minus_infinities else math.inf if self.plus_infinities else None

    @property
    def distinct(self) -> int | None:
        """Number of distinct values; ``None`` unless ``exact``.

        An infinity is one value, and NaN is none.
        """
        if not self.exact:
            return None
        return len(self.values) + bool(self.minus_infinities) + bool(self.plus_infinities)

    def quantiles(self, number: int) -> list[float]:
        """Returns ``number`` + 1 values that cut the distribution into equal parts.

        The k-th is the smallest value with more than k / ``number`` of all values at or below it,
        the last the maximum: TFDV's rule. An empty list without values.
        """
        return self.cumulated(number)[0].tolist() if self.count else []

    @functools.cached_property
    def percentiles(self) -> npt.NDArray[np.float64]:
        """``quantiles(100)`` as an array, which reports draw and show several times."""
        return self.cumulated(100)[0] if self.count else np.empty(0)


def count_distinct(
    array: pa.Array, weights: npt.NDArray[np.float64] | None = None
) -> tuple[Numbers, npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
    """Returns the distinct values, ascending, their counts, and sums of their weights.

    Args:
      array: int64, float or double; nulls are left out. Each NaN may be a value of its own.
      weights: float64[n], nulls included; ``None``: no sums.
    """
    if weights is not None:
        return _sum_distinct(array, weights)
    return *count_sorted(np.sort(_numbers(array))), None


def _sum_distinct(
    array: pa.Array, weights: npt.NDArray[np.float64]
) -> tuple[Numbers, npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    if array.null_count:
        weights = weights[array.is_valid().to_numpy(zero_copy_only=False)]
    if pa.types.is_floating(array.type):  # hashing tells 0.0 and -0.0 apart
        values, places, counts = np.unique(_numbers(array), return_inverse=True, return_counts=True)
        sums = np.bincount(places, weights, len(values)).astype(np.float64, copy=False)
        return values, counts.astype(np.int64, copy=False), sums
    encoded = array.drop_null().dictionary_encode()
    places, values = encoded.indices.to_numpy(), encoded.dictionary.to_numpy()
    order = np.argsort(values)
    counts = np.bincount(places, minlength=len(values)).astype(np.int64, copy=False)
    sums = np.bincount(places, weights, len(values)).astype(np.float64, copy=False)
    return values[order], counts[order], sums[order]


def _numbers(array: pa.Array) -> Any:  # int64 or float64, and numpy's functions keep which
    dtype = np.float64 if pa.types.is_floating(array.type) else np.int64
    values = array.drop_null() if array.null_count else array
    return values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
