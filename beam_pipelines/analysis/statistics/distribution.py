"""The distribution of numbers, as exact values or as weighted points.

Few distinct values are exact; more of them become points.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.packing import SMALL_BYTES, pack, unpack
from beam_pipelines.core.arrow.weighted_values import Numbers, add_equal, sum_runs


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

    def __reduce__(self) -> tuple[Any, ...]:
        if self.values.nbytes < SMALL_BYTES:
            return Distribution, (self.values, self.weights, self.error)
        return _unpickle, (pack(pa.array(self.values), self.weights), self.error)

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
    cumulated = np.cumsum(weights)
    places = np.searchsorted(
        cumulated, np.arange(number + 1) * float(cumulated[-1]) / number, side="right"
    )
    places = places.clip(0, len(values) - 1)
    places[-1] = len(values) - 1
    return values[places].astype(np.float64), cumulated[places].astype(np.float64)


def _bounded(distribution: Distribution, limits: ColumnLimits) -> Distribution:
    """Replaces too many values by points, except the first and the last."""
    if len(distribution.values) <= limits.numbers:
        return distribution
    values, weights = distribution.values[1:-1], distribution.weights[1:-1]
    ends = np.cumsum(weights)
    # The group of a value is that of its end. Apart from one heavy value, a group has at most
    # 1 / points of the weight.
    groups = np.ceil(ends * ((limits.points - 2) / ends[-1]))
    starts, sums = sum_runs(groups, weights)
    lows = ends[starts] - weights[starts]
    middles = np.searchsorted(ends, lows + sums / 2).clip(
        starts, np.append(starts[1:], len(ends)) - 1
    )
    # Between two points, ranks are off by the weight that moved up to one or down to the other.
    moved_up = ends[middles] - weights[middles] - lows
    moved_down = lows + sums - ends[middles]
    error = float(np.maximum(moved_up, moved_down).max())
    return Distribution(
        np.concatenate([distribution.values[:1], values[middles], distribution.values[-1:]]),
        np.concatenate([distribution.weights[:1], sums, distribution.weights[-1:]]),
        # ``exact`` means an error of 0, so that points have a tiny error even where none arose.
        distribution.error + max(error, float(np.finfo(np.float64).tiny)),
    )


def _unpickle(packed: bytes, error: float) -> Distribution:
    values, weights = unpack(packed)
    return Distribution(values.to_numpy(), weights, error)
