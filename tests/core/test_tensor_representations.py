"""What a schema says about parsing, against tfx-bsl's own inference."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.tfxio import tensor_representation_util

from beam_pipelines.core.layout.schema_features import flattened
from beam_pipelines.core.layout.tensor_representations import (
    add_representations,
    drop_inferred,
    drop_representations,
)

CONTEXT = (
    "presence { min_fraction: 1 } shape { dim { size: 2 } }",
    "value_count { min: 1 max: 1 }",
    "presence { min_fraction: 1 } shape { }",
    "lifecycle_stage: DEPRECATED",
    "deprecated: true",
)
TYPES = ("INT", "FLOAT", "BYTES")
SPARSE = """
feature { name: "i" type: INT int_domain { min: 0 max: 9 } }
feature { name: "v" type: FLOAT }
sparse_feature { name: "sparse" is_sorted: %s index_feature { name: "i" }
  value_feature { name: "v" } }
"""
SCHEMAS = st.builds(
    lambda context, lists, ragged, sparse: text_format.Parse(
        "".join(
            f'feature {{ name: "c{n}" type: {kind} {rest} }}\n'
            for n, (kind, rest) in enumerate(context)
        )
        + 'feature { name: "##SEQUENCE##" type: STRUCT struct_domain {'
        + "".join(f' feature {{ name: "l{n}" type: {kind} }}' for n, kind in enumerate(lists))
        + "} }\n"
        + (sparse and SPARSE % sparse)
        + f"represent_variable_length_as_ragged: {ragged}",
        schema_pb2.Schema(),
    ),
    st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from(CONTEXT)), max_size=5),
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=4),
    st.sampled_from(["true", "false"]),
    st.sampled_from(["", "true", "false"]),
)


def group_of(schema: schema_pb2.Schema) -> dict[str, schema_pb2.TensorRepresentation]:
    """Returns what a schema says about each tensor."""
    return tensor_representation_util.GetTensorRepresentationsFromSchema(schema) or {}


@given(SCHEMAS)
def test_representations_are_those_of_tfx_bsl(schema: schema_pb2.Schema) -> None:
    """Added representations are those that tfx-bsl infers.

    Without them, the schema is the one before.
    """
    expected = tensor_representation_util.InferTensorRepresentationsFromSchema(schema)
    before = schema_pb2.Schema.FromString(schema.SerializeToString())
    assert group_of(add_representations(schema)) == expected
    assert drop_inferred(schema) == before


def parsed(text: str) -> schema_pb2.Schema:
    """Returns a schema with a feature ``x`` and a feature list ``s``.

    ``text`` is added to it.
    """
    struct = 'name: "##SEQUENCE##" type: STRUCT struct_domain { feature { name: "s" type: INT } }'
    features = f'feature {{ name: "x" type: FLOAT }} feature {{ {struct} }}'
    return text_format.Parse(f"{features} {text}", schema_pb2.Schema())


OWN = """tensor_representation_group { key: "" value { tensor_representation { key: "mine" value {
  dense_tensor { column_name: "x" shape { dim { size: 1 } } default_value { float_value: 0 } } } } } }
"""


def test_what_somebody_has_written_stays() -> None:
    """A user's representation stays, and its column gets no other one."""
    schema = add_representations(parsed(OWN))
    assert group_of(schema).keys() == {"mine", "##SEQUENCE##.s"}
    assert group_of(add_representations(schema, parsed(OWN))).keys() == {"mine", "##SEQUENCE##.s"}
    assert not drop_representations(drop_inferred(schema), {"x"}).tensor_representation_group


def test_examples_need_none() -> None:
    """A schema of tf.Examples stays as it was, because tfx-bsl infers it."""
    schema = text_format.Parse('feature { name: "x" type: FLOAT }', schema_pb2.Schema())
    assert not add_representations(schema).tensor_representation_group


@pytest.mark.parametrize(
    ("change", "kind"), [("", "varlen_sparse_tensor"), ("deprecated: true", None)]
)
def test_they_follow_features(change: str, kind: str | None) -> None:
    """A feature without a shape is not parsed as a dense tensor.

    It was one before the schema changed.
    """
    dense = 'name: "x" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } }'
    before = parsed("")
    before.feature[0].CopyFrom(text_format.Parse(dense, schema_pb2.Feature()))
    add_representations(before)
    after = schema_pb2.Schema.FromString(before.SerializeToString())
    after.feature[0].CopyFrom(
        text_format.Parse(f'name: "x" type: INT {change}', schema_pb2.Feature())
    )
    found = group_of(add_representations(after, before))
    assert found["x"].WhichOneof("kind") == kind if kind else "x" not in found


def test_a_flat_schema_has_none_of_feature_lists() -> None:
    """A flat schema has no representations of feature lists.

    The feature lists are features of a tf.Example there, without a path into a struct.
    """
    assert group_of(flattened(add_representations(parsed("")))).keys() == {"x"}
