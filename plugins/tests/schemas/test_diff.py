"""The diff of schemas."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines_plugins.schemas.diff import diff_schemas, render_diff
from tests.analysis.test_schema_update import CONSTRAINTS, COUNTS, DOMAINS, PRESENCES, parsed

FEATURES = st.tuples(*map(st.sampled_from, (DOMAINS, PRESENCES, COUNTS, CONSTRAINTS))).map(
    lambda parts: parsed(f'feature {{ name: "x" {" ".join(parts)} }}')
)


@given(FEATURES, FEATURES)
@settings(max_examples=200)
def test_schemas_differ_if_their_diff_does(before, after):
    """The diff is empty only if schemas are equal."""
    assert bool(diff_schemas(before, after)) == (before != after)
    assert diff_schemas(after, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("presence { min_fraction: 1 }", "presence { min_fraction: 0.9 }", ["- presence.min_fraction: 1.0", "+ presence.min_fraction: 0.9"]),
        ("", "int_domain { max: 3 }", ["+ int_domain.max: 3"]),
        ("int_domain { }", "int_domain { max: 4 }", ["- int_domain { }", "+ int_domain.max: 4"]),
        ("float_domain { disallow_nan: true }", "float_domain { }", ["- float_domain.disallow_nan: true", "+ float_domain { }"]),
        ("string_domain { value: 'a' }", "string_domain { value: 'b' value: 'a' }", ['+ string_domain.value: "b"']),
        ("string_domain { value: '{' }", "string_domain { value: '}' }", ['- string_domain.value: "{"', '+ string_domain.value: "}"']),
        ("shape { dim { size: 1 } dim { size: 2 } }", "shape { dim { size: 2 } dim { size: 1 } }", ["+ shape.dim.size: 2", "- shape.dim.size: 2"]),
        ("bool_domain { }", "", ["- bool_domain { }"]),
        ("string_domain { value: 'a' value: 'a' }", "string_domain { value: 'a' }", ['- string_domain.value: "a"']),
        ("type: INT", "type: FLOAT", ["- type: INT", "+ type: FLOAT"]),
        ("drift_comparator { infinity_norm { threshold: 0.1 } }", "drift_comparator { infinity_norm { threshold: 0.2 } }",
         ["- drift_comparator.infinity_norm.threshold: 0.1", "+ drift_comparator.infinity_norm.threshold: 0.2"]),
    ],
)  # fmt: skip
def test_diff(before: str, after: str, expected: list[str]) -> None:
    """Each change has both values."""
    schemas = (parsed(f'feature {{ name: "x" {feature} }}') for feature in (before, after))
    (found,) = diff_schemas(*schemas)
    assert found.where == "feature 'x'"
    assert sorted(found.lines) == sorted(expected)
    assert render_diff([found]) == "\n  ".join(["feature 'x'", *found.lines])


def test_the_diff_names_whole_features_and_domains() -> None:
    """Features that come or go, tensors, and long domains."""
    groups = [
        f'tensor_representation_group {{ key: "" value {{ tensor_representation {{ key: "t" value '
        f'{{ dense_tensor {{ column_name: "{name}" }} }} }} }} }}'
        for name in "xy"
    ]
    values = " ".join(f'value: "{n}"' for n in range(60))
    a = parsed(
        f'feature {{ name: "x" }} feature {{ name: "y" }} string_domain {{ name: "d" value: "a" '
        f'value: "b" }} {groups[0]}'
    )
    b = parsed(
        f'feature {{ name: "z" }} feature {{ name: "x" }} string_domain {{ name: "d" value: "b" '
        f'value: "a" {values} }} dataset_constraints {{ min_examples_count: 3 }} {groups[1]}'
    )
    found = diff_schemas(a, b)
    column = "tensor_representation.value.dense_tensor.column_name"
    assert [(one.where, one.lines) for one in found if "domain" not in one.where] == [
        ("schema", ("+ dataset_constraints.min_examples_count: 3",)),
        ("feature 'y'", ('- name: "y"',)),
        ("tensor_representation_group ''", (f'- {column}: "x"', f'+ {column}: "y"')),
        ("feature 'z'", ('+ name: "z"',)),
    ]
    assert "  and 20 more" in render_diff(found)
    assert render_diff([]) == "no difference"
