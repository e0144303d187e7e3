"""A decision table of anomalies, with TFDV's types and wording."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.analysis.anomalies import Row, anomalies_to_proto, describe, find_anomalies
from beam_pipelines.analysis.anomalies.find import serialized_path
from beam_pipelines.analysis.anomalies.policy import (
    Accepted,
    ValidationPolicy,
    check_environment,
    parse_allowed,
)
from beam_pipelines.analysis.anomalies.rules.reason import Info
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core.errors import RecipeError


def statistics_of(values: list[Any], kind: pa.DataType) -> dict[str, TableStatistics]:
    return {"train": TableStatistics.of(pa.record_batch({"x": pa.array(values, kind)}))}


def reasons(values: list[Any], kind: pa.DataType, feature: str) -> list[tuple[str, str, str]]:
    """Returns the reasons against column x: type, short and long description."""
    schema = text_format.Parse(f'feature {{ name: "x" {feature} }}', schema_pb2.Schema())
    found = find_anomalies(statistics_of(values, kind), schema)["train"].reasons.get("x", ())
    return [(anomalies_pb2.AnomalyInfo.Type.Name(r.type), r.short, r.description) for r in found]


NOT_FIXED = (
    "The feature has a shape, but it's not always present (if the feature is nested, then it "
    "should always be present at each nested level) or its value lengths vary."
)
FEWER = "The feature was present in fewer examples than expected"
UNEXPECTED = "ENUM_TYPE_UNEXPECTED_STRING_VALUES"
NO_TYPE = "unspecified type: determine the type and set it, rather than deprecating."
LISTS = pa.list_(pa.int64())
TEXT = pa.string()


@pytest.mark.parametrize(
    ("values", "kind", "feature", "expected"),
    [
        # type
        ([1], pa.int64(), "type: INT", []),
        ([datetime.date(2013, 1, 1)], pa.date32(), "type: INT", []),
        (["a"], TEXT, "type: BYTES", []),
        (["a"], TEXT, "type: INT", [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got STRING")]),
        ([b"a"], pa.binary(), "type: FLOAT",
         [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: FLOAT but got BYTES")]),
        ([1.0], pa.float64(), "type: INT int_domain { max: 0 }",
         [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got FLOAT")]),
        # presence
        ([1, 2], pa.int64(), "type: INT presence { min_count: 2 min_fraction: 1 }", []),
        ([1, None], pa.int64(), "type: INT presence { min_count: 1 min_fraction: 0.5 }", []),
        ([1, None], pa.int64(), "type: INT", []),
        ([None, None], pa.int64(), "type: INT", []),
        ([1, None], pa.int64(), "type: INT presence { min_fraction: 1 }",
         [("FEATURE_TYPE_LOW_FRACTION_PRESENT", "Column dropped", f"{FEWER}: minimum fraction = 1.000000, actual = 0.500000")]),
        ([1, None], pa.int64(), "type: INT presence { min_count: 2 }",
         [("FEATURE_TYPE_LOW_NUMBER_PRESENT", "Column dropped", f"{FEWER}: minimum count = 2, actual = 1")]),
        ([None], pa.int64(), "type: INT presence { min_count: 1 }",
         [("FEATURE_TYPE_NOT_PRESENT", "Column dropped", "The feature was not present in any examples.")]),
        # valency
        ([[1], [2, 3]], LISTS, "type: INT value_count { min: 1 max: 2 }", []),
        ([[], [2, 3]], LISTS, "type: INT value_count { min: 1 max: 2 }",
         [("FEATURE_TYPE_LOW_NUMBER_VALUES", "Missing values", "Some examples have fewer values than expected.")]),
        ([[1], [2, 3]], LISTS, "type: INT value_count { max: 1 }",
         [("FEATURE_TYPE_HIGH_NUMBER_VALUES", "Superfluous values", "Some examples have more values than expected.")]),
        ([[1, 2]], LISTS, "type: INT shape { dim { size: 2 } dim { size: 1 } }", []),
        ([[1, 2], [1]], LISTS, "type: INT shape { dim { size: 2 } }", [("INVALID_FEATURE_SHAPE", "Feature shape dropped", NOT_FIXED)]),
        ([1, None], pa.int64(), "type: INT shape { dim { size: 1 } }", [("INVALID_FEATURE_SHAPE", "Feature shape dropped", NOT_FIXED)]),
        ([[1, 2], [3, 4]], LISTS, "type: INT shape { dim { size: 3 } }",
         [("INVALID_FEATURE_SHAPE", "Feature shape dropped", "The feature has fixed value length 2 but it's not compatible with the specified shape.")]),
        ([[1]], LISTS, "type: INT value_counts { value_count { } value_count { } }",
         [("VALUE_NESTEDNESS_MISMATCH", "Mismatched value nest level", "The values have a different nest level than expected. Value counts will not be checked.")]),
        ([[1, 2]], LISTS, "type: INT value_counts { value_count { max: 1 } }",
         [("FEATURE_TYPE_HIGH_NUMBER_VALUES", "Superfluous values", "Some examples have more values than expected at nestedness level 0.")]),
        # int and float domains
        ([3, 5], pa.int64(), "type: INT int_domain { min: 3 max: 5 }", []),
        ([3, 5], pa.int64(), "type: INT int_domain { min: 4 max: 5 }",
         [("INT_TYPE_SMALL_INT", "Out-of-range values", "Unexpectedly small value: 3.")]),
        ([2**63 - 1], pa.int64(), f"type: INT int_domain {{ max: {2**63 - 2} }}",
         [("INT_TYPE_BIG_INT", "Out-of-range values", f"Unexpectedly large value: {2**63 - 1}.")]),
        (["12", " -7 "], TEXT, "type: BYTES int_domain { }", []),
        (["12", "n/a", "n/a", "x"], TEXT, "type: BYTES int_domain { }",
         [("INT_TYPE_NOT_INT_STRING", "Invalid values", 'String values that were not ints were found, such as "n/a".')]),
        ([0.5, -math.inf], pa.float64(), "type: FLOAT float_domain { min: 0 max: 0.25 }",
         [("FLOAT_TYPE_SMALL_FLOAT", "Out-of-range values", "Unexpectedly low values: -inf<0(upto six significant digits)"), ("FLOAT_TYPE_BIG_FLOAT", "Out-of-range values", "Unexpectedly high value: 0.5>0.25(upto six significant digits)")]),
        ([math.nan, math.inf], pa.float64(), "type: FLOAT float_domain { disallow_nan: true disallow_inf: true }",
         [("FLOAT_TYPE_HAS_NAN", "Invalid values", "Float feature has NaN values."), ("FLOAT_TYPE_HAS_INF", "Invalid values", "Float feature has Inf values.")]),
        ([0.1], pa.float64(), "type: FLOAT float_domain { min: 0.1 max: 0.1 }", []),
        # bounds are 32 bits wide
        (["5", "70"], TEXT, "type: BYTES int_domain { min: 5 max: 70 }", []),
        (["5", "700"], TEXT, "type: BYTES int_domain { min: 6 max: 70 }",
         [("INT_TYPE_SMALL_INT", "Out-of-range values", "Unexpectedly small value: 5."), ("INT_TYPE_BIG_INT", "Out-of-range values", "Unexpectedly large value: 700.")]),
        ([str(2**63 - 1)], TEXT, "type: BYTES int_domain { }", []),
        ([str(2**63)], TEXT, "type: BYTES int_domain { }",
         [("INT_TYPE_NOT_INT_STRING", "Invalid values", f'String values that were not ints were found, such as "{2**63}".')]),
        (["0.5", " -1e3 "], TEXT, "type: BYTES float_domain { }", []),
        (["0.5", "nan", "inf"], TEXT, "type: BYTES float_domain { max: 1 disallow_nan: true disallow_inf: true }",
         [("FLOAT_TYPE_HAS_NAN", "Invalid values", "Float feature has NaN values."), ("FLOAT_TYPE_BIG_FLOAT", "Out-of-range values", "Unexpectedly high value: inf>1(upto six significant digits)"), ("FLOAT_TYPE_HAS_INF", "Invalid values", "Float feature has Inf values.")]),
        (["1_0"], TEXT, "type: BYTES float_domain { }",
         [("FLOAT_TYPE_STRING_NOT_FLOAT", "Invalid values", 'String values that were not floats were found, such as "1_0".')]),
        ([b"a"], pa.binary(), "type: BYTES int_domain { }",
         [("DOMAIN_INVALID_FOR_TYPE", "Invalid domain type", ('Data is marked as BYTES with incompatible domain_info: name: "x" ' "type: BYTES int_domain { }"))]),
        # unique constraints
        (["a", "b"], TEXT, "type: BYTES unique_constraints { min: 2 max: 2 }", []),
        (["a", "b"], TEXT, "type: BYTES unique_constraints { min: 3 }",
         [("FEATURE_TYPE_LOW_UNIQUE", "Low number of unique values", "Expected at least 3 unique values but found only 2.")]),
        (["a", "b"], TEXT, "type: BYTES unique_constraints { max: 1 }",
         [("FEATURE_TYPE_HIGH_UNIQUE", "High number of unique values", "Expected no more than 1 unique values but found 2.")]),
        ([1.5], pa.float64(), "type: FLOAT unique_constraints { max: 1 }",
         [("FEATURE_TYPE_NO_UNIQUE", "No unique values", "UniqueConstraints specified for the feature, but unique values were not counted (i.e., feature is not string or categorical).")]),
        # the schema itself
        ([1], pa.int64(), "", [("FEATURE_MISSING_TYPE", NO_TYPE, NO_TYPE)]),
        ([1], pa.int64(), "type: INT presence { min_fraction: 1.5 }",
         [("INVALID_SCHEMA_SPECIFICATION", "min_fraction should not greater than 1", "min_fraction should not greater than 1")]),
        ([1], pa.int64(), "type: INT value_count { min: 1 max: 0 }",
         [("INVALID_SCHEMA_SPECIFICATION", "ValueCount.max should not be less than min", "ValueCount.max should not be less than min")]),
        (["a"], TEXT, 'type: BYTES domain: "absent"',
         [("INVALID_DOMAIN_SPECIFICATION", "missing domain: absent", "missing domain: absent")]),
        ([1], pa.int64(), "type: INT float_domain { }",
         [("DOMAIN_INVALID_FOR_TYPE", "The domain does not match the type", 'The domain "float_domain" does not match the type: INT')]),
        ([1], pa.int64(), "type: INT int_domain { } distribution_constraints { min_domain_mass: 0.9 }",
         [("INVALID_SCHEMA_SPECIFICATION", "distribution constraints not supported for int domains.", "distribution constraints not supported for int domains.")]),
        (["a"], TEXT, 'type: BYTES string_domain { value: "a" value: "a" }',
         [("INVALID_DOMAIN_SPECIFICATION", "Malformed StringDomain", "Repeated values in StringDomain:a")]),
        # bool domains
        ([0, 1], pa.int64(), "type: INT bool_domain { }", []),
        ([0, 2], pa.int64(), "type: INT bool_domain { }",
         [("BOOL_TYPE_BIG_INT", "Non-boolean values", "Integers (such as 2) not in {0, 1}: converting to an integer.")]),
        ([-4, 2], pa.int64(), "type: INT bool_domain { }",
         [("BOOL_TYPE_SMALL_INT", "Non-boolean values", "Integers (such as -4) not in {0, 1}: converting to an integer.")]),
        ([0.5], pa.float64(), "type: FLOAT bool_domain { }",
         [("BOOL_TYPE_UNEXPECTED_FLOAT", "Non-boolean values", "Floats (such as 0.5) not in {0, 1}: converting to float_domain.")]),
        ([0.0, 1.0], pa.float64(), "type: FLOAT bool_domain { }", []),
        ([0.0, 0.5, 1.0], pa.float64(), "type: FLOAT bool_domain { }",
         [("BOOL_TYPE_UNEXPECTED_FLOAT", "Non-boolean values", "Float values falling between 0 and 1: converting to float_domain.")]),
        ([0.0, math.nan], pa.float64(), "type: FLOAT bool_domain { }",
         [("BOOL_TYPE_UNEXPECTED_FLOAT", "Non-boolean values", "Floats (such as NaN) not in {0, 1}: converting to float_domain.")]),
        (["y"], TEXT, 'type: BYTES bool_domain { true_value: "y" false_value: "n" }', []),
        (["y", "maybe"], TEXT, 'type: BYTES bool_domain { true_value: "y" false_value: "n" }',
         [("BOOL_TYPE_UNEXPECTED_STRING", "Non-boolean values", 'Saw unexpected value "maybe" instead of {"n", "y"}.')]),
        # string domains
        (["a", "b"], TEXT, 'type: BYTES string_domain { value: "a" value: "b" value: "c" }', []),
        (["a"] * 180 + ["b"] + ["c"] * 19, TEXT, 'type: BYTES string_domain { value: "a" }',
         [("ENUM_TYPE_UNEXPECTED_STRING_VALUES", "Unexpected string values", "Examples contain values missing from the schema: c (~9%), b (<1%). ")]),
        (["a", "a", "a", "b"], TEXT, ('type: BYTES string_domain { value: "a" } distribution_constraints { ' "min_domain_mass: 0.75 }"),
         []),
        # retired features are not checked
        (["a"], TEXT, "type: INT deprecated: true", []),
        (["a"], TEXT, "type: INT lifecycle_stage: PLANNED", []),
        (["a"], TEXT, "type: INT lifecycle_stage: PRODUCTION",
         [("UNEXPECTED_DATA_TYPE", "Unexpected data type", "Expected data of type: INT but got STRING")]),
    ],
)  # fmt: skip
def test_decision_table(values, kind, feature, expected):
    """One row per kind of anomaly, and one just inside its bound."""
    assert reasons(values, kind, feature) == expected


def test_named_domains_are_looked_up() -> None:
    """``domain: "d"`` means the schema's string domain of that name."""
    schema = text_format.Parse(
        'feature { name: "x" type: BYTES domain: "d" } string_domain { name: "d" value: "a" }',
        schema_pb2.Schema(),
    )
    found = find_anomalies(statistics_of(["a", "b"], pa.string()), schema)
    assert describe(found) == [
        Row(
            "train",
            "x",
            "Unexpected string values",
            "one of 1 values",
            "b (~50%)",
            "ERROR",
            UNEXPECTED,
        )
    ]


def test_many_unexpected_values_are_counted() -> None:
    """The 20 most frequent unexpected texts are named, the others counted."""
    [(_, _, description)] = reasons(
        [f"v{i:02}" for i in range(50)], TEXT, "type: BYTES string_domain { }"
    )
    assert description.count("(~2%)") == 20
    assert "and 30 more" in description


def test_missing_and_new_columns() -> None:
    """A missing required feature and a new column are anomalies."""
    schema = text_format.Parse(
        'feature { name: "gone" type: INT presence { min_count: 1 } } feature { name: "optional" '
        "type: INT }",
        schema_pb2.Schema(),
    )
    found = find_anomalies(statistics_of([1], pa.int64()), schema)
    assert describe(found) == [
        Row(
            "train", "gone", "Column dropped", "a column", "none", "ERROR", "SCHEMA_MISSING_COLUMN"
        ),
        Row("train", "x", "New column", "no such column", "a column", "ERROR", "SCHEMA_NEW_COLUMN"),
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
    """TFDV keeps one entry a feature with all its reasons.

    The reasons are joined, and each stays listed.
    """
    schema = text_format.Parse(
        'feature { name: "x" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }',
        schema_pb2.Schema(),
    )
    found = find_anomalies(statistics_of([5, None], pa.int64()), schema)
    info = anomalies_to_proto(found, schema)["train"].anomaly_info["x"]
    assert info.short_description == "Multiple errors"
    assert len(info.reason) == 2
    assert "actual = 0.500000" in info.description
    assert "large value: 5" in info.description


def test_a_split_without_rows_is_data_missing() -> None:
    """An empty split has no anomalies of features.

    Its proto says that data is missing.
    """
    schema = text_format.Parse(
        'feature { name: "x" type: INT presence { min_count: 1 } }', schema_pb2.Schema()
    )
    found = find_anomalies(statistics_of([], pa.int64()), schema)
    assert describe(found) == []
    assert anomalies_to_proto(found, schema)["train"].data_missing


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def kinds(found: Any) -> list[tuple[str, str, str, str]]:
    """Split, feature, type and severity of every anomaly."""
    return [(row.split, row.feature, row.type, row.severity) for row in describe(found)]


@pytest.mark.parametrize(
    ("feature", "environment", "expected"),
    [
        ("", None, ["SCHEMA_MISSING_COLUMN"]),
        ("", "TRAINING", ["SCHEMA_MISSING_COLUMN"]),
        ('not_in_environment: "SERVING"', "SERVING", []),
        ('not_in_environment: "SERVING"', "TRAINING", ["SCHEMA_MISSING_COLUMN"]),
        ('in_environment: "EXTRA"', "EXTRA", ["SCHEMA_MISSING_COLUMN"]),
        ("", "EXTRA", []),
    ],
)
def test_environments_decide_what_is_required(feature, environment, expected):
    """A feature outside the environment may be absent."""
    schema = parsed(
        'default_environment: "TRAINING" default_environment: "SERVING" feature { name: "x" type: '
        'INT in_environment: "EXTRA" } '
        f'feature {{ name: "label" type: INT presence {{ min_count: 1 }} {feature} }}'
    )
    found = find_anomalies(
        statistics_of([1], pa.int64()), schema, ValidationPolicy(environment=environment)
    )
    assert [row.type for row in describe(found)] == expected


def test_a_column_outside_of_its_environment_is_new() -> None:
    """A column whose feature is not in the environment is an anomaly."""
    schema = parsed(
        'default_environment: "SERVING" feature { name: "x" type: INT not_in_environment: '
        '"SERVING" }'
    )
    found = find_anomalies(
        statistics_of([1], pa.int64()), schema, ValidationPolicy(environment="SERVING")
    )
    [reason] = found["train"].reasons["x"]
    assert (reason.type, reason.short) == (Info.SCHEMA_NEW_COLUMN, "Column missing in environment")
    assert (
        reason.description
        == "New column x found in data but not in the environment SERVING in the schema."
    )


def test_unknown_environments_are_refused() -> None:
    """An environment that the schema does not name is an error."""
    schema = parsed(
        'default_environment: "TRAINING" feature { name: "x" not_in_environment: "SERVING" }'
    )
    check_environment("SERVING", schema, "s.pbtxt")
    with pytest.raises(
        RecipeError, match=r"s\.pbtxt does not name, expected one of TRAINING, SERVING.*'SERVING'"
    ):
        check_environment("SERVNG", schema, "s.pbtxt")


@pytest.mark.parametrize(
    ("constraints", "rows", "previous", "expected"),
    [
        ("min_examples_count: 3", 3, None, []),
        ("min_examples_count: 4", 3, None, [("DATASET_LOW_NUM_EXAMPLES", "The dataset has 3 examples, which is fewer than expected.")]),
        ("max_examples_count: 2", 3, None, [("DATASET_HIGH_NUM_EXAMPLES", "The dataset has 3 examples, which is more than expected.")]),
        ("min_examples_count: 1", 0, None, [("DATASET_LOW_NUM_EXAMPLES", "The dataset has 0 examples, which is fewer than expected.")]),
        ("num_examples_drift_comparator { min_fraction_threshold: 0.5 max_fraction_threshold: 2 }", 4, 2, []),
        ("num_examples_drift_comparator { min_fraction_threshold: 0.5 }", 4, None, []),
        ("num_examples_drift_comparator { max_fraction_threshold: 2 }", 5, 2,
         [("COMPARATOR_HIGH_NUM_EXAMPLES", "The ratio of num examples in the current dataset versus the previous span is 2.5 (up to six significant digits), which is above the threshold 2.")]),
        ("num_examples_drift_comparator { min_fraction_threshold: 0.5 }", 1, 3,
         [("COMPARATOR_LOW_NUM_EXAMPLES", "The ratio of num examples in the current dataset versus the previous span is 0.333333 (up to six significant digits), which is below the threshold 0.5.")]),
        ("num_examples_drift_comparator { max_fraction_threshold: 2 }", 1, 0,
         [("COMPARATOR_HIGH_NUM_EXAMPLES", "The previous span has 0 examples, so there is a high number of examples in current dataset versus the previous span.")]),
    ],
)  # fmt: skip
def test_dataset_sizes(constraints, rows, previous, expected):
    """Too few, too many and much changed rows are a split's anomalies."""
    schema = parsed(f'feature {{ name: "x" type: INT }} dataset_constraints {{ {constraints} }}')
    before, now = (statistics_of([1] * (n or 0), pa.int64()) for n in (previous, rows))
    baseline = None if previous is None else before
    found = find_anomalies(now, schema, baseline=baseline)["train"]
    assert [
        (Info.Type.Name(reason.type), reason.description) for reason in found.dataset
    ] == expected
    proto = anomalies_to_proto({"train": found}, schema)["train"]
    assert proto.HasField("dataset_anomaly_info") == bool(expected)


def test_accepted_anomalies_are_warnings() -> None:
    """An accepted anomaly stays recorded and is no error."""
    schema = parsed(
        'feature { name: "x" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }'
    )
    statistics = statistics_of([5, None], pa.int64())
    allowed = parse_allowed(["x:INT_TYPE_BIG_INT"], ["x"])
    found = find_anomalies(statistics, schema, ValidationPolicy(accepted=allowed))
    assert {(row.type, row.severity) for row in describe(found)} == {
        ("INT_TYPE_BIG_INT", "WARNING"),
        ("FEATURE_TYPE_LOW_FRACTION_PRESENT", "ERROR"),
    }
    assert found["train"].has_errors
    assert anomalies_to_proto(found, schema)["train"].anomaly_info["x"].severity == Info.ERROR
    more = (*allowed, Accepted(Info.FEATURE_TYPE_LOW_FRACTION_PRESENT, None))
    found = find_anomalies(statistics, schema, ValidationPolicy(accepted=more))
    assert not found["train"].has_errors
    info = anomalies_to_proto(found, schema)["train"].anomaly_info["x"]
    assert info.severity == Info.WARNING
    assert len(info.reason) == 2


def test_names_of_accepted_anomalies_are_checked() -> None:
    """An unknown type or feature is an error with the nearest name."""
    assert parse_allowed([" schema_new_column", " a:b:INT_TYPE_BIG_INT ", ""], ["a:b"]) == (
        (Info.SCHEMA_NEW_COLUMN, None),
        (Info.INT_TYPE_BIG_INT, "a:b"),
    )
    with pytest.raises(RecipeError) as error:
        parse_allowed(["SCHEMA_NEW_COLUM", "carier:INT_TYPE_BIG_INT"], ["carrier"])
    first, second = str(error.value).split("\n")
    assert "Did you mean 'SCHEMA_NEW_COLUMN'?" in first
    assert "Did you mean 'carrier'?" in second


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("a", "b"), "a.b"),
        (("a.b",), "'a.b'"),
        (("it's", "(x.y)"), "'it''s'.(x.y)"),
        (("(a)b",), "'(a)b'"),
        (("",), "''"),
    ],
)
def test_names_with_dots_are_quoted(path: tuple[str, ...], expected: str) -> None:
    """A path is written as TFDV writes it."""
    assert serialized_path(path) == expected
