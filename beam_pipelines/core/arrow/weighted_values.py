"""Numbers with weights: sums of weights over equal values.

Statistics and encodings both build their distributions on these functions. The distributions
differ on purpose: a ``statistics.distribution.Distribution`` keeps exact counts and states its rank
error; an ``encodings.analyzers.Quantiles`` is float64 throughout and also weighs nulls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


def add_equal(values: Any, weights: Any) -> tuple[Any, Any]:
    """Sorts values and adds the weights of equal ones, in their order.

    Args:
      values: int64[n] or float64[n], finite.
      weights: int64[n] or float64[n].

    Returns:
      The distinct values, ascending, and the sum of weights of each; dtypes stay.
    """
    if not len(values):
        return values, weights
    if weights.dtype == np.int64 and weights.sum() <= 2 * len(values):
        # Takes a seventh of the time. Of 0.0 and -0.0 the first is kept.
        zeros = values[values == 0][:1]
        distinct, counts = count_sorted(np.sort(np.repeat(values, weights)))
        distinct[np.searchsorted(distinct, zeros)] = zeros
        return distinct, counts
    order = np.argsort(values, kind="stable")
    values = values[order]
    starts, sums = sum_runs(values, weights[order])
    return values[starts], sums


def count_sorted(values: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Returns the distinct ones of ascending values, and their counts."""
    starts = _starts(values)
    ends = np.concatenate([starts[1:], [len(values)] * len(starts[:1])])
    return values[starts], ends - starts


def sum_runs(keys: npt.NDArray[Any], weights: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Returns the start and the sum of weights of each run.

    A run is a sequence of equal keys.

    Args:
      keys: [n] with n > 0; equal keys of one run are neighbours.
      weights: int64[n] or float64[n].
    """
    starts = _starts(keys)
    return starts, np.add.reduceat(weights, starts)


def _starts(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    is_start = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)
