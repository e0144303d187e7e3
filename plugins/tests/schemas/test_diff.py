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
@settings(max_examples=200, deadline=None)
def test_schemas_differ_if_their_diff_does(before, after):
    """The diff is empty only if schemas are equal."""
    assert bool(diff_schemas(before, after)) == (before != after)
    assert diff_schemas(after, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", "no difference"),
        ("presence { min_fraction: 1 }", "presence { min_fraction: 0.9 }", "presence.min_fraction:  1 → 0.9"),
        ("presence { min_count: 1 }", "presence { min_count: 2 }", "presence.min_count:  1 → 2"),
        ("", "int_domain { max: 3 }", "int_domain.max:  (unset) → 3"),
        ("int_domain { max: 3 }", "int_domain { max: 4 }", "int_domain.max:  3 → 4"),
        ("int_domain { }", "int_domain { max: 4 }", "int_domain.max:  (unset) → 4"),
        ("float_domain { disallow_nan: true }", "float_domain { }", "float_domain.disallow_nan:  true → (unset)"),
        ("string_domain { value: 'a' }", "string_domain { value: 'b' value: 'a' }", 'string_domain.value:  + "b"'),
        ("string_domain { value: 'a' }", "string_domain { }", 'string_domain.value:  "a" → (unset)'),
        ("shape { dim { size: 1 } }", "", "shape.dim.size:  1 → (unset)"),
        ("shape { dim { size: 1 } dim { size: 2 } }", "shape { dim { size: 2 } dim { size: 1 } }", "shape.dim.size:  now 2, 1"),
        ("bool_domain { }", "", "bool_domain:  { } → (unset)"),
        ("string_domain { value: 'a' value: 'a' }", "string_domain { value: 'a' }", 'string_domain.value:  now "a"'),
        ("", "lifecycle_stage: DEPRECATED", "lifecycle_stage:  (unset) → DEPRECATED"),
        ("type: INT", "type: FLOAT", "type:  INT → FLOAT"),
        ("", "not_in_environment: 'S'", 'not_in_environment:  (unset) → "S"'),
        ("drift_comparator { infinity_norm { threshold: 0.1 } }", "drift_comparator { infinity_norm { threshold: 0.2 } }",
         "drift_comparator.infinity_norm.threshold:  0.1 → 0.2"),
        ("distribution_constraints { min_domain_mass: 0.9 }", "", "distribution_constraints.min_domain_mass:  0.9 → (unset)"),
    ],
)  # fmt: skip
def test_diff(before: str, after: str, expected: str) -> None:
    """Each change has both values."""
    text = render_diff(
        diff_schemas(*(parsed(f'feature {{ name: "x" {feature} }}') for feature in (before, after)))
    )
    assert expected in text
    assert expected == "no difference" or text.startswith("feature 'x'\n")


def test_the_diff_names_whole_features_and_domains() -> None:
    """Whole features that come or go are one difference each."""
    a = parsed(
        'feature { name: "x" } feature { name: "y" } string_domain { name: "d" value: "a" value: '
        '"b" }'
    )
    b = parsed(
        'feature { name: "z" presence { min_count: 1 } } feature { name: "x" } string_domain { '
        'name: "d" value: "b" value: "a" } '
        "dataset_constraints { min_examples_count: 3 }"
    )
    assert [(d.where, d.what, d.after.partition(":")[0]) for d in diff_schemas(a, b)] == [
        ("schema", "dataset_constraints.min_examples_count", "3"),
        ("feature 'y'", "", "removed"),
        ("feature 'z'", "", "added"),
    ]
