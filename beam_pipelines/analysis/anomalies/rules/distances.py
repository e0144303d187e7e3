"""Distances of distributions: L-infinity, absolute difference, Jensen–Shannon.

The definitions are TFDV's (anomalies/metrics.cc), but for NaN and infinities: texts by their rank
histograms, numbers by a histogram.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.drift import jensen_shannon

Counts = Mapping[str, float]
Weights = npt.NDArray[np.float64]


def rank_counts(feature: statistics_pb2.FeatureNameStatistics) -> dict[str, float]:
    """Returns the counts of a feature's texts; empty for numbers and bytes."""
    return {
        bucket.label: bucket.sample_count for bucket in feature.string_stats.rank_histogram.buckets
    }


def largest_difference(left: Counts, right: Counts, of_shares: bool) -> tuple[float, str]:
    """Returns the largest difference of a text's counts, and that text.

    Args:
      left, right: counts of texts.
      of_shares: whether counts are divided by their sum on their side, as L-infinity is; else by
        the sum of both sides.
    """
    totals = sum(left.values()), sum(right.values())
    left_total, right_total = totals if of_shares else (sum(totals), sum(totals))
    largest, which = 0.0, ""
    for text in sorted(
        {*left, *right}, key=str.encode
    ):  # of equal differences the last one is named, as in TFDV
        share = left.get(text, 0.0) / left_total if left_total else 0.0
        other = right.get(text, 0.0) / right_total if right_total else 0.0
        if abs(share - other) >= largest:
            largest, which = abs(share - other), text
    return largest, which


def jensen_shannon_of_texts(left: Counts, right: Counts) -> float:
    """Returns the Jensen–Shannon divergence of two distributions of texts.

    It is in bits, from 0 to 1. Both sides must have texts.
    """
    texts = sorted({*left, *right})
    sides = (np.array([side.get(text, 0.0) for text in texts]) for side in (left, right))
    return jensen_shannon(*sides)


def jensen_shannon_of_histograms(
    left: statistics_pb2.Histogram, right: statistics_pb2.Histogram
) -> float | None:
    """Returns the Jensen–Shannon divergence of two histograms.

    It is in bits, from 0 to 1; ``None`` if one histogram is empty.

    Values are assumed to be spread evenly over a bucket, and both histograms are cut at the bounds
    of either. A bucket of a single value matches only the other side's bucket of the same value.
    NaN matches NaN, and an infinite bound the same infinite bound; in TFDV they match nothing.
    """
    sides = cells_of_histograms(left, right)
    return jensen_shannon(*sides) if all(side.sum() > 0 for side in sides) else None


def cells_of_histograms(
    left: statistics_pb2.Histogram, right: statistics_pb2.Histogram
) -> list[Weights]:
    """Returns the weights of two histograms in the same cells, float64.

    NaN and infinities have cells of their own.
    """
    bounds = np.unique(
        [bound for side in (left, right) for bucket in _finite(side) for bound in bucket[:2]]
    )
    points = sorted(
        {low for side in (left, right) for low, high, _ in _buckets(side) if low == high}
    )
    return [
        np.concatenate([_aligned(side, bounds, points), _tails(side)]) for side in (left, right)
    ]


def _buckets(histogram: statistics_pb2.Histogram) -> list[tuple[float, float, float]]:
    return [
        (bucket.low_value, bucket.high_value, bucket.sample_count) for bucket in histogram.buckets
    ]


def _finite(histogram: statistics_pb2.Histogram) -> list[tuple[float, float, float]]:
    """Returns (low, high, weight) of buckets with a finite width above 0."""
    return [
        (low, high, weight)
        for low, high, weight in _buckets(histogram)
        if low != high and np.isfinite([low, high]).all()
    ]


def _tails(histogram: statistics_pb2.Histogram) -> Weights:
    """Returns float64[5]: weights of NaN, and of buckets by infinite bounds."""
    tails = np.zeros(5)
    tails[0] = histogram.num_nan
    for low, high, weight in _buckets(histogram):
        if not np.isfinite([low, high]).all():
            tails[1 + 2 * (low == -np.inf) + (high == np.inf)] += weight
    return tails


def _aligned(histogram: statistics_pb2.Histogram, bounds: Weights, points: list[float]) -> Weights:
    """Returns float64: the weight between each two bounds, then at each point."""
    between = np.zeros(max(len(bounds) - 1, 0))
    for low, high, weight in _finite(histogram):
        first, last = np.searchsorted(bounds, [low, high])
        # Halved, so that no width is beyond float64.
        between[first:last] += weight * (
            np.diff(bounds[first : last + 1] / 2) / (high / 2 - low / 2)
        )
    at = np.zeros(len(points))
    for low, high, weight in _buckets(histogram):
        if low == high and np.isfinite(low):
            at[points.index(low)] += weight
    return np.concatenate([between, at])
