"""Severities of anomalies, as TFDV's ``ValidationConfig`` states them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe, find_anomalies
from beam_pipelines.analysis.anomalies.policy import (
    Override,
    ValidationPolicy,
    read_validation_config,
)
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import RecipeError

Info = anomalies_pb2.AnomalyInfo
_NEW = "type: SCHEMA_NEW_COLUMN"


def config(folder: Path, text: str, *known: str) -> tuple[Override, ...]:
    path = folder / "config.pbtxt"
    path.write_text(text)
    return read_validation_config(str(path), known).overrides


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {"a": "ERROR", "b": "ERROR"}, id="nothing"),
        pytest.param(f"severity_overrides {{ {_NEW} severity: WARNING }}", {"a": "WARNING", "b": "WARNING"}, id="all features"),
        pytest.param(
            f'severity_overrides {{ {_NEW} severity: WARNING feature_path {{ step: "a" }} }}',
            {"a": "WARNING", "b": "ERROR"},
            id="one feature",
        ),
        pytest.param(
            f'severity_overrides {{ {_NEW} severity: ERROR feature_path {{ step: "a" }} }}'
            f"severity_overrides {{ {_NEW} severity: WARNING }}",
            {"a": "ERROR", "b": "WARNING"},
            id="one feature goes before all",
        ),
        pytest.param(
            f"severity_overrides {{ {_NEW} severity: WARNING }}"
            f"severity_overrides {{ {_NEW} severity: ERROR }}",
            {"a": "ERROR", "b": "ERROR"},
            id="the last one counts",
        ),
        pytest.param("new_features_are_warnings: true", {"a": "WARNING", "b": "WARNING"}, id="the deprecated field"),
        pytest.param(
            f"new_features_are_warnings: true severity_overrides {{ {_NEW} severity: ERROR }}",
            {"a": "ERROR", "b": "ERROR"},
            id="an override goes before the deprecated field",
        ),
    ],
)  # fmt: skip
def test_severities(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    """An override changes severities in one feature or in all."""
    batch = pa.RecordBatch.from_pydict({"a": [1], "b": [2]})
    policy = ValidationPolicy(overrides=config(tmp_path, text, "a", "b"))
    found = find_anomalies({"train": TableStatistics.of(batch)}, schema_pb2.Schema(), policy)
    assert {row.feature: row.severity for row in describe(found)} == expected
    assert found["train"].has_errors == ("ERROR" in expected.values())


def test_the_highest_severity_of_a_feature_counts(tmp_path: Path) -> None:
    """A feature with a warning and an error is an error."""
    schema = text_format.Parse(
        'feature { name: "x" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }',
        schema_pb2.Schema(),
    )
    statistics = {"train": TableStatistics.of(pa.RecordBatch.from_pydict({"x": [5, None]}))}
    text = "severity_overrides { type: INT_TYPE_BIG_INT severity: WARNING }"
    policy = ValidationPolicy(overrides=config(tmp_path, text))
    found = find_anomalies(statistics, schema, policy)
    assert anomalies_to_proto(found, schema)["train"].anomaly_info["x"].severity == Info.ERROR
    assert {row.type: row.severity for row in describe(found)} == {
        "INT_TYPE_BIG_INT": "WARNING",
        "FEATURE_TYPE_LOW_FRACTION_PRESENT": "ERROR",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("severity_overrides { type: SCHEMA_NEW }", "1:28"),
        ("severity_override { }", 'no field named "severity_override"'),
        ("\x00", "Expected a validation config as text"),
        ("severity_overrides { severity: WARNING }", "[0]: found no 'type', expected one"),
        (f"severity_overrides {{ {_NEW} }}", "[0]: found no 'severity', expected one"),
        (f"severity_overrides {{ {_NEW} severity: UNKNOWN }}", "found no 'severity'"),
        (
            f'severity_overrides {{ {_NEW} severity: ERROR feature_path {{ step: "carier" }} }}',
            "found feature 'carier', expected a feature of the schema or a column.",
        ),
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """The error names file, place and expectation."""
    with pytest.raises(RecipeError) as error:
        config(tmp_path, text, "carrier")
    assert "--validation_config" in str(error.value)
    assert "config.pbtxt" in str(error.value)
    assert problem in str(error.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(RecipeError, match="there is no such file"):
        read_validation_config(str(tmp_path / "none.pbtxt"), [])
