"""Histograms from quantiles, as TFDV computes them.

Those of many features are computed by few calls.

Source: tensorflow_data_validation/utils/quantiles_util.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tensorflow_metadata.proto.v0 import statistics_pb2

_Array = npt.NDArray[Any]
# Buckets of a histogram, and quantiles for each: TFDV's defaults.
BUCKETS, _QUANTILES_FOR_BUCKET = 10, 100
NUM_QUANTILES = BUCKETS * _QUANTILES_FOR_BUCKET
# Of so many features the shares of bins in buckets take 5 MB.
_TOGETHER = 64
# ``Histogram.buckets`` on the wire: tag, size, and three numbers after their tags.
_BUCKET = np.dtype(
    [("head", "V3"), ("low", "<f8"), ("to", "V1"), ("high", "<f8"), ("has", "V1"), ("count", "<f8")]
)


class Curve(NamedTuple):
    """Input of a feature's two histograms.

    Attributes:
      proto: gets the histograms.
      quantiles, cumulated: ``NUM_QUANTILES`` + 1 values, infinities included, and the weight up to
        and including each.
      finite: smallest and largest finite value; ``None`` if there are none.
      plus_infinities: weight of infinity; that of minus infinity is in ``cumulated``.
      num_nan: number of NaN.
    """

    proto: statistics_pb2.NumericStatistics | statistics_pb2.WeightedNumericStatistics
    quantiles: _Array
    cumulated: _Array
    finite: tuple[float, float] | None
    plus_infinities: float
    num_nan: int


class Bins(NamedTuple):
    """Weights between neighbouring quantiles of each feature.

    ``weights`` are those in (``lows``, ``highs``], or at a point where the two are equal.
    """

    lows: _Array
    highs: _Array
    weights: _Array


def add_histograms(features: Iterator[Curve]) -> None:
    """Adds a STANDARD and a QUANTILES histogram to each feature."""
    while some := list(itertools.islice(features, _TOGETHER)):
        _add_standard(some)
        quantiles = np.stack([one.quantiles[::_QUANTILES_FOR_BUCKET] for one in some])
        cumulated = np.stack([one.cumulated[::_QUANTILES_FOR_BUCKET] for one in some])
        for one, wire in zip(some, _serialized(*bins(quantiles, cumulated)), strict=True):
            _add(one, statistics_pb2.Histogram.QUANTILES).MergeFromString(wire)


def _add(one: Curve, kind: statistics_pb2.Histogram.HistogramType) -> statistics_pb2.Histogram:
    return one.proto.histograms.add(type=kind, num_nan=one.num_nan)


def quantiles_histogram(quantiles: _Array, cumulated: _Array) -> statistics_pb2.Histogram:
    """Returns a QUANTILES histogram with a bucket between every two quantiles."""
    histogram = statistics_pb2.Histogram(type=statistics_pb2.Histogram.QUANTILES)
    histogram.MergeFromString(_serialized(*bins(quantiles[np.newaxis], cumulated[np.newaxis]))[0])
    return histogram


def bins(quantiles: _Array, cumulated: _Array) -> Bins:
    """Returns the bins between quantiles.

    Bins with equal upper ends share their weight.

    Args:
      quantiles: [features, n + 1], ascending values.
      cumulated: the weight up to and including each.
    """
    lows, highs, weights = quantiles[:, :-1], quantiles[:, 1:], np.diff(cumulated)
    is_start = np.ones(highs.shape, np.bool_)
    np.not_equal(highs[:, 1:], highs[:, :-1], out=is_start[:, 1:])
    if not is_start.all():
        starts = np.flatnonzero(is_start)
        numbers = np.diff(starts, append=highs.size)
        shared = np.add.reduceat(weights.reshape(-1), starts) / numbers
        weights = np.repeat(shared, numbers).reshape(highs.shape)
    # Differences lack the minimum's own weight: it goes to the first bin, or to all equal to it.
    is_first = (lows == lows[:, :1]) & (highs == highs[:, :1])
    weights += is_first * (cumulated[:, :1] / np.count_nonzero(is_first, axis=1, keepdims=True))
    return Bins(lows, highs, weights)


def _add_standard(features: Sequence[Curve]) -> None:
    """Adds a STANDARD histogram to each feature, with buckets of equal width.

    Each infinity has a bucket of its own. Weight is assumed to be uniform within a bin. A bucket is
    open at its lower end and closed at its upper end; the first one includes the minimum.
    """
    alike: dict[tuple[int, bool], list[tuple[Any, ...]]] = {}
    for one in features:
        _, quantiles, cumulated, finite, plus, _ = one
        buckets = _add(one, statistics_pb2.Histogram.STANDARD).buckets
        if finite is None:
            # As in TFDV, where these are the smallest and largest of no values.
            buckets.add(low_value=np.inf, high_value=-np.inf, sample_count=cumulated[-1])
            continue
        start, end = quantiles.searchsorted((finite[0], np.inf)).tolist()
        minus = cumulated[start - 1] if start else 0.0
        if minus:
            buckets.add(low_value=-np.inf, high_value=-np.inf, sample_count=minus)
        inner, weights = quantiles[start:end], cumulated[start:end] - minus
        if plus:
            inner = np.append(inner, finite[1])
            weights = np.append(weights, cumulated[-1] - minus - plus)
        kind = len(inner), finite[0] < finite[1]
        alike.setdefault(kind, []).append((one, inner, weights, finite))
    for (size, is_range), some in alike.items():
        ones, *arrays = zip(*some, strict=True)
        inner, weights, edges = map(np.array, arrays)
        edges = _equal_edges(edges) if is_range else edges
        counts = _rebinned_counts(bins(inner, weights), edges) if size > 1 else 0.0
        for one, wire in zip(ones, _serialized(edges[:, :-1], edges[:, 1:], counts), strict=True):
            histogram = one.proto.histograms[-1]
            histogram.MergeFromString(wire)
            if plus := one.plus_infinities:
                histogram.buckets.add(low_value=np.inf, high_value=np.inf, sample_count=plus)


def _equal_edges(ranges: _Array) -> _Array:
    """Returns the edges of buckets of equal width in each range.

    No edge overflows.
    """
    halve, places = _halves(ranges), np.arange(BUCKETS + 1.0)
    lows, highs = ranges[:, :1] * halve, ranges[:, 1:] * halve
    steps = (highs - lows) / BUCKETS
    # A step of nearly equal numbers may be 0.
    edges: _Array = np.where(steps, places * steps, places / BUCKETS * (highs - lows)) + lows
    edges[:, -1:] = highs
    edges /= halve
    return edges


def _halves(edges: _Array) -> _Array:
    """Returns 0.5 where the difference of edges overflows, else 1."""
    with np.errstate(over="ignore"):
        halves: _Array = np.where(np.isfinite(edges[:, -1:] - edges[:, :1]), 1.0, 0.5)
    return halves


def _rebinned_counts(source: Bins, edges: _Array) -> _Array:
    """Returns the weight between neighbouring edges.

    No bin ends above the last one.
    """
    (features, number), last = source.highs.shape, edges.shape[1] - 1
    # An edge is within one bin at most, the first that ends above it.
    pairs = zip(source.highs, edges, strict=True)
    cuts = np.stack([np.searchsorted(highs, own, side="right") for highs, own in pairs])
    # The share of each bin in each bucket: all, unless an edge is within the bin.
    lengths = np.diff(cuts[:, 1:-1], prepend=0, append=number)
    shares = np.repeat(np.tile(np.eye(last), (features, 1)), lengths.reshape(-1), axis=0)
    shares = shares.reshape(features, number, last)
    cuts = np.minimum(cuts, number - 1)
    lows, highs = (np.take_along_axis(each, cuts, 1) for each in source[:2])
    halve = _halves(edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (edges * halve - lows * halve) / (highs * halve - lows * halve)
    is_within = (lows < highs) & (edges < highs)
    parts = np.where(is_within, np.fmin(np.fmax(parts, 0), 1), edges >= highs)
    # Of these bins, one a row: the share below each edge.
    is_same = cuts[:, :, np.newaxis] == cuts[:, np.newaxis]
    is_below = edges[:, np.newaxis] >= highs[:, :, np.newaxis]
    below = np.where(is_same, parts[:, np.newaxis], is_below)
    below[:, :, 0] = 0.0  # what equals the minimum belongs to the first bucket
    np.put_along_axis(shares, cuts[:, :, np.newaxis], np.diff(below), 1)
    counts: _Array = np.matmul(source.weights[:, np.newaxis], shares)[:, 0]
    return counts


def _serialized(lows: _Array, highs: _Array, counts: _Array | float) -> list[bytes]:
    """Returns each feature's buckets, as a serialized ``Histogram``."""
    buckets = np.empty(lows.shape, _BUCKET)
    buckets["head"], buckets["to"], buckets["has"] = b"\x1a\x1b\x09", b"\x11", b"\x21"
    buckets["low"], buckets["high"], buckets["count"] = lows, highs, counts
    return [own.tobytes() for own in buckets]
