"""Editing a schema's text keeps unchanged parts and gives the wanted schema."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema.text import edit_schema, feature_lines

CURATED = """# What flights look like.
# Owner: the flights team

feature {   # of the airline
  name: "carrier"  # two letters, "IATA" {
  type: BYTES
  # must be there
  presence { min_fraction: 1 min_count: 1 }
  domain: 'carrier'
  drift_comparator { infinity_norm { threshold: 0.1 } }  # agreed on 3 May
}

feature: < name: "dist" type: INT; int_domain: { min: 0, max: 5 } >  # miles
# everyone's
string_domain {
  name: "carrier"
  value: "AA"  # American
  value: "U"
         "A"
}
string_domain { name: "list" value: ["q",
   "r" # R
   ] }
sparse_feature { name: "s" index_feature { name: "i" } value_feature { name: "v" } }  # kept
default_environment: "TRAINING"
tensor_representation_group { key: "" value { tensor_representation { key: "t" value { dense_tensor { column_name: "dist" } } } } }
"""


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def edited(change: str) -> tuple[str, schema_pb2.Schema]:
    """The curated text after a change, given as a statement about ``s``."""
    before, s = parsed(CURATED), parsed(CURATED)
    exec(change, {"s": s, "schema_pb2": schema_pb2})  # noqa: S102 - the test's own table
    text = edit_schema(CURATED, before, s)
    assert parsed(text) == s
    return text, s


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("pass", "", ""),
        ("s.feature[0].presence.min_fraction = 0.9", "min_fraction: 1 ", "min_fraction: 0.9 "),
        ("s.feature[1].int_domain.max = 7", "max: 5 }", "max: 7 }"),
        ("s.feature[1].int_domain.ClearField('min')", "{ min: 0, max: 5 }", "{  max: 5 }"),
        (
            "s.feature[1].lifecycle_stage = schema_pb2.DEPRECATED",
            "max: 5 } >",
            "max: 5 } lifecycle_stage: DEPRECATED >",
        ),
        ("s.feature[0].ClearField('domain')", "  domain: 'carrier'\n", ""),
        (
            "s.string_domain[0].value.append('é\"')",
            '         "A"\n',
            '         "A"\n  value: "é\\""\n',
        ),
        ("s.string_domain[1].value.append('s')", "# R\n", '# R\n, "s"\n'),
        (
            "s.default_environment.append('SERVING')",
            'NG"\n',
            'NG"\ndefault_environment: "SERVING"\n',
        ),
        (
            "s.feature.add(name='new', type=schema_pb2.FLOAT).float_domain.min = 0.1",
            "# miles\n",
            (
                '# miles\nfeature {\n  name: "new"\n  type: FLOAT\n  float_domain {\n    '
                "min: 0.1\n  "
                "}\n}\n"
            ),
        ),
        (
            "s.feature[0].in_environment.append('E')",
            "# agreed on 3 May\n",
            '# agreed on 3 May\n  in_environment: "E"\n',
        ),
    ],
)
def test_only_what_changed_is_written(change: str, old: str, new: str) -> None:
    """Only the changed field differs; comments and layout stay."""
    text, _ = edited(change)
    assert text == CURATED.replace(old, new, 1)


def test_removing_a_feature_leaves_the_others() -> None:
    """A feature that goes takes its own lines only."""
    text, _ = edited("del s.feature[0]")
    assert "agreed on" not in text
    assert "# Owner: the flights team" in text
    assert "# miles" in text


def test_features_are_found_by_line() -> None:
    """The line on which each feature begins, also a sparse one."""
    assert feature_lines(CURATED) == {"carrier": 4, "dist": 13, "s": 24}


NAMES = st.sampled_from(["a", "b", "c", "{#}", "é"])
TEXTS = st.lists(st.text(max_size=3), max_size=3)


@st.composite
def schemas(draw: st.DrawFn) -> schema_pb2.Schema:
    schema = schema_pb2.Schema()
    for name in draw(st.lists(NAMES, unique=True)):
        feature = schema.feature.add(name=name, type=draw(st.sampled_from([1, 2, 3])))
        if draw(st.booleans()):
            feature.presence.min_count = draw(st.integers(0, 3))
        if draw(st.booleans()):
            feature.int_domain.min = draw(st.integers(-(2**63), 2**63 - 1))
        elif draw(st.booleans()):
            feature.float_domain.max = (
                draw(st.floats(width=32, allow_nan=False)) + 0.0
            )  # no -0.0, which equals 0
        elif draw(st.booleans()):
            feature.string_domain.value.extend(draw(TEXTS))
        feature.in_environment.extend(draw(TEXTS))
        for size in draw(st.lists(st.integers(1, 3), max_size=2)):
            feature.shape.dim.add(size=size)
    schema.default_environment.extend(draw(TEXTS))
    for key in draw(st.sets(NAMES, max_size=2)):
        schema.tensor_representation_group[key].tensor_representation[
            "t"
        ].dense_tensor.column_name = draw(NAMES)
    return schema


@given(schemas(), schemas(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_schema_becomes_any_other(
    before: schema_pb2.Schema, after: schema_pb2.Schema, one_line: bool
) -> None:
    """Any schema's text can be edited to mean any other schema."""
    text = text_format.MessageToString(before, as_utf8=True, as_one_line=one_line)
    order = {feature.name: number for number, feature in enumerate(before.feature)}
    kept = sorted(after.feature, key=lambda feature: order.get(feature.name, len(order)))
    del after.feature[:]
    after.feature.extend(kept)
    assert parsed(edit_schema(f"# head\n{text}", before, after)) == after
