"""Widening by the rules of TFDV's ``update_schema``."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import find_anomalies
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics import TableStatistics
from tests.analysis.statistics.support import VALUES_FOR_TYPE

LISTS = pa.list_(pa.int64())
TEXT = pa.string()


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def statistics(values: list[Any], kind: pa.DataType) -> TableStatistics:
    return TableStatistics.of(pa.record_batch({"x": pa.array(values, kind)}))


@pytest.mark.parametrize(
    ("feature", "values", "kind", "expected"),
    [
        ("type: INT int_domain { min: 0 max: 5 }", [0, 5], pa.int64(), "type: INT int_domain { min: 0 max: 5 }"),
        ("type: INT int_domain { min: 0 max: 5 }", [-3, 9], pa.int64(), "type: INT int_domain { min: -3 max: 9 }"),
        ("type: FLOAT float_domain { max: 1 disallow_nan: true disallow_inf: true }", [math.nan, math.inf], pa.float64(),
         "type: FLOAT float_domain { max: inf disallow_nan: false disallow_inf: false }"),
        ("type: INT bool_domain { }", [0, 3], pa.int64(), "type: INT int_domain { min: 0 max: 3 }"),
        ("type: FLOAT bool_domain { }", [0.5], pa.float64(), "type: FLOAT float_domain { min: 0.5 max: 0.5 }"),
        ("type: BYTES bool_domain { true_value: 'y' }", ["z"], TEXT, "type: BYTES"),
        ("type: BYTES int_domain { }", ["z"], TEXT, "type: BYTES"),
        ("type: BYTES int_domain { max: 3 }", ["7"], TEXT, "type: BYTES int_domain { max: 7 }"),
        ("type: BYTES string_domain { value: 'z' }", ["b", "a", "b"], TEXT,
         "type: BYTES string_domain { value: 'z' value: 'a' value: 'b' }"),
        ("type: BYTES string_domain { value: 'b' } distribution_constraints { min_domain_mass: 0.5 }", ["b", "a"], TEXT,
         "type: BYTES string_domain { value: 'b' } distribution_constraints { min_domain_mass: 0.5 }"),
        ("type: INT presence { min_fraction: 1 min_count: 2 }", [1, None], pa.int64(),
         "type: INT presence { min_fraction: 0.5 min_count: 1 }"),
        ("type: INT presence { min_count: 1 }", [None], pa.int64(), "type: INT presence { min_count: 1 } lifecycle_stage: DEPRECATED"),
        ("type: INT value_count { min: 2 max: 2 }", [[1], [1, 2, 3]], LISTS, "type: INT value_count { min: 1 max: 3 }"),
        ("type: INT value_count { min: 2 }", [[]], LISTS, "type: INT value_count { }"),
        ("type: INT shape { dim { size: 1 } }", [1, None], pa.int64(), "type: INT"),
        ("type: INT", ["a"], TEXT, "type: INT lifecycle_stage: DEPRECATED"),
        ("type: BYTES unique_constraints { min: 3 max: 3 }", ["a"], TEXT, "type: BYTES unique_constraints { min: 1 max: 3 }"),
        ("type: INT unique_constraints { max: 3 }", [1], pa.int64(), "type: INT"),
        # The schema contradicts itself.
        ("type: FLOAT int_domain { min: 0 max: 1 }", [2.5], pa.float64(), "type: FLOAT"),
        ("type: INT float_domain { max: 1 }", [2], pa.int64(), "type: INT"),
        ("type: BYTES domain: 'absent'", ["a"], TEXT, "type: BYTES"),
        ("", ["a"], TEXT, "lifecycle_stage: DEPRECATED"),
        ("string_domain { value: 'a' value: 'a' }", ["b"], TEXT, "type: BYTES string_domain { value: 'a' value: 'b' }"),
        ("type: BYTES bool_domain { } distribution_constraints { min_domain_mass: 0.5 }", ["z"], TEXT, "type: BYTES"),
        ("type: INT value_count { min: 2 max: 1 } presence { min_fraction: 2 }", [1], pa.int64(),
         "type: INT value_count { min: 1 max: 2 } presence { min_fraction: 1 }"),
        ("type: INT lifecycle_stage: ALPHA", ["a"], TEXT, "type: INT lifecycle_stage: ALPHA"),
    ],
)  # fmt: skip
def test_widening(feature: str, values: list[Any], kind: pa.DataType, expected: str) -> None:
    """A feature changes if the data contradicts it, and only then."""
    updated = update_schema(
        parsed(f'feature {{ name: "x" {feature} }}'), [statistics(values, kind)]
    )
    assert updated == parsed(f'feature {{ name: "x" {expected} }}')


def test_columns_come_and_go() -> None:
    """A missing required feature is deprecated; a new column is inferred."""
    schema = parsed(
        'feature { name: "gone" type: INT presence { min_count: 1 } } feature { name: "o" type: '
        'INT } string_domain { name: "x" }'
    )
    updated = update_schema(
        schema, [statistics(["a", "b"], TEXT), statistics(["c"], TEXT), statistics([], TEXT)]
    )
    assert [feature.name for feature in updated.feature] == ["gone", "o", "x"]
    assert updated.feature[0].lifecycle_stage == schema_pb2.DEPRECATED
    assert updated.feature[1] == schema.feature[1]
    assert updated.feature[2].domain == "x2", "the name was taken"
    assert list(updated.string_domain[1].value) == ["a", "b", "c"]


def test_shared_domains_get_each_value_once() -> None:
    """Two features with one domain widen it together."""
    schema = parsed(
        'feature { name: "x" type: BYTES domain: "d" } feature { name: "y" type: BYTES domain: "d" '
        '} string_domain { name: "d" value: "a" }'
    )
    batch = pa.record_batch({"x": ["a", "b"], "y": ["b", "c"]})
    assert list(update_schema(schema, [TableStatistics.of(batch)]).string_domain[0].value) == [
        "a",
        "b",
        "c",
    ]


def test_only_what_applies_is_widened() -> None:
    """With a choice of anomalies, the others stay anomalies."""
    schema = parsed(
        'feature { name: "x" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }'
    )
    found = update_schema(
        schema, [statistics([5, None], pa.int64())], lambda type_, _: type_ == 28
    )  # INT_TYPE_BIG_INT
    assert found.feature[0].int_domain.max == 5
    assert found.feature[0].presence.min_fraction == 1


def test_a_contradiction_that_is_not_accepted_stays() -> None:
    """A contradiction stays in the schema if its anomaly is not accepted.

    It is not an error by itself.
    """
    schema = parsed('feature { name: "x" type: FLOAT int_domain { max: 1 } }')
    found = update_schema(
        schema, [statistics([2.5], pa.float64())], lambda type_, _: type_ == 28
    )  # INT_TYPE_BIG_INT
    assert found == schema


DOMAINS = (
    "", "bool_domain { true_value: 'a' }", "int_domain { min: 0 max: 1 }",
    "float_domain { min: 0 max: 1 }", "string_domain { value: 'a' value: 'a' }", "domain: 'absent'",
    "domain: 'known'", "image_domain { }",
)  # fmt: skip
PRESENCES = ("", "presence { min_fraction: 2 }", "presence { min_fraction: -1 }")
COUNTS = (
    "",
    "value_count { min: -1 max: 0 }",
    "value_count { min: 3 max: 1 }",
    "value_counts { value_count { min: -1 max: 0 } value_count { min: 3 max: 1 } }",
    "shape { dim { size: 0 } }",
)
CONSTRAINTS = ("", "distribution_constraints { min_domain_mass: 0.5 }")


@given(
    st.sampled_from(["", "type: INT", "type: FLOAT", "type: BYTES"]),
    st.tuples(*map(st.sampled_from, (DOMAINS, PRESENCES, COUNTS, CONSTRAINTS))),
    st.sampled_from(list(VALUES_FOR_TYPE)),
    st.data(),
)
def test_an_updated_schema_does_not_contradict_itself(type_, parts, kind, data):
    """An updated schema has no anomaly, and a second update changes nothing."""
    values = data.draw(st.lists(st.none() | VALUES_FOR_TYPE[kind], min_size=1, max_size=4))
    schema = parsed(
        f'feature {{ name: "x" {type_} {" ".join(parts)} }} '
        'string_domain { name: "known" value: "a" }'
    )
    table = statistics(values, kind)
    updated = update_schema(schema, [table])
    assert not find_anomalies({"any": table}, updated)["any"].reasons
    assert update_schema(updated, [table]) == updated


@given(st.data())
def test_an_updated_schema_flags_nothing(data: st.DataObject) -> None:
    """A widened schema has no anomaly and widens no further."""
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES_FOR_TYPE)), min_size=1, max_size=3))

    def table() -> TableStatistics:
        rows = data.draw(st.integers(0, 5))
        names = [name for name in range(len(kinds)) if data.draw(st.integers(0, 9))]
        columns = {
            str(name): pa.array(
                data.draw(
                    st.lists(st.none() | VALUES_FOR_TYPE[kinds[name]], min_size=rows, max_size=rows)
                ),
                kinds[name],
            )
            for name in names
        }
        return TableStatistics.of(pa.record_batch(columns)) if columns else TableStatistics(0, {})

    first, second = table(), table()
    schema = infer_schema({"first": first})
    updated = update_schema(schema, [second])
    for statistics_ in (first, second):
        assert (
            not find_anomalies({"any": statistics_}, updated)["any"].reasons or statistics_ is first
        )
    assert not find_anomalies({"second": second}, updated)["second"].reasons
    assert update_schema(updated, [second]) == updated
