"""Conditions in SQL on statistics, with the cases of TFDV's own test."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe, find_anomalies
from beam_pipelines.analysis.anomalies.policy import (
    ValidationConfig,
    ValidationPolicy,
    read_validation_config,
)
from beam_pipelines.analysis.anomalies.rules.custom import FEATURE_TYPE, parse_validation, to_struct
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.sql.database import ExpressionError

Info = anomalies_pb2.AnomalyInfo
SCHEMA = text_format.Parse(
    'default_environment: "TRAINING" feature { name: "x" type: INT } feature { name: "c" type: BYTES }',
    schema_pb2.Schema(),
)
TABLE = TableStatistics.of(
    pa.RecordBatch.from_pydict({"x": [0, 0, 0, 0, 0, 25], "c": ["a", "a", "a", "b", "b", "b"]}),
    StatisticsPlan(slice_by=("c",)),
)
ZEROS = (
    "validations { sql_expression: 'feature.num_stats.num_zeros < 3' severity: ERROR "
    "description: 'Feature has too many zeros.' }"
)
MAX = (
    "validations {{ sql_expression: 'feature.num_stats.max > {}' severity: ERROR "
    "description: 'Maximum value is too low.' {} }}"
)
OTHER, TRAINING = ("in_environment: 'OTHER'", "in_environment: 'TRAINING'")
X = "feature_path { step: 'x' }"


def config(folder: Path, text: str) -> ValidationConfig:
    path = folder / "config.pbtxt"
    path.write_text(text)
    read = read_validation_config(str(path), ["x", "c"])
    return pickle.loads(pickle.dumps(read))  # noqa: S301 - a policy goes to workers


def reasons(
    folder: Path, text: str, environment: str | None = None, **policy: Mapping[str, TableStatistics]
) -> list[tuple[str, str]]:
    """Returns each reason's short description and text after TFDV's first words."""
    read = config(folder, text)
    made = ValidationPolicy(
        environment, overrides=read.overrides, validations=read.validations, **policy
    )
    found = find_anomalies({"train": TABLE}, SCHEMA, made)
    assert {row.type for row in describe(found)} <= {"CUSTOM_VALIDATION"}
    info = anomalies_to_proto(found, SCHEMA)["train"].anomaly_info.get("x")
    start = "Custom validation triggered anomaly. Query: "
    return (
        []
        if info is None
        else [
            (reason.short_description, reason.description.removeprefix(start))
            for reason in info.reason
        ]
    )


TOO_MANY = (
    "Feature has too many zeros.",
    "feature.num_stats.num_zeros < 3 Test dataset: default slice",
)


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        pytest.param(f"feature_validations {{ {X} {ZEROS} {MAX.format(10, '')} }}", None, [TOO_MANY], id="default slice"),
        pytest.param(
            f"feature_validations {{ dataset_name: 'c_a' {X} {MAX.format(10, '')} }}",
            None,
            [
                (
                    "Maximum value is too low.",
                    "feature.num_stats.max > 10 Test dataset: c_a",
                )
            ],
            id="slice",
        ),
        pytest.param(
            f"feature_validations {{ {X} {ZEROS} {MAX.format(100, '')} }}",
            None,
            [
                TOO_MANY,
                (
                    "Maximum value is too low.",
                    "feature.num_stats.max > 100 Test dataset: default slice",
                ),
            ],
            id="two reasons",
        ),
        pytest.param(
            f"feature_validations {{ {X} {ZEROS} }} "
            f"feature_validations {{ {X} {MAX.format(100, OTHER)} }}",
            "TRAINING",
            [TOO_MANY],
            id="another environment",
        ),
        pytest.param(f"feature_validations {{ {X} {MAX.format(100, OTHER)} }}", None, [], id="no environment"),
        pytest.param(
            f"feature_validations {{ {X} {MAX.format(100, TRAINING)} }}",
            "TRAINING",
            [
                (
                    "Maximum value is too low.",
                    "feature.num_stats.max > 100 Test dataset: default slice",
                )
            ],
            id="this environment",
        ),
    ],
)  # fmt: skip
def test_a_false_condition_is_an_anomaly(tmp_path, text, environment, expected):
    """Type, path and wording are TFDV's."""
    assert reasons(tmp_path, text, environment) == expected


def test_pairs_compare_with_the_baseline(tmp_path: Path) -> None:
    """``feature_base`` is of the same split of the baseline."""
    sql = "feature_test.num_stats.num_zeros {} feature_base.num_stats.num_zeros"
    validations = "".join(
        f"validations {{ sql_expression: '{sql.format(sign)}' severity: ERROR "
        f"description: '{sign}' }}"
        for sign in ("<", ">")
    )
    slice_ = "All Examples"
    text = (
        f"feature_pair_validations {{ base_dataset_name: '{slice_}' feature_test_path "
        f"{{ step: 'x' }} feature_base_path {{ step: 'x' }} {validations} }}"
    )
    before = TableStatistics.of(pa.RecordBatch.from_pydict({"x": [0, 1]}))
    base = to_proto({"train": before})["train"].datasets[0]
    assert reasons(tmp_path, text, baseline={"train": base}) == [
        ("<", f"{sql.format('<')} Test dataset: default slice Base dataset: {slice_} Base path: x")
    ]
    with pytest.raises(DataError, match="found no dataset 'All Examples' in the statistics of"):
        reasons(tmp_path, text, baseline={"eval": base})


def test_severity(tmp_path: Path) -> None:
    """A condition has its own severity; an override changes it."""
    text = f"feature_validations {{ {X} {ZEROS.replace('ERROR', 'WARNING')} }}"
    for more, expected in (
        ("", "WARNING"),
        ("severity_overrides { type: CUSTOM_VALIDATION severity: ERROR }", "ERROR"),
    ):
        read = config(tmp_path, text + more)
        policy = ValidationPolicy(overrides=read.overrides, validations=read.validations)
        [row] = describe(find_anomalies({"train": TABLE}, SCHEMA, policy))
        assert row.severity == expected


@pytest.mark.parametrize(
    "sql",
    [
        "feature.type = 'INT'",
        "feature.num_stats.common_stats.num_missing = 0",
        "feature.num_stats.mean BETWEEN 4 AND 5 AND NOT feature.num_stats.max IS NULL",
        "feature.string_stats IS NULL",
        "COALESCE(feature.string_stats.unique > 3, true)",
        "len(feature.num_stats.histograms) = 2",
        "feature.path.step[1] = 'x'",
        "len(list_filter(feature.num_stats.histograms, lambda h: h.type = 'QUANTILES')) = 1",
        "Feature.NUM_STATS.num_zeros / feature.num_stats.common_stats.tot_num_values > 0.8",
    ],
)
def test_expressions(tmp_path: Path, sql: str) -> None:
    """DuckDB's expressions see all fields of the proto, lists too."""
    text = (
        f'feature_validations {{ {X} validations {{ sql_expression: "{sql}" severity: ERROR '
        "description: 'd' } }"
    )
    assert reasons(tmp_path, text) == []
    inverse = text.replace(sql, f"NOT ({sql})")
    assert [short for short, _ in reasons(tmp_path, inverse)] == ["d"]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("feature.num_stats.zeros < 3", "zeros"),
        ("feature.num_stats.num_zeros", "found a value of type int64, expected true or false"),
        ("num_stats.num_zeros < 3", "found column 'num_stats.num_zeros', which is not there"),
        ("feature_test.num_stats.max > 1", "found column 'feature_test.num_stats.max'"),
        ("EXISTS(SELECT 1 FROM UNNEST(feature.custom_stats))", "found a subquery"),
        ("ARRAY_LENGTH(feature.num_stats.histograms) = SAFE_DIVIDE(1, 1)", "safe_divide"),
        ("read_text('/etc/hostname') IS NOT NULL", "the function 'read_text'"),
        ("true; DROP TABLE x", "yntax error"),
        ("random() > 2", "another one in every run"),
    ],
)
def test_other_expressions_are_refused(tmp_path: Path, sql: str, problem: str) -> None:
    """The error has the place in the file."""
    with pytest.raises(ExpressionError) as refused:
        parse_validation(sql, is_pair=False)
    assert problem in str(refused.value)
    text = (
        f'feature_validations {{ {X} validations {{ sql_expression: "{sql}" severity: ERROR '
        "description: 'd' } }"
    )
    with pytest.raises(RecipeError) as error:
        config(tmp_path, text)
    assert "config.pbtxt, feature_validations[0].validations[0]: " in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("feature_validations { }", "feature_validations[0]: found no 'feature_path'"),
        (f"feature_validations {{ {X} validations {{ }} }}", "validations[0]: found no 'sql_expression'"),
        (f"feature_validations {{ {X} {ZEROS.replace('severity: ERROR', '')} }}",
         "validations[0]: found no 'severity', expected one, for example 'severity: ERROR'"),
        ("feature_validations { feature_path { step: 'y' } }", "found feature 'y'"),
        (f"feature_pair_validations {{ {X.replace('_path', '_test_path')} }}", "found no 'feature_base_path'"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """Each missing field has a line."""
    with pytest.raises(RecipeError) as error:
        config(tmp_path, text)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"feature_validations {{ dataset_name: 'c_z' {X} {ZEROS} }}",
         "found no dataset 'c_z' in the statistics of split 'train', expected one of All Exa"),
        (f"feature_validations {{ {X} {ZEROS} }}".replace("num_stats.num_zeros", "string_stats.unique"),
         "'feature.string_stats.unique < 3' on feature 'x' of split 'train': found null"),
        (f"feature_validations {{ {X} {ZEROS} }}".replace("feature.num_stats.num_zeros", "CAST(feature.name AS BIGINT)"),
         "of split 'train': Conversion Error"),
    ],
)  # fmt: skip
def test_a_condition_without_a_value_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """A condition that cannot be evaluated stops the run, as in TFDV."""
    with pytest.raises(DataError) as error:
        reasons(tmp_path, text)
    assert problem in str(error.value)


def test_a_feature_without_statistics_is_an_error(tmp_path: Path) -> None:
    """The schema may have a feature that the statistics do not have."""
    read = config(tmp_path, f"feature_validations {{ {X} {ZEROS} }}")
    other = TableStatistics.of(pa.RecordBatch.from_pydict({"xx": [1]}))
    with pytest.raises(DataError, match=r"found no feature 'x' .* Did you mean 'xx'\?"):
        find_anomalies({"train": other}, SCHEMA, ValidationPolicy(validations=read.validations))


def test_the_struct_has_every_field_of_the_proto() -> None:
    """The struct has the fields and the values of the proto."""
    for feature in to_proto({"train": TABLE})["train"].datasets[0].features:
        [value] = to_struct(feature).to_pylist()
        kind = statistics_pb2.FeatureNameStatistics.Type
        again = statistics_pb2.FeatureNameStatistics(
            path=feature.path, type=kind.Value(value["type"])
        )
        stats = feature.WhichOneof("stats")
        assert [name for name in ("num_stats", "string_stats") if value[name]] == [stats]
        common = value[stats]["common_stats"]
        assert common["num_non_missing"] == getattr(feature, stats).common_stats.num_non_missing
        assert again.type == feature.type
    names = {field.name for field in statistics_pb2.FeatureNameStatistics.DESCRIPTOR.fields}
    assert {FEATURE_TYPE[index].name for index in range(FEATURE_TYPE.num_fields)} == names
