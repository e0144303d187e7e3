"""Rules for distributions: drift from a baseline, skew between splits."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules import distances
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason, number_text

Feature: TypeAlias = statistics_pb2.FeatureNameStatistics
Measurement: TypeAlias = anomalies_pb2.DriftSkewInfo.Measurement
_Histogram = statistics_pb2.Histogram


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
    kind: str, limit: object, treatment: Feature, control: Feature
) -> tuple[float, str] | None:
    """Returns the distance, and the text that differs most or ``""``.

    Returns ``None`` if the distance cannot be measured.
    """
    left, right = distances.rank_counts(treatment), distances.rank_counts(control)
    if kind == "infinity_norm":
        return distances.l_infinity(left, right)
    if kind == "normalized_abs_difference":
        return distances.normalized_absolute_difference(left, right)
    if left and right:
        return distances.jensen_shannon_of_texts(left, right), ""
    wanted = _Histogram.QUANTILES if _wants_quantiles(limit) else _Histogram.STANDARD
    histograms = [_histogram(feature, wanted) for feature in (treatment, control)]
    if histograms[0] is None or histograms[1] is None:
        return None
    divergence = distances.jensen_shannon_of_histograms(histograms[0], histograms[1])
    return None if divergence is None else (divergence, "")


def _wants_quantiles(limit: object) -> bool:
    selection = schema_pb2.HistogramSelection
    return (
        isinstance(limit, schema_pb2.JensenShannonDivergence)
        and limit.source.type == selection.QUANTILES
    )


def _histogram(feature: Feature, kind: int) -> statistics_pb2.Histogram | None:
    return next(
        (histogram for histogram in feature.num_stats.histograms if histogram.type == kind), None
    )


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
        "above the threshold "
        f"{number_text(float(threshold))}.{largest}",
        f"{what} up to {number_text(float(threshold))}",
        number_text(float(value)) + (f", most at '{which}'" if which else ""),
    )
