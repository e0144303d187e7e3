"""Distances against plain formulas; drift and skew as anomalies."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe, find_anomalies
from beam_pipelines.analysis.anomalies.rules.comparators import (
    jensen_shannon_of_histograms,
    jensen_shannon_of_texts,
    largest_difference,
)
from beam_pipelines.analysis.statistics import TableStatistics

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1)
MEASUREMENT = anomalies_pb2.DriftSkewInfo.Measurement


def divergence(left: list[float], right: list[float]) -> float:
    """Jensen–Shannon in bits, by the entropy formula, from weights."""

    def entropy(weights: list[float]) -> float:
        return -sum(w * math.log2(w) for w in weights if w)

    p, q = ([w / sum(side) for w in side] for side in (left, right))
    mean = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return entropy(mean) - (entropy(p) + entropy(q)) / 2


@given(COUNTS, COUNTS)
def test_distances_of_texts(left: dict[str, int], right: dict[str, int]) -> None:
    """Each distance equals its formula, is symmetric, and is 0 to 1."""
    texts = sorted({*left, *right})
    p, q = ([side.get(text, 0) / sum(side.values()) for text in texts] for side in (left, right))
    value, which = largest_difference(left, right, of_shares=True)
    differences = {text: abs(a - b) for text, a, b in zip(texts, p, q, strict=True)}
    assert value == pytest.approx(max(differences.values()))
    assert differences[which] == pytest.approx(value)
    total = sum(left.values()) + sum(right.values())
    expected = max(abs(left.get(text, 0) - right.get(text, 0)) / total for text in texts)
    assert largest_difference(left, right, of_shares=False)[0] == pytest.approx(expected)
    bits = jensen_shannon_of_texts(left, right)
    assert bits == pytest.approx(divergence(p, q), abs=1e-9)
    assert 0 <= bits <= 1
    assert bits == pytest.approx(jensen_shannon_of_texts(right, left))


def histogram(*buckets: tuple[float, float, float], nans: int = 0) -> statistics_pb2.Histogram:
    proto = statistics_pb2.Histogram(num_nan=nans)
    for low, high, count in buckets:
        proto.buckets.add(low_value=low, high_value=high, sample_count=count)
    return proto


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (histogram((0, 1, 3), (1, 2, 1)), histogram((0, 1, 6), (1, 2, 2)), 0.0),
        (histogram((0, 2, 4)), histogram((0, 1, 2), (1, 2, 2)), 0.0),
        # spread evenly over the finer bounds
        (histogram((0, 1, 1)), histogram((1, 2, 1)), 1.0),
        (histogram((0, 2, 2)), histogram((1, 3, 2)), divergence([1, 1, 0], [0, 1, 1])),
        (histogram((5, 5, 2)), histogram((5, 5, 7)), 0.0),
        # a single value
        (histogram((5, 5, 2)), histogram((4, 6, 2)), 1.0),
        (histogram((0, 1, 9), nans=1), histogram((0, 1, 27), nans=3), 0.0),
        (histogram((0, 1, 1), nans=1), histogram((0, 1, 1)), divergence([1, 1], [1, 0])),
        (histogram(nans=2), histogram(nans=1), 0.0),
        (histogram((0, 1, 1), (1, math.inf, 1)), histogram((0, 1, 1)), divergence([1, 1], [1, 0])),
        (histogram((-math.inf, -math.inf, 1), (0, 1, 1), (math.inf, math.inf, 2)),
         histogram((-math.inf, -math.inf, 2), (0, 1, 1), (math.inf, math.inf, 1)), divergence([1, 1, 2], [2, 1, 1])),
        (histogram((-1e308, 1e308, 2)), histogram((-1e308, 0, 1), (0, 1e308, 1)), 0.0),
        (histogram(), histogram((0, 1, 1)), None),
    ],
)  # fmt: skip
def test_divergence_of_histograms(left, right, expected):
    """Histograms are cut at both sides' bounds; single values stay apart."""
    found = jensen_shannon_of_histograms(left, right)
    assert found == (expected if expected is None else pytest.approx(expected, abs=1e-12))


def statistics(values: list[Any], kind: pa.DataType) -> TableStatistics:
    return TableStatistics.of(pa.record_batch({"x": pa.array(values, kind)}))


def schema(text: str) -> schema_pb2.Schema:
    return text_format.Parse(f'feature {{ name: "x" {text} }}', schema_pb2.Schema())


@pytest.mark.parametrize(
    ("limit", "kind", "now", "before", "value", "type_", "description"),
    [
        ("infinity_norm { threshold: 0.2 }", pa.string(), ["a", "a", "b", "b"], ["a", "b", "b", "b"], 0.25, "COMPARATOR_L_INFTY_HIGH",
         "The Linfty distance between current and previous is 0.25 (up to six significant digits), above the threshold 0.2. The feature value with maximum difference is: b"),
        ("normalized_abs_difference { threshold: 0.1 }", pa.string(), ["a", "a", "b", "b"], ["a", "b", "b", "b"], 0.125,
         "COMPARATOR_NORMALIZED_ABSOLUTE_DIFFERENCE_HIGH",
         "The normalized absolute difference between current and previous is 0.125 (up to six significant digits), above the threshold 0.1. The feature value with maximum difference is: b"),
        ("jensen_shannon_divergence { threshold: 0.9 }", pa.float64(), [1.0, 2.0], [5.0, 6.0], 1.0,
         "COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH",
         "The approximate Jensen-Shannon divergence between current and previous is 1 (up to six significant digits), above the threshold 0.9."),
        ("jensen_shannon_divergence { threshold: 0.9 }", pa.string(), ["a"], ["b"], 1.0, "COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH",
         "The approximate Jensen-Shannon divergence between current and previous is 1 (up to six significant digits), above the threshold 0.9."),
    ],
)  # fmt: skip
def test_drift(limit, kind, now, before, value, type_, description):
    """A distance above its threshold is an ERROR in TFDV's words."""
    type_name = "FLOAT" if kind == pa.float64() else "BYTES"
    baseline = {"train": statistics(before, kind)}
    expected = schema(f"type: {type_name} drift_comparator {{ {limit} }}")
    found = find_anomalies({"train": statistics(now, kind)}, expected, baseline=baseline)
    [reason] = found["train"].reasons["x"]
    assert (anomalies_pb2.AnomalyInfo.Type.Name(reason.type), reason.description) == (
        type_,
        description,
    )
    [info] = anomalies_to_proto(found, expected)["train"].drift_skew_info
    assert list(info.path.step) == ["x"]
    assert info.drift_measurements[0].value == pytest.approx(value)
    # and within a wider threshold
    same = schema(f"type: {type_name} drift_comparator {{ {limit.partition(':')[0]}: 1 }} }}")
    found = find_anomalies({"train": statistics(now, kind)}, same, baseline=baseline)
    assert not found["train"].reasons
    assert found["train"].measured[0].drift_measurements[0].threshold == 1


COMPARATORS = (
    "infinity_norm { threshold: 0 }",
    "jensen_shannon_divergence { threshold: 0 }",
    "jensen_shannon_divergence { threshold: 0 source { type: QUANTILES } }",
)


@given(
    st.sampled_from(COMPARATORS),
    st.lists(st.floats(width=32), min_size=1, max_size=30)
    | st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.5]), min_size=1)
    | st.lists(st.text("abcde", max_size=2), min_size=1),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
@settings(max_examples=120)
def test_equal_distributions_are_no_drift(comparator, values, times, chance):
    """Repeated and reordered values do not exceed a threshold of 0."""
    kind = pa.string() if isinstance(values[0], str) else pa.float64()
    more = values * times
    chance.shuffle(more)
    before = {"train": statistics(values, kind)}
    type_name = "FLOAT" if kind == pa.float64() else "BYTES"
    limited = schema(f"type: {type_name} drift_comparator {{ {comparator} }}")
    found = find_anomalies({"train": statistics(more, kind)}, limited, baseline=before)
    assert not found["train"].reasons
    assert all(
        measurement.value == 0
        for info in found["train"].measured
        for measurement in info.drift_measurements
    )


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_share_of_odd_values_is_drift_only_if_it_changes(odd: float) -> None:
    """A share of NaN or infinities is drift only if it changes.

    10 % on both days is no drift. 10 % after 0 % is drift.
    """
    numbers = [float(number) for number in range(90)]
    days = {"steady": [*numbers, *[odd] * 10], "none": [*numbers, *numbers[::9]]}
    comparator = "jensen_shannon_divergence { threshold: 0.02 }"
    limited = schema(f"type: FLOAT drift_comparator {{ {comparator} }}")
    now = {"train": statistics([number + 1 for number in numbers] + [odd] * 10, pa.float64())}
    high = {}
    for name, values in days.items():
        before = {"train": statistics(values, pa.float64())}
        high[name] = bool(find_anomalies(now, limited, baseline=before)["train"].reasons)
    assert high == {"steady": False, "none": True}


def test_nothing_is_compared_without_a_baseline_or_a_threshold() -> None:
    """Without a baseline or a threshold, a comparator measures nothing."""
    limited = schema("type: BYTES drift_comparator { infinity_norm { threshold: 0 } }")
    now = {"train": statistics(["a"], pa.string())}
    assert not find_anomalies(now, limited)["train"].measured
    before = {"train": statistics(["b"], pa.string())}
    assert not find_anomalies(now, schema("type: BYTES drift_comparator { }"), baseline=before)[
        "train"
    ].measured


def test_a_split_or_feature_that_the_baseline_lacks_is_said_to_be_missing() -> None:
    """A feature that the baseline lacks has COMPARATOR_CONTROL_DATA_MISSING.

    The same holds for a split. There is a baseline, but it has nothing to compare with.
    """
    limited = schema("type: BYTES drift_comparator { infinity_norm { threshold: 0.1 } }")
    now = {"train": statistics(["a"], pa.string())}
    for baseline in ({}, {"train": TableStatistics(1, {})}):
        found = find_anomalies(now, limited, baseline=baseline)
        assert [(row.type, row.what) for row in describe(found)] == [
            ("COMPARATOR_CONTROL_DATA_MISSING", "previous data missing")
        ]


def test_skew_is_measured_between_the_first_split_and_each_other() -> None:
    """Skew is reported for the other split; the first is training data."""
    limited = schema("type: BYTES skew_comparator { infinity_norm { threshold: 0.4 } }")
    splits = {"train": ["a", "b"], "eval": ["a"], "test": ["a", "b", "b"]}
    found = find_anomalies(
        {name: statistics(values, pa.string()) for name, values in splits.items()}, limited
    )
    assert [(row.split, row.type) for row in describe(found)] == [
        ("eval", "COMPARATOR_L_INFTY_HIGH")
    ]
    assert "between training and serving is 0.5" in found["eval"].reasons["x"][0].description
    protos = anomalies_to_proto(found, limited)
    assert not protos["train"].drift_skew_info
    [measured] = protos["test"].drift_skew_info[0].skew_measurements
    assert measured.type == MEASUREMENT.L_INFTY
    assert measured.value == pytest.approx(2 / 3 - 1 / 2)
