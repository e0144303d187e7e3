"""Schema inference, parsing by tfx-bsl's feature spec, and schema files."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import find_anomalies
from beam_pipelines.analysis.schema import infer_schema, read_schema, schema_to_text
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core.errors import DataError
from tests.analysis.statistics.support import VALUES_FOR_TYPE

LISTS = pa.list_(pa.int64())


def inferred(values: list[Any], kind: pa.DataType, *others: list[Any]) -> str:
    """Returns the only feature inferred, on one line, without its name."""
    splits = {
        str(number): TableStatistics.of(pa.record_batch({"x": pa.array(split, kind)}))
        for number, split in enumerate([values, *others])
    }
    schema = infer_schema(splits)
    text = text_format.MessageToString(schema.feature[0], as_one_line=True)
    if schema.string_domain:
        text += f" {list(schema.string_domain[0].value)}"
    return text.removeprefix('name: "x" ').strip()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        # presence and valency
        ([1, 2], pa.int64(), "type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }"),
        ([2, None], pa.int64(), "type: INT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        ([None, None], pa.int64(), "type: INT presence { min_count: 0 }"),
        ([], pa.int64(), "type: INT presence { min_count: 0 }"),
        ([[1, 2], [3, 4]], LISTS, "type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 2 } }"),
        ([[1, 2], None], LISTS, "type: INT value_count { min: 2 max: 2 } presence { min_count: 1 }"),
        ([[1, 2], [3]], LISTS, "type: INT value_count { min: 1 } presence { min_fraction: 1 min_count: 1 }"),
        ([[1, 2], []], LISTS, "type: INT presence { min_fraction: 1 min_count: 1 }"),
        ([[], []], LISTS, "type: INT presence { min_fraction: 1 min_count: 1 }"),
        # types
        ([1.5, None], pa.float64(), "type: FLOAT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        ([b"a", None], pa.binary(), "type: BYTES value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        # domains
        ([0, 1, None], pa.int64(), "type: INT value_count { min: 1 max: 1 } bool_domain { } presence { min_count: 1 }"),
        ([0, 0, None], pa.int64(), "type: INT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        ([-1, 1, None], pa.int64(), "type: INT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        ([0.0, 1.0, None], pa.float64(), "type: FLOAT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        (["true", "false", None], pa.string(),
         'type: BYTES value_count { min: 1 max: 1 } bool_domain { true_value: "true" false_value: "false" } presence { min_count: 1 }'),
        (["0", None], pa.string(),
         ('type: BYTES value_count { min: 1 max: 1 } bool_domain { false_value: "0" } ' "presence { min_count: 1 }")),
        (["", None], pa.string(),
         ('type: BYTES value_count { min: 1 max: 1 } bool_domain { true_value: "" } ' "presence { min_count: 1 }")),
        (["17", "-3", None], pa.string(), "type: BYTES value_count { min: 1 max: 1 } int_domain { } presence { min_count: 1 }"),
        (["b", "a", "17", None], pa.string(),
         ('type: BYTES value_count { min: 1 max: 1 } domain: "x" presence { min_count: 1 } ' "['17', 'a', 'b']")),
        (["true", "TRUE", None], pa.string(),
         ('type: BYTES value_count { min: 1 max: 1 } domain: "x" presence { min_count: 1 } ' "['TRUE', 'true']")),
    ],
)  # fmt: skip
def test_inference(values: list[Any], kind: pa.DataType, expected: str) -> None:
    """One row per rule of TFDV's inference."""
    assert fields_of(inferred(values, kind)) == fields_of(expected)


def fields_of(text: str) -> tuple[str, str]:
    """Returns a feature as a normalized message, and its domain's values."""
    message, _, domain = text.partition(" [")
    return str(text_format.Parse(message, schema_pb2.Feature())), domain


@pytest.mark.parametrize(("number", "has_domain"), [(1, True), (100, True), (101, False)])
def test_string_domains_have_at_most_100_values(number: int, has_domain: bool) -> None:
    """100 distinct texts are a domain, 101 are not."""
    schema = infer_schema(
        {"a": TableStatistics.of(pa.record_batch({"x": [f"v{i}" for i in range(number)]}))}
    )
    assert bool(schema.string_domain) is has_domain


@pytest.mark.parametrize(
    ("train", "other", "expected"),
    [
        ([7], [None], "type: INT value_count { min: 1 max: 1 } presence { min_count: 0 }"),
        ([7], [8, None], "type: INT value_count { min: 1 max: 1 } presence { min_count: 1 }"),
        ([7], [], "type: INT shape { dim { size: 1 } } presence { min_fraction: 1 min_count: 1 }"),
        ([0, 1], [2], "type: INT shape { dim { size: 1 } } presence { min_fraction: 1 min_count: 1 }"),
    ],
)  # fmt: skip
def test_other_splits_widen(train: list[Any], other: list[Any], expected: str) -> None:
    """A split with fewer or more values widens the schema."""
    assert fields_of(inferred(train, pa.int64(), other)) == fields_of(expected)


def test_domains_join_the_splits() -> None:
    """A string domain has the texts of all splits."""
    assert inferred(["a"], pa.string(), ["b"]).endswith("['a', 'b']")
    assert "domain" not in inferred(
        [f"a{i}" for i in range(60)], pa.string(), [f"b{i}" for i in range(60)]
    )


@st.composite
def splits(draw: st.DrawFn) -> dict[str, TableStatistics]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES_FOR_TYPE)), min_size=1, max_size=4))
    found = {}
    for split in ("train", "eval"):
        rows = draw(st.integers(0, 6))
        columns = {
            f"{number}": pa.array(
                draw(st.lists(st.none() | VALUES_FOR_TYPE[kind], min_size=rows, max_size=rows)),
                kind,
            )
            for number, kind in enumerate(kinds)
        }
        found[split] = TableStatistics.of(pa.record_batch(columns))
    return found


@given(splits())
def test_a_schema_never_flags_its_own_statistics(statistics: dict[str, TableStatistics]) -> None:
    """An inferred schema finds no anomaly in its own statistics."""
    schema = infer_schema(statistics)
    for split, found in find_anomalies(statistics, schema).items():
        assert not found.reasons, split


def test_examples_parse_by_the_derived_feature_spec() -> None:
    """tf.io.parse_example reads examples by the derived feature spec."""
    tf = pytest.importorskip("tensorflow")
    from tfx_bsl.tfxio import tensor_representation_util

    from beam_pipelines.core import _native

    batch = pa.record_batch(
        {
            "dense": pa.array([1, 2, 3]),
            "missing": pa.array([1.5, None, 2.5], pa.float32()),
            "text": pa.array(["a", "b", "a"]),
            "pair": pa.array([[1, 2], [3, 4], [5, 6]]),
            "ragged": pa.array([["a"], [], ["b", "c"]]),
            "nothing": pa.nulls(3, pa.int64()),
        }
    )
    schema = infer_schema({"train": TableStatistics.of(batch)})
    kinds = {feature.name: feature.type for feature in schema.feature}
    representations = tensor_representation_util.InferTensorRepresentationsFromMixedSchema(schema)
    spec = {
        name: tensor_representation_util.CreateTfExampleParserConfig(representation, kinds[name])
        for name, representation in representations.items()
    }
    parsed = tf.io.parse_example(_native.serialize(batch, framed=False).to_pylist(), spec)
    assert parsed["dense"].numpy().tolist() == [[1], [2], [3]]
    assert parsed["pair"].numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert parsed["text"].numpy().tolist() == [[b"a"], [b"b"], [b"a"]]
    assert parsed["missing"].values.numpy().tolist() == [1.5, 2.5]
    assert parsed["ragged"].values.numpy().tolist() == [b"a", b"b", b"c"]
    assert parsed["nothing"].values.shape == 0


def test_written_schemas_read_back(tmp_path: pathlib.Path) -> None:
    """A written schema reads back; equal schemas give equal bytes."""
    schema = infer_schema({"train": TableStatistics.of(pa.record_batch({"x": ["é", "ü\n"]}))})
    path = tmp_path / "schema.pbtxt"
    path.write_bytes(schema_to_text(schema))
    assert read_schema(str(path)) == schema
    assert "é" in schema_to_text(schema).decode()
    assert schema_to_text(schema) == schema_to_text(read_schema(str(path)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'feature { name: "x"\n typ: INT }\n', r"line 2.*'?typ'?"),
        (b'feature {\n name: "x"\n', r"schema.pbtxt.*found no schema in it"),
        (b"\xff", "invalid UTF-8 at byte 0"),
        (b"feature { struct_domain { " * 999 + b"} }" * 999, "pbtxt: .*nested too deeply"),
        (b'feature { name: "x" }\nfeature { name: "x" }\n', "feature 'x' 2 times"),
    ],
)
def test_bad_schema_files_are_explained(tmp_path, data: bytes, message: str) -> None:
    """A file without a schema is an error with file and line."""
    path = tmp_path / "schema.pbtxt"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_schema(str(path))
