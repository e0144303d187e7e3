"""Schemas and anomalies of structs, in statistics of other programs."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto, find_anomalies
from beam_pipelines.analysis.anomalies.find import serialized_path
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.schema.text import feature_lines
from beam_pipelines.analysis.schema.update import diff_schemas, update_schema

COMMON = "num_non_missing: 2 num_missing: %d min_num_values: 1 max_num_values: %d tot_num_values: 3"
# Of a list of structs with a number and another list of structs, which has a text.
FEATURES = {
    "a c d": ("STRING", "string_stats", 0, 'unique: 1 rank_histogram { buckets { label: "x" } }'),
    "a": ("STRUCT", "struct_stats", 1, ""),
    "a b": ("INT", "num_stats", 1, "min: 1 max: 4"),
    "a c": ("STRUCT", "struct_stats", 0, ""),
}
SCHEMA = """# of orders
feature {
  name: "a" type: STRUCT
  struct_domain {
    feature { name: "b" type: INT int_domain { min: 0 } }  # a number
    feature {
      name: "c" type: STRUCT presence { min_count: 1 }
      struct_domain { feature { name: "d" type: BYTES presence { min_count: 1 } } }
    }
  }
}
"""


def statistics(*left_out: str) -> statistics_pb2.DatasetFeatureStatistics:
    found = statistics_pb2.DatasetFeatureStatistics(num_examples=3)
    for path, (kind, field, missing, values) in FEATURES.items():
        if path in left_out:
            continue
        common = COMMON % (missing, 2)
        text = f"type: {kind} {field} {{ {values} common_stats {{ {common} }} }}"
        feature = text_format.Parse(text, statistics_pb2.FeatureNameStatistics())
        feature.path.step.extend(path.split())
        found.features.append(feature)
    return found


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def found_in(schema: schema_pb2.Schema, data: Any) -> dict[str, list[str]]:
    """Returns the anomalies of each feature, in words."""
    proto = anomalies_to_proto(find_anomalies({"s": data}, schema), schema)["s"]
    for name, info in proto.anomaly_info.items():
        assert name == ".".join(info.path.step)
    return {
        name: [reason.short_description for reason in info.reason]
        for name, info in proto.anomaly_info.items()
    }


def test_a_schema_has_the_structs_of_its_statistics() -> None:
    """Features are inferred in their structs, whatever their order; and then fit."""
    inferred = infer_schema({"s": statistics()})
    [a] = inferred.feature
    assert [child.name for child in a.struct_domain.feature] == ["c", "b"]
    [d] = a.struct_domain.feature[0].struct_domain.feature
    assert (d.type, d.domain) == (schema_pb2.BYTES, "a.c.d")
    assert not d.HasField("shape")
    assert found_in(inferred, statistics()) == {}


@pytest.mark.parametrize(
    ("change", "left_out", "expected"),
    [
        (("", ""), (), {}),
        (("min: 0", "min: 3"), (), {"a.b": ["Out-of-range values"]}),
        (("min: 0", "min: 3"), ("a b",), {}),
        (('"d"', '"e"'), (), {"a.c.e": ["Column dropped"], "a.c.d": ["New column"]}),
        (('"c"', '"e"'), (), {"a.e": ["Column dropped"], "a.e.d": 1, "a.c": ["New column"]}),
        (("", ""), ("a c", "a c d"), {"a.c": ["Column dropped"], "a.c.d": ["Column dropped"]}),
        (('"c" type: STRUCT', '"c" type: STRUCT deprecated: true'), ("a c d",), {}),
        (('"a" type: STRUCT', '"a" type: INT'), (), {"a": 2}),
    ],
)
def test_anomalies_have_the_path_of_their_feature(change, left_out, expected):
    """Features of structs are checked with their paths.

    They are not if the struct is retired or has another type. A struct that is new stands for its features. Afterwards the updated schema fits.
    """
    schema, data = parsed(SCHEMA.replace(*change)), statistics(*left_out)
    found = found_in(schema, data)
    assert found.keys() == expected.keys()
    for name, reasons in expected.items():
        assert found[name] == reasons or len(found[name]) == reasons
    updated = update_schema(schema, [data])
    assert found_in(updated, data) == {}
    assert update_schema(updated, [data]) == updated


def test_schemas_are_compared_by_feature() -> None:
    """Differences in structs name the feature and its field."""
    before = parsed(SCHEMA.replace("min: 0", "min: 3"))
    after = update_schema(before, [statistics()])
    assert [tuple(one) for one in diff_schemas(before, after)] == [
        ("feature 'a.b'", "int_domain.min", "3", "1")
    ]
    assert feature_lines(SCHEMA) == {"a": 2}


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
