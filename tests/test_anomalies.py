"""A decision table of anomalies, with TFDV's types and wording."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.anomalies import Row, anomalies_to_proto, describe, find_anomalies
from beam_pipelines.statistics import TableStatistics


def statistics_of(values: list[Any], kind: pa.DataType) -> dict[str, TableStatistics]:
    return {"train": TableStatistics.of(pa.record_batch({"x": pa.array(values, kind)}))}


def reasons(values: list[Any], kind: pa.DataType, feature: str) -> list[tuple[str, str, str]]:
    """What is wrong with column x by a schema of one feature: type, short and long description."""
    schema = text_format.Parse(f'feature {{ name: "x" {feature} }}', schema_pb2.Schema())
    found = find_anomalies(statistics_of(values, kind), schema)["train"].reasons.get("x", ())
    return [(anomalies_pb2.AnomalyInfo.Type.Name(r.type), r.short, r.description) for r in found]


FEWER = "The feature was present in fewer examples than expected"
LISTS = pa.list_(pa.int64())
TEXT = pa.string()


@pytest.mark.parametrize(
    ("values", "kind", "feature", "expected"),
    [
        # type
        ([1], pa.int64(), "type: INT", []),
        ([datetime.date(2013, 1, 1)], pa.date32(), "type: INT", []),
        (["a"], TEXT, "type: BYTES", []),
        (
            ["a"],
            TEXT,
            "type: INT",
            [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got STRING")],
        ),
        (
            [b"a"],
            pa.binary(),
            "type: FLOAT",
            [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: FLOAT but got BYTES")],
        ),
        (
            [1.0],
            pa.float64(),
            "type: INT int_domain { max: 0 }",
            [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got FLOAT")],
        ),
        # presence
        ([1, 2], pa.int64(), "type: INT presence { min_count: 2 min_fraction: 1 }", []),
        ([1, None], pa.int64(), "type: INT presence { min_count: 1 min_fraction: 0.5 }", []),
        ([1, None], pa.int64(), "type: INT", []),
        ([None, None], pa.int64(), "type: INT", []),
        (
            [1, None],
            pa.int64(),
            "type: INT presence { min_fraction: 1 }",
            [
                (
                    "FEATURE_TYPE_LOW_FRACTION_PRESENT",
                    "Column dropped",
                    f"{FEWER}: minimum fraction = 1.000000, actual = 0.500000.",
                )
            ],
        ),
        (
            [1, None],
            pa.int64(),
            "type: INT presence { min_count: 2 }",
            [("FEATURE_TYPE_LOW_NUMBER_PRESENT", "Column dropped", f"{FEWER}: minimum = 2, actual = 1.")],
        ),
        (
            [None],
            pa.int64(),
            "type: INT presence { min_count: 1 }",
            [("FEATURE_TYPE_NOT_PRESENT", "Column dropped", "The feature was not present in any examples.")],
        ),
        # valency
        ([[1], [2, 3]], LISTS, "type: INT value_count { min: 1 max: 2 }", []),
        (
            [[], [2, 3]],
            LISTS,
            "type: INT value_count { min: 1 max: 2 }",
            [("FEATURE_TYPE_LOW_NUMBER_VALUES", "Missing values", "Some examples have fewer values than expected.")],
        ),
        (
            [[1], [2, 3]],
            LISTS,
            "type: INT value_count { max: 1 }",
            [
                (
                    "FEATURE_TYPE_HIGH_NUMBER_VALUES",
                    "Superfluous values",
                    "Some examples have more values than expected.",
                )
            ],
        ),
        ([[1, 2]], LISTS, "type: INT shape { dim { size: 2 } dim { size: 1 } }", []),
        (
            [[1, 2], [1]],
            LISTS,
            "type: INT shape { dim { size: 2 } }",
            [
                (
                    "INVALID_FEATURE_SHAPE",
                    "Invalid feature shape",
                    "The feature has a shape of 2 values, but 1 to 2 values in an example.",
                )
            ],
        ),
        # int and float domains
        ([3, 5], pa.int64(), "type: INT int_domain { min: 3 max: 5 }", []),
        (
            [3, 5],
            pa.int64(),
            "type: INT int_domain { min: 4 max: 5 }",
            [("INT_TYPE_SMALL_INT", "Out-of-range values", "Unexpectedly small value: 3.")],
        ),
        (
            [2**63 - 1],
            pa.int64(),
            f"type: INT int_domain {{ max: {2**63 - 2} }}",
            [("INT_TYPE_BIG_INT", "Out-of-range values", f"Unexpectedly large value: {2**63 - 1}.")],
        ),
        (["12", " -7 "], TEXT, "type: BYTES int_domain { }", []),
        (
            ["12", "n/a", "n/a", "x"],
            TEXT,
            "type: BYTES int_domain { }",
            [
                (
                    "INT_TYPE_NOT_INT_STRING",
                    "Invalid values",
                    'String values that were not ints were found, such as "n/a".',
                )
            ],
        ),
        (
            [0.5, -math.inf],
            pa.float64(),
            "type: FLOAT float_domain { min: 0 max: 0.25 }",
            [
                ("FLOAT_TYPE_SMALL_FLOAT", "Out-of-range values", "Unexpectedly low values: -inf<0"),
                ("FLOAT_TYPE_BIG_FLOAT", "Out-of-range values", "Unexpectedly high value: 0.5>0.25"),
            ],
        ),
        (
            [math.nan, math.inf],
            pa.float64(),
            "type: FLOAT float_domain { disallow_nan: true disallow_inf: true }",
            [
                ("FLOAT_TYPE_HAS_NAN", "Invalid values", "Float feature has NaN values (1)."),
                ("FLOAT_TYPE_HAS_INF", "Invalid values", "Float feature has Inf or -Inf values (1)."),
            ],
        ),
        # bool domains
        ([0, 1], pa.int64(), "type: INT bool_domain { }", []),
        (
            [0, 2],
            pa.int64(),
            "type: INT bool_domain { }",
            [("BOOL_TYPE_BIG_INT", "Non-boolean values", "Integers (such as 2) not in {0, 1}.")],
        ),
        (
            [-4, 2],
            pa.int64(),
            "type: INT bool_domain { }",
            [("BOOL_TYPE_SMALL_INT", "Non-boolean values", "Integers (such as -4) not in {0, 1}.")],
        ),
        (
            [0.5],
            pa.float64(),
            "type: FLOAT bool_domain { }",
            [("BOOL_TYPE_UNEXPECTED_FLOAT", "Non-boolean values", "Floats (such as 0.5) not in {0, 1}.")],
        ),
        (["y"], TEXT, 'type: BYTES bool_domain { true_value: "y" false_value: "n" }', []),
        (
            ["y", "maybe"],
            TEXT,
            'type: BYTES bool_domain { true_value: "y" false_value: "n" }',
            [
                (
                    "BOOL_TYPE_UNEXPECTED_STRING",
                    "Non-boolean values",
                    'Saw unexpected value "maybe" instead of {"n", "y"}.',
                )
            ],
        ),
        # string domains
        (["a", "b"], TEXT, 'type: BYTES string_domain { value: "a" value: "b" value: "c" }', []),
        (
            ["a"] * 180 + ["b"] + ["c"] * 19,
            TEXT,
            'type: BYTES string_domain { value: "a" }',
            [
                (
                    "ENUM_TYPE_UNEXPECTED_STRING_VALUES",
                    "Unexpected string values",
                    "Examples contain values missing from the schema: c (~9%), b (<1%). ",
                )
            ],
        ),
        (
            ["a", "a", "a", "b"],
            TEXT,
            'type: BYTES string_domain { value: "a" } distribution_constraints { min_domain_mass: 0.75 }',
            [],
        ),
        # retired features are not checked
        (["a"], TEXT, "type: INT deprecated: true", []),
        (["a"], TEXT, "type: INT lifecycle_stage: PLANNED", []),
        (
            ["a"],
            TEXT,
            "type: INT lifecycle_stage: PRODUCTION",
            [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got STRING")],
        ),
    ],
)
def test_decision_table(
    values: list[Any], kind: pa.DataType, feature: str, expected: list[tuple[str, str, str]]
) -> None:
    """One row per kind of anomaly, and one just inside its bound."""
    assert reasons(values, kind, feature) == expected


def test_named_domains_are_looked_up() -> None:
    """``domain: "d"`` means the schema's string domain of that name."""
    schema = text_format.Parse(
        'feature { name: "x" type: BYTES domain: "d" } string_domain { name: "d" value: "a" }', schema_pb2.Schema()
    )
    found = find_anomalies(statistics_of(["a", "b"], pa.string()), schema)
    assert describe(found) == [Row("train", "x", "Unexpected string values", "one of 1 values", "b (~50%)")]


def test_many_unexpected_values_are_counted() -> None:
    """Of many unexpected texts the most frequent 20 are named, the others counted."""
    [(_, _, description)] = reasons([f"v{i:02}" for i in range(50)], TEXT, "type: BYTES string_domain { }")
    assert description.count("(~2%)") == 20
    assert "and 30 more" in description


def test_missing_and_new_columns() -> None:
    """A required feature without a column, and a column without a feature; an optional one may be missing."""
    schema = text_format.Parse(
        'feature { name: "gone" type: INT presence { min_count: 1 } } feature { name: "optional" type: INT }',
        schema_pb2.Schema(),
    )
    found = find_anomalies(statistics_of([1], pa.int64()), schema)
    assert describe(found) == [
        Row("train", "gone", "Column dropped", "a column", "none"),
        Row("train", "x", "New column", "no such feature", "a column"),
    ]
    proto = anomalies_to_proto(found, schema)["train"]
    kinds = {name: info.reason[0].type for name, info in proto.anomaly_info.items()}
    assert kinds == {
        "gone": anomalies_pb2.AnomalyInfo.SCHEMA_MISSING_COLUMN,
        "x": anomalies_pb2.AnomalyInfo.SCHEMA_NEW_COLUMN,
    }
    assert proto.anomaly_info["gone"].description == "Column is completely missing"
    assert proto.anomaly_info["x"].description == "New column (column in data but not in schema)"
    assert proto.anomaly_info["x"].severity == anomalies_pb2.AnomalyInfo.ERROR
    assert list(proto.anomaly_info["x"].path.step) == ["x"]
    assert proto.baseline == schema


def test_several_reasons_are_one_entry() -> None:
    """TFDV keeps one entry a feature: several reasons are joined, and each stays listed."""
    schema = text_format.Parse(
        'feature { name: "x" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }', schema_pb2.Schema()
    )
    found = find_anomalies(statistics_of([5, None], pa.int64()), schema)
    info = anomalies_to_proto(found, schema)["train"].anomaly_info["x"]
    assert info.short_description == "Multiple errors"
    assert len(info.reason) == 2
    assert "actual = 0.500000" in info.description
    assert "large value: 5" in info.description


def test_a_split_without_rows_is_data_missing() -> None:
    """An empty split has no anomalies of features; its proto says that data is missing."""
    schema = text_format.Parse('feature { name: "x" type: INT presence { min_count: 1 } }', schema_pb2.Schema())
    found = find_anomalies(statistics_of([], pa.int64()), schema)
    assert describe(found) == []
    assert anomalies_to_proto(found, schema)["train"].data_missing
