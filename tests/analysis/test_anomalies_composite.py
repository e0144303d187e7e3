"""Tests of the rules for sparse and weighted features.

The statistics are those that TFDV writes.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe, find_anomalies
from tests.analysis.test_anomalies import statistics_of

SPARSE = """
    sparse_feature {
      name: "s"
      value_feature { name: "value" } index_feature { name: "i1" } index_feature { name: "i2" }
    }
"""
WEIGHTED = """
    weighted_feature { name: "s" feature { step: "value" } weight_feature { step: "weight" } }
"""


def found(schema: str, custom: str) -> list[tuple[str, str, str]]:
    """Returns type and both descriptions of each reason of the feature ``s``.

    The short description comes before the long one.
    """
    statistics = text_format.Parse(
        f"num_examples: 9 features {{ path {{ step: 's' }} {custom} }}",
        statistics_pb2.DatasetFeatureStatistics(),
    )
    parsed = text_format.Parse(schema, schema_pb2.Schema())
    anomalies = find_anomalies({"train": statistics}, parsed)
    proto = anomalies_to_proto(anomalies, parsed)["train"]
    assert set(proto.anomaly_info) <= {"s"}
    return [
        (
            anomalies_pb2.AnomalyInfo.Type.Name(reason.type),
            reason.short_description,
            reason.description,
        )
        for reason in proto.anomaly_info["s"].reason
    ]


def counts(name: str, **labels: int) -> str:
    """Returns a custom statistic with a number for each column."""
    buckets = " ".join(
        f"buckets {{ label: '{label}' sample_count: {count} }}" for label, count in labels.items()
    )
    return f"custom_stats {{ name: '{name}' rank_histogram {{ {buckets} }} }}"


def number(name: str, value: int) -> str:
    """Returns a custom statistic that is a number."""
    return f"custom_stats {{ name: '{name}' num: {value} }}"


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        (number("missing_value", 3), [("MISSING_VALUE", "Missing value feature", "Found 3 examples missing value feature")]),
        (counts("missing_index", i1=0, i2=2), [("MISSING_INDEX", "Missing index feature", "Found 2 examples missing index feature: i2")]),
        (counts("max_length_diff", i1=1, i2=0) + counts("min_length_diff", i1=0, i2=-2),
         [("LENGTH_MISMATCH", "Length mismatch between value and index feature", f"Mismatch between index feature: {column} and value column, with {difference}") for column, difference in (("i1", "max_length_diff = 1"), ("i2", "min_length_diff = -2"))]),
        (number("missing_value", 0) + counts("missing_index", i1=0) + number("other", 7), []),
    ],
)  # fmt: skip
def test_sparse_features(custom: str, expected: list[tuple[str, str, str]]) -> None:
    """Missing columns and other lengths are anomalies, in TFDV's words."""
    wanted = [(f"SPARSE_FEATURE_{type_}", *texts) for type_, *texts in expected]
    assert found(SPARSE, custom) == wanted
    assert found(SPARSE.replace('name: "s"', 'name: "s" lifecycle_stage: ALPHA'), custom) == []


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        (number("missing_value", 2) + number("missing_weight", 1),
         [("MISSING_VALUE", "Missing value feature", "Found 2 examples missing value feature."), ("MISSING_WEIGHT", "Missing weight feature", "Found 1 examples missing weight feature.")]),
        (number("min_weight_length_diff", -3) + number("max_weight_length_diff", 4),
         [("LENGTH_MISMATCH", "Length mismatch between value and weight feature", "Mismatch between weight and value feature with min_weight_length_diff = -3 and max_weight_length_diff = 4.")]),
        (number("missing_value", 0), []),
    ],
)  # fmt: skip
def test_weighted_features(custom: str, expected: list[tuple[str, str, str]]) -> None:
    """Missing values, missing weights and other lengths are anomalies, in TFDV's words."""
    wanted = [(f"WEIGHTED_FEATURE_{type_}", *texts) for type_, *texts in expected]
    assert found(WEIGHTED, custom) == wanted


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ('feature { name: "s" type: INT }' + SPARSE, "SPARSE"),
        ('feature { name: "s" type: INT }' + WEIGHTED, "WEIGHTED"),
        (SPARSE + WEIGHTED, "WEIGHTED"),
    ],
)
def test_two_features_of_one_name(schema: str, kind: str) -> None:
    """Two features of one name are an anomaly.

    The feature is not checked for anything else.
    """
    short = f"{kind.capitalize()} feature name collision"
    wanted = [(f"{kind}_FEATURE_NAME_COLLISION", short, f"{short}.")]
    assert found(schema, number("missing_value", 3)) == wanted


def test_a_column_with_the_name_of_a_sparse_feature() -> None:
    """A column with the name of a sparse feature is an anomaly.

    Our own statistics show it, although they have columns only.
    """
    schema = text_format.Parse('feature { name: "x" type: INT }', schema_pb2.Schema())
    schema.sparse_feature.add(name="x")
    rows = describe(find_anomalies(statistics_of([1, 2], pa.int64()), schema))
    assert [row.type for row in rows] == ["SPARSE_FEATURE_NAME_COLLISION"]
