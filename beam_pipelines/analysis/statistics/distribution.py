"""Distributions and moments of numbers, which merge."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.core.arrow.weighted_values import Numbers, add_equal, points_of


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Distinct numbers with their weights.

    Beyond the limit, each group of neighbours of about equal weight becomes its middle value.
    ``error`` adds up the change of ranks, a bound that holds for any order of merging.

    Attributes:
      values: finite, ascending, int64 or float64: all distinct values while ``exact``, else points,
        with the smallest and the largest value.
      weights: of each value, positive: int64 counts, or float64 sums of weights.
      error: largest error of the weight below a point; 0 while ``exact``.
    """

    values: Numbers
    weights: Numbers
    error: float = 0.0

    @classmethod
    def of(cls, values: Numbers, weights: Numbers, limits: ColumnLimits) -> Distribution:
        """Returns the distribution of distinct ascending values, without those of weight 0."""
        if weights.dtype == np.float64 and not weights.all():
            values, weights = values[weights > 0], weights[weights > 0]
        return _bounded(cls(values, weights), limits)

    @classmethod
    def merged(cls, parts: Sequence[Distribution], limits: ColumnLimits) -> Distribution:
        """Returns the distribution of all parts.

        Exact counts do not depend on the order of the parts.
        """
        values = np.concatenate([part.values for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return _bounded(cls(*add_equal(values, weights), sum(part.error for part in parts)), limits)

    @property
    def exact(self) -> bool:
        """Whether ``values`` are all distinct values."""
        return self.error == 0

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum())

    @property
    def rank_error(self) -> float:
        """Largest error of a rank, as a share of all weight."""
        return self.error / self.total if self.error else 0.0


def quantiles(
    values: Numbers, weights: Numbers, number: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns ``number`` + 1 quantiles, and the weight up to each one.

    The weight includes that of the quantile. The k-th is the smallest value with more than k /
    ``number`` of the weight at or below it, the last the maximum: the rule of tfx-bsl's
    ``GetQuantilesAndCumulativeWeights``, which TFDV uses.

    Args:
      values, weights: ascending values, infinities included, and their positive weights; at least
        one.
      number: of parts.
    """
    cumulated = np.cumsum(weights).astype(np.float64, copy=False)
    starts = np.arange(number) * cumulated[-1] / number
    places = np.minimum(cumulated.searchsorted(starts, "right"), len(values) - 1)
    places = np.append(places, len(values) - 1)
    return values[places].astype(np.float64, copy=False), cumulated[places]


def _bounded(distribution: Distribution, limits: ColumnLimits) -> Distribution:
    """Replaces too many values by points."""
    values, weights, error = distribution.values, distribution.weights, distribution.error
    if len(values) <= limits.numbers:
        return distribution
    values, weights, moved = points_of(values, weights, limits.points)
    return Distribution(values, weights, error + moved)


# Every float64, and every sum of them, is a whole multiple of 2**-1074, the smallest one.
SCALE = 1074
# Beyond 2**±400 squares may leave the range of float64; values are scaled first.
_SAFE_EXPONENT = 400


@dataclasses.dataclass(frozen=True)
class ExactMoments:
    """Count, sum and sum of squares of numbers, as whole numbers.

    Adding whole numbers (fixed point) never rounds: merging in any order, with any number of
    workers, gives the same mean and deviation to the last bit. Only ``of`` rounds, in float64
    around the batch's own mean, which keeps about 15 digits of the deviation however far from zero
    the values are.

    Attributes:
      count: number of values.
      total: their sum, in units of 2**-1074.
      squares: the sum of their squares, in units of 2**-2148.
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> ExactMoments:
        """Returns the moments of finite ascending values that occur ``counts`` times."""
        if not len(values):
            return cls()
        start = np.zeros(1, np.int64)
        values, counts = np.concatenate([values[:1], values]), np.concatenate([start, counts])
        return cls.of_runs(values, counts, start)[0]

    @classmethod
    def of_runs(
        cls, values: npt.NDArray[Any], counts: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
    ) -> list[ExactMoments]:
        """Returns the moments of each run of values.

        Args:
          values: int64[n] or float64[n], no NaN, no infinities. Each run has its first value
            twice, then ascending ones.
          counts: int64[n], how often each occurs: the first of a run 0 times, the others fewer
            than 2**31 times.
          starts: int64[runs], where each run begins.
        """
        lengths, numbers = np.diff(starts, append=len(values)), np.add.reduceat(counts, starts)
        lows, highs = values[starts], values[starts + lengths - 1]
        counted = numbers.tolist()
        if values.dtype == np.int64:
            # Two sums of 32-bit halves: neither can overflow.
            high, low = (
                np.add.reduceat(half * counts, starts).tolist()
                for half in (values >> 32, values & 0xFFFFFFFF)
            )
            totals = [(a << 32) + b for a, b in zip(high, low, strict=True)]
            centers = [total // count for total, count in zip(totals, counted, strict=True)]
            middles = np.repeat(np.array(centers), lengths)
            is_far = np.repeat(highs.view(np.uint64) - lows.view(np.uint64) >= 1 << 62, lengths)
            deviations = (values - middles).astype(np.float64)
            deviations[is_far] = values[is_far].astype(np.float64) - middles[is_far]
            return [
                cls._of_integers(*each)
                for each in zip(
                    counted,
                    totals,
                    centers,
                    _sums(deviations * deviations * counts, starts).tolist(),
                    strict=True,
                )
            ]
        times: Any = counts if (numbers >= lengths).any() else 1.0
        exponents = np.frexp(np.maximum(-lows, highs))[1]
        shifts = np.where(np.abs(exponents) > _SAFE_EXPONENT, exponents, 0)
        scaled = np.ldexp(values, -np.repeat(shifts, lengths)) if shifts.any() else values
        middles = _sums(scaled * times, starts) / numbers
        deviations = scaled - np.repeat(middles, lengths)
        sums = _sums(deviations * times, starts)
        squares = _sums(deviations * deviations * times, starts)
        rows = (array.tolist() for array in (numbers, shifts, middles, sums, squares))
        return [cls._of_floats(*each) for each in zip(*rows, strict=True)]

    @classmethod
    def _of_integers(cls, count: int, total: int, center: int, square: float) -> ExactMoments:
        whole = (count * center + 2 * (total - count * center)) * center << 2 * SCALE
        return cls(count, total << SCALE, whole + (int(square) << 2 * SCALE))

    @classmethod
    def _of_floats(cls, count: int, shift: int, *row: float) -> ExactMoments:
        (center, i), (deviation, j), (square, k) = map(_whole, row)
        total = (count * center << SCALE - i) + (deviation << SCALE - j)
        # Multiplied out; short numbers are multiplied before they are shifted.
        whole = (count * center * center << 2 * (SCALE - i)) + (square << 2 * SCALE - k)
        whole += center * deviation << 2 * SCALE + 1 - i - j
        return cls(count, shifted(total, shift), shifted(whole, 2 * shift))

    @classmethod
    def merged(cls, parts: Iterable[ExactMoments]) -> ExactMoments:
        """Returns the moments of all parts; their order does not matter."""
        parts = list(parts)
        return cls(
            sum(p.count for p in parts), sum(p.total for p in parts), sum(p.squares for p in parts)
        )

    @functools.cached_property
    def mean(self) -> float:
        """Arithmetic mean; 0 without values, as in TFDV.

        It is correctly rounded from the sum.
        """
        return self.total / (self.count << SCALE) if self.count else 0.0

    @functools.cached_property
    def standard_deviation(self) -> float:
        """Population standard deviation; 0 without values, as in TFDV."""
        if not self.count:
            return 0.0
        # Times count², in units of 2**-2148.
        variance = max(0, self.squares * self.count - self.total * self.total)
        return math.isqrt(variance << 128) / (self.count << SCALE + 64)


def _sums(
    numbers: npt.NDArray[np.float64], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Returns the sums of runs without their first numbers.

    They have the bits of ``sum``: ``reduceat`` adds a run's first number to the sum of the others.
    """
    numbers[starts] = 0.0
    return np.add.reduceat(numbers, starts)


def _whole(value: float) -> tuple[int, int]:
    """Returns a finite float as a number over a power of two."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def shifted(value: int, bits: int) -> int:
    """Returns an integer times two to the power of ``bits``, rounded down."""
    return value << bits if bits >= 0 else value >> -bits


@dataclasses.dataclass(frozen=True)
class WeightedMoments:
    """Sum of weights, and weighted mean and deviation, in float64.

    Merge in a fixed order to get the same bits.

    Attributes:
      weight: sum of the weights.
      mean: weighted arithmetic mean; 0 without weight, as in TFDV.
      squares: weighted sum of squared deviations from the mean.
    """

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: npt.NDArray[Any], weights: npt.NDArray[np.float64]) -> WeightedMoments:
        """Returns the moments of finite values with weights of at least 0."""
        values, weights = values[weights > 0], weights[weights > 0]
        if not len(weights):
            return cls()
        weight = float(weights.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow gives infinity
            numbers = values.astype(np.float64)
            # Differences from a value keep digits where all values are far from zero.
            middle = float(numbers[len(numbers) // 2])
            mean = middle + float(((numbers - middle) * weights).sum()) / weight
            return cls(
                weight, _plain_nan(mean), _plain_nan(float(((numbers - mean) ** 2 * weights).sum()))
            )

    @classmethod
    def merged(cls, parts: Iterable[WeightedMoments]) -> WeightedMoments:
        """Returns the moments of all parts (Chan, Golub and LeVeque's formula)."""
        parts = [part for part in parts if part.weight]
        if not parts:
            return cls()
        weights, means, squares = np.array([dataclasses.astuple(part) for part in parts]).T
        between = cls.of(means, weights)
        return cls(between.weight, between.mean, _plain_nan(between.squares + float(squares.sum())))

    @property
    def standard_deviation(self) -> float:
        """Weighted population standard deviation; 0 without weight, as in TFDV."""
        return math.sqrt(self.squares / self.weight) if self.weight else 0.0


def _plain_nan(value: float) -> float:
    """Returns a float, with the usual bits if it is NaN.

    Processors give NaN a sign.
    """
    return math.nan if math.isnan(value) else value
