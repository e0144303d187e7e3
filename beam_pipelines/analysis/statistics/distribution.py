"""The distribution of numbers: all distinct values while they are few, weighted points beyond."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.limits import Limits
from beam_pipelines.analysis.statistics.packing import SMALL_BYTES, pack, unpack

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Distribution:
    """How much weight lies on which numbers.

    Beyond the limit, groups of neighbours of about equal weight give way to their middle value.
    What that does to ranks is added up in ``error``, so that a bound is known whatever was merged
    in which order.

    Attributes:
      values: finite, ascending, int64 or float64: all distinct ones while ``exact``, else points,
        the smallest and the largest value among them.
      weights: of each, positive: int64 where it counts values, float64 where it adds up their
        weights.
      error: the weight below a point is off by at most so much; 0 while ``exact``.
    """

    values: Numbers
    weights: Numbers
    error: float = 0.0

    @classmethod
    def of(cls, values: Numbers, weights: Numbers, limits: Limits) -> Distribution:
        """Returns the distribution of distinct values in ascending order. A weight of 0 does not
        count.
        """
        if weights.dtype == np.float64 and not weights.all():
            values, weights = values[weights > 0], weights[weights > 0]
        return _bounded(cls(values, weights), limits)

    @classmethod
    def merged(cls, parts: Sequence[Distribution], limits: Limits) -> Distribution:
        """Returns the distribution of all parts together; while exact, counts are the same whatever
        their order.
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
        """Whether ``values`` are all there are."""
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
    """Returns ``number`` + 1 values that cut a distribution into equal parts, and the weight up to
    each of them, included.

    The k-th is the smallest value that more than k / ``number`` of the weight lies at or below, the
    last one the maximum: as tfx-bsl's ``GetQuantilesAndCumulativeWeights`` has it, which TFDV asks.

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


def add_equal(values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Sorts values and adds the weights of equal ones, in the order in which they come."""
    if not len(values):
        return values, weights
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[starts], np.add.reduceat(weights, starts)


def _bounded(distribution: Distribution, limits: Limits) -> Distribution:
    """Replaces too many values by points. The first and the last value stay as they are."""
    if len(distribution.values) <= limits.numbers:
        return distribution
    values, weights = distribution.values[1:-1], distribution.weights[1:-1]
    ends = np.cumsum(weights)
    # The group that a value's end falls into. A group has at most 1 / points of the weight, beside
    # one heavy value.
    groups = np.ceil(ends * ((limits.points - 2) / ends[-1]))
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sums = np.add.reduceat(weights, starts)
    lows = ends[starts] - weights[starts]
    middles = np.searchsorted(ends, lows + sums / 2).clip(
        starts, np.append(starts[1:], len(ends)) - 1
    )
    # Between two points, what is missing is at most what moved up to the one or down to the other.
    moved_up = ends[middles] - weights[middles] - lows
    moved_down = lows + sums - ends[middles]
    error = float(np.maximum(moved_up, moved_down).max())
    return Distribution(
        np.concatenate([distribution.values[:1], values[middles], distribution.values[-1:]]),
        np.concatenate([distribution.weights[:1], sums, distribution.weights[-1:]]),
        # A difference of 0 may come from rounding, and then there is no error; but points are
        # points.
        distribution.error + max(error, float(np.finfo(np.float64).tiny)),
    )


def _unpickle(packed: bytes, error: float) -> Distribution:
    values, weights = unpack(packed)
    return Distribution(values.to_numpy(), weights, error)
