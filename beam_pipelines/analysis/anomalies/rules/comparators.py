"""Rules against other data: drift, skew, and numbers of examples.

The distances are TFDV's (anomalies/metrics.cc), but for NaN and infinities: L-infinity, absolute
difference and Jensen–Shannon, of texts by their rank histograms, of numbers by a histogram.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason, number_text
from beam_pipelines.analysis.compare import LargeDifference
from beam_pipelines.analysis.drift import jensen_shannon

Feature: TypeAlias = statistics_pb2.FeatureNameStatistics
Measurement: TypeAlias = anomalies_pb2.DriftSkewInfo.Measurement
_Histogram = statistics_pb2.Histogram
Counts = Mapping[str, float]
Weights = npt.NDArray[np.float64]


class Comparison(NamedTuple):
    """TFDV's words for the two datasets of a comparison.

    ``treatment`` is the examined dataset, and ``control`` the one it is compared with.
    """

    treatment: str
    control: str


DRIFT = Comparison("current", "previous")
SKEW = Comparison("training", "serving")


def compare(
    comparator: schema_pb2.FeatureComparator,
    comparison: Comparison,
    treatment: Feature,
    control: Feature | None,
) -> tuple[list[Measurement], list[Reason]]:
    """Measures a feature's distance from the same feature of another dataset.

    Args:
      comparator: thresholds of the distances; a distance without a threshold is not measured.
      comparison: names of the datasets.
      treatment: statistics of the feature.
      control: statistics of the feature in the other dataset; ``None`` if it lacks the feature.

    Returns:
      One measurement for each distance, and a reason for each distance above its threshold.
    """
    if not any(getattr(comparator, kind).HasField("threshold") for kind in _KINDS):
        return [], []
    if control is None:
        return [], [_missing(comparison)]
    measurements, reasons = [], []
    for kind, (type_, anomaly, name, short) in _KINDS.items():
        limit = getattr(comparator, kind)
        measured = (
            _measure(kind, limit, treatment, control) if limit.HasField("threshold") else None
        )
        if measured is None:
            continue
        value, which = measured
        measurements.append(Measurement(type=type_, value=value, threshold=limit.threshold))
        if value > limit.threshold:
            reasons.append(_reason(anomaly, name, short, comparison, value, limit.threshold, which))
    return measurements, reasons


_KINDS = {
    "infinity_norm": (
        Measurement.L_INFTY,
        Info.COMPARATOR_L_INFTY_HIGH,
        "Linfty distance",
        "Linfty distance",
    ),
    "jensen_shannon_divergence": (
        Measurement.JENSEN_SHANNON_DIVERGENCE,
        Info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH,
        "approximate Jensen-Shannon divergence",
        "Jensen–Shannon divergence",
    ),
    "normalized_abs_difference": (
        Measurement.NORMALIZED_ABSOLUTE_DIFFERENCE,
        Info.COMPARATOR_NORMALIZED_ABSOLUTE_DIFFERENCE_HIGH,
        "normalized absolute difference",
        "normalized absolute difference",
    ),
}


def _measure(
    kind: str, limit: Any, treatment: Feature, control: Feature
) -> tuple[float, str] | None:
    """Returns the distance, and the text that differs most or ``""``.

    Returns ``None`` if the distance cannot be measured.
    """
    left, right = rank_counts(treatment), rank_counts(control)
    if kind != "jensen_shannon_divergence":
        return largest_difference(left, right, kind == "infinity_norm")
    if left and right:
        return jensen_shannon_of_texts(left, right), ""
    is_of_quantiles = limit.source.type == schema_pb2.HistogramSelection.QUANTILES
    wanted = _Histogram.QUANTILES if is_of_quantiles else _Histogram.STANDARD
    histograms = [
        histogram
        for feature in (treatment, control)
        for histogram in feature.num_stats.histograms
        if histogram.type == wanted
    ]
    divergence = jensen_shannon_of_histograms(*histograms) if len(histograms) == 2 else None
    return None if divergence is None else (divergence, "")


def _missing(comparison: Comparison) -> Reason:
    name = comparison.control
    return Reason(
        Info.COMPARATOR_CONTROL_DATA_MISSING,
        f"{name} data missing",
        f"{name} data is missing.",
        f"the feature in the {name} data",
        "none",
    )


def _reason(
    anomaly: int,
    name: str,
    what: str,
    comparison: Comparison,
    value: float,
    threshold: float,
    which: str,
) -> Reason:
    between = f"between {comparison.treatment} and {comparison.control}"
    largest = f" The feature value with maximum difference is: {which}" if which else ""
    return Reason(
        anomaly,
        f"High {name} {between}",
        f"The {name} {between} is {number_text(float(value))} (up to six significant digits), "
        f"above the threshold {number_text(float(threshold))}.{largest}",
        f"{what} up to {number_text(float(threshold))}",
        number_text(float(value)) + (f", most at '{which}'" if which else ""),
    )


# Kind of a difference from the baseline -> type of its anomaly, if it is not of a distribution.
_TYPES = {
    "new": Info.COMPARATOR_CONTROL_DATA_MISSING,
    "vanished": Info.SCHEMA_MISSING_COLUMN,
    "type": Info.UNEXPECTED_DATA_TYPE,
}


def baseline_reason(finding: LargeDifference) -> Reason:
    """Returns the reason for a difference from the baseline."""
    type_ = _TYPES.get(finding.kind, Info.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH)
    short = f"{finding.kind.capitalize()} against the baseline"
    expected = "about the same as in the baseline"
    return Reason(type_, short, f"{short}: {finding.text}.", expected, finding.text)


def missing_split(split: str, is_new: bool) -> Reason:
    """Returns the reason for a split that one side lacks."""
    short, where = "previous data missing", " in the baseline"
    type_ = Info.COMPARATOR_CONTROL_DATA_MISSING
    if not is_new:
        short, where = "split of the baseline vanished", ", as in the baseline"
        type_ = Info.COMPARATOR_TREATMENT_DATA_MISSING
    expected = f"a split '{split}'{where}"
    return Reason(type_, short, f"Expected {expected}, found none.", expected, "none")


def dataset_reasons(
    constraints: schema_pb2.DatasetConstraints, rows: int, previous_rows: int | None
) -> Iterator[Reason]:
    """Yields the reasons that concern a split's number of rows.

    Args:
      constraints: constraints of the schema.
      rows: number of rows of the split.
      previous_rows: number of rows of the same split of the baseline, or ``None``.
    """
    if previous_rows is not None:
        comparator = constraints.num_examples_drift_comparator
        yield from _ratio_reasons(comparator, rows, previous_rows)
    if constraints.HasField("min_examples_count") and rows < constraints.min_examples_count:
        description = f"The dataset has {rows} examples, which is fewer than expected."
        expected = f"at least {constraints.min_examples_count:,} rows"
        short = "Low num examples in dataset."
        yield Reason(Info.DATASET_LOW_NUM_EXAMPLES, short, description, expected, f"{rows:,} rows")
    if constraints.HasField("max_examples_count") and rows > constraints.max_examples_count:
        description = f"The dataset has {rows} examples, which is more than expected."
        expected = f"at most {constraints.max_examples_count:,} rows"
        short = "High num examples in dataset."
        yield Reason(Info.DATASET_HIGH_NUM_EXAMPLES, short, description, expected, f"{rows:,} rows")


def _ratio_reasons(
    comparator: schema_pb2.NumericValueComparator, rows: int, previous: int
) -> Iterator[Reason]:
    low, high = comparator.min_fraction_threshold, comparator.max_fraction_threshold
    versus = "in current dataset versus the previous span"
    ratio = rows / previous if previous else 0.0
    found = f"{rows:,} rows against {previous:,}"
    text = (
        "The ratio of num examples in the current dataset versus the previous span is "
        f"{number_text(float(ratio))} "
        "(up to six significant digits), which is {} the threshold {}."
    )
    if comparator.HasField("max_fraction_threshold"):
        expected = f"at most {number_text(high)} times as many rows"
        if not previous and rows:
            description = (
                f"The previous span has 0 examples, so there is a high number of examples {versus}."
            )
            short = f"High num examples {versus}, which has 0."
            yield Reason(Info.COMPARATOR_HIGH_NUM_EXAMPLES, short, description, expected, found)
        elif ratio > high:
            description, short = (
                text.format("above", number_text(high)),
                f"High num examples {versus}.",
            )
            yield Reason(Info.COMPARATOR_HIGH_NUM_EXAMPLES, short, description, expected, found)
    if comparator.HasField("min_fraction_threshold") and previous and ratio < low:
        description, short = text.format("below", number_text(low)), f"Low num examples {versus}."
        expected = f"at least {number_text(low)} times as many rows"
        yield Reason(Info.COMPARATOR_LOW_NUM_EXAMPLES, short, description, expected, found)


def rank_counts(feature: Feature) -> dict[str, float]:
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
