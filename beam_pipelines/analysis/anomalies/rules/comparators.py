"""Rules against other data: drift, skew, and numbers of examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules import distances
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason, number_text
from beam_pipelines.analysis.compare import LargeDifference

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
    kind: str, limit: Any, treatment: Feature, control: Feature
) -> tuple[float, str] | None:
    """Returns the distance, and the text that differs most or ``""``.

    Returns ``None`` if the distance cannot be measured.
    """
    left, right = distances.rank_counts(treatment), distances.rank_counts(control)
    if kind != "jensen_shannon_divergence":
        return distances.largest_difference(left, right, kind == "infinity_norm")
    if left and right:
        return distances.jensen_shannon_of_texts(left, right), ""
    is_of_quantiles = limit.source.type == schema_pb2.HistogramSelection.QUANTILES
    wanted = _Histogram.QUANTILES if is_of_quantiles else _Histogram.STANDARD
    histograms = [
        histogram
        for feature in (treatment, control)
        for histogram in feature.num_stats.histograms
        if histogram.type == wanted
    ]
    divergence = (
        distances.jensen_shannon_of_histograms(*histograms) if len(histograms) == 2 else None
    )
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
        "above the threshold "
        f"{number_text(float(threshold))}.{largest}",
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
