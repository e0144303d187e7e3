"""Histograms from quantiles, as TFDV computes them.

Source: tensorflow_data_validation/utils/quantiles_util.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.numeric import equal_edges

_Array = npt.NDArray[Any]


class Bins(NamedTuple):
    """Weights between neighbouring quantiles.

    ``weights`` are those in (``lows``, ``highs``], or at a point where the two are equal.
    """

    lows: _Array
    highs: _Array
    weights: _Array


def bins(quantiles: _Array, cumulated: _Array) -> Bins:
    """Returns the bins between quantiles.

    Bins with equal upper ends share their weight.

    Args:
      quantiles: ascending values.
      cumulated: the weight up to and including each.
    """
    lows, highs, weights = quantiles[:-1], quantiles[1:], np.diff(cumulated)
    if not len(weights):
        return Bins(lows, highs, weights)
    is_other, first = highs[1:] != highs[:-1], 1
    if not is_other.all():
        starts = np.concatenate([[0], np.flatnonzero(is_other) + 1])
        numbers = np.diff(starts, append=len(highs))
        weights = np.repeat(np.add.reduceat(weights, starts) / numbers, numbers)
        first = int(np.argmin(np.append((lows == lows[0]) & (highs == highs[0]), False)))
    # Differences lack the minimum's own weight: it goes to the first bin, or to all equal to it.
    weights[:first] += cumulated[0] / first
    return Bins(lows, highs, weights)


def quantiles_histogram(
    quantiles: _Array, cumulated: _Array, num_nan: int = 0
) -> statistics_pb2.Histogram:
    """Returns a QUANTILES histogram with a bucket between every two quantiles."""
    histogram = statistics_pb2.Histogram(type=statistics_pb2.Histogram.QUANTILES, num_nan=num_nan)
    _add_buckets(histogram, *bins(quantiles, cumulated))
    return histogram


def standard_histogram(
    quantiles: _Array,
    cumulated: _Array,
    finite: tuple[float, float] | None,
    plus_infinities: float,
    num_buckets: int,
    num_nan: int,
) -> statistics_pb2.Histogram:
    """Returns a STANDARD histogram, with buckets of equal width.

    Each infinity has a bucket of its own. Weight is assumed to be uniform within a bin. A bucket is
    open at its lower end and closed at its upper end; the first one includes the minimum.

    Args:
      quantiles, cumulated: many more than buckets; infinities included.
      finite: smallest and largest finite value; ``None`` if there are none.
      plus_infinities: weight of infinity; that of minus infinity is in ``cumulated``.
      num_buckets: of equal width.
      num_nan: number of NaN.
    """
    histogram = statistics_pb2.Histogram(type=statistics_pb2.Histogram.STANDARD, num_nan=num_nan)
    if finite is None:
        # As in TFDV, where these are the smallest and largest of no values.
        histogram.buckets.add(low_value=np.inf, high_value=-np.inf, sample_count=cumulated[-1])
        return histogram
    low, high = finite
    negative = int(np.searchsorted(quantiles, -np.inf, side="right"))
    minus_infinities = cumulated[negative - 1] if negative else 0.0
    end = (
        int(np.searchsorted(quantiles, np.inf, side="left")) if plus_infinities else len(quantiles)
    )
    inner, weights = quantiles[negative:end], cumulated[negative:end] - minus_infinities
    if plus_infinities:
        inner = np.append(inner, high)
        weights = np.append(weights, cumulated[-1] - minus_infinities - plus_infinities)
    edges = equal_edges(low, high, num_buckets) if low < high else np.array([low, high])
    counts = _rebinned_counts(bins(inner, weights), edges)
    if minus_infinities:
        histogram.buckets.add(low_value=-np.inf, high_value=-np.inf, sample_count=minus_infinities)
    _add_buckets(histogram, edges[:-1], edges[1:], counts)
    if plus_infinities:
        histogram.buckets.add(low_value=np.inf, high_value=np.inf, sample_count=plus_infinities)
    return histogram


def _rebinned_counts(source: Bins, edges: _Array) -> _Array:
    """Returns the weight between neighbouring edges."""
    below = (source.highs[:, np.newaxis] <= edges).astype(np.float64)
    # An edge is within one bin at most, the first that ends above it.
    cut = np.searchsorted(source.highs, edges, side="right")
    inner = np.flatnonzero(np.append(source.lows < source.highs, False)[cut])
    lows, highs = source.lows[cut[inner]], source.highs[cut[inner]]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # A difference of finite numbers may be infinite, that of their halves is not.
        halve = 1.0 if np.isfinite(edges[-1] - edges[0]) else 0.5
        shares = (edges[inner] * halve - lows * halve) / (highs * halve - lows * halve)
    below[cut[inner], inner] = np.fmin(np.fmax(shares, 0), 1)
    below[:, 0] = 0.0  # what equals the minimum belongs to the first bucket
    counts: _Array = source.weights @ (below[:, 1:] - below[:, :-1])
    return counts


def _add_buckets(
    histogram: statistics_pb2.Histogram, lows: _Array, highs: _Array, counts: _Array
) -> None:
    for low, high, count in zip(lows.tolist(), highs.tolist(), counts.tolist(), strict=True):
        histogram.buckets.add(low_value=low, high_value=high, sample_count=count)
