"""The serving graph equals the shards, by TensorFlow alone and tensorflow-transform."""

from __future__ import annotations

import datetime
import functools
import json
import keyword
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.schema_features import schema_type
from beam_pipelines.encodings.apply import encode_batch, to_feature
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.encodings.schema import encoded_schema
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.serving.process import build_in_subprocess
from beam_pipelines.serving.signatures import argument_names
from beam_pipelines.serving.write import GraphJob, write_transform_graph
from beam_pipelines.transforms.fit import fit_batch
from tests.support.contents import contents

pytestmark = pytest.mark.end_to_end

COLUMNS = pa.schema(
    [
        ("delay", pa.float64()),
        ("seats", pa.int64()),
        ("car rier", pa.string()),
        ("dest", pa.string()),
        ("class", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("late", pa.bool_()),
    ]
)
# In these columns some rows have no value.
NULLABLE = ("delay", "car rier", "tags", "text", "day")
ENCODE = """
  delay: [{fill: 0}, log1p, z_score]
  delay_bucket: [{column: seats}, {bucketize: 3}]
  seats: min_max
  car rier: {vocabulary: {top_k: 2, num_oov: 3}}
  car-rier: [{column: dest}, {vocabulary: {reserved: [x y]}}]
  route: {cross: {columns: [car rier, class], buckets: 100}}
  dest: [{hash_bucket: 10}, one_hot]
  tags: {vocabulary: {num_oov: 1}}
  text: [{tokenize: {}}, {hash_bucket: 50}]
  pair: {vector: [delay, seats]}
"""

SEEN: dict[str, list[Any]] = {
    "delay": [1.0, None, 3.5, -0.25, 100.0, 7.0],
    "seats": [1, 2, 3, 180, 50, 6],
    "car rier": ["UA", "AA", None, "UA", "DL", "B6"],
    "dest": ["SFO", "x y", "LAX", "SFO", "é", "JFK"],
    "class": ["a", "b", "", "a", "b", "c"],
    "tags": [["a", "b"], [], ["a"], ["c"], None, ["b", "a"]],
    "text": ["To be", "or not", None, "to  be", "", "that"],
    "day": [datetime.date(2013, 1, day) for day in (1, 2, 3, 4, 5)] + [None],
    "late": [True, False, False, True, False, True],
}
ROWS = st.fixed_dictionaries(
    {
        "delay": st.none() | st.floats(0, 1e6, width=32),
        "seats": st.integers(-5, 300),
        "car rier": st.none()
        | st.sampled_from(["UA", "AA", "", "??"])
        | st.text(st.characters(codec="utf-8"), max_size=3),
        "dest": st.sampled_from(["SFO", "x y", "", "é", "new"]),
        "class": st.sampled_from(["a", "b", "", "z"]),
        "tags": st.none() | st.lists(st.sampled_from(["a", "b", "new", ""]), max_size=4),
        "text": st.none() | st.sampled_from(["to be or", "", "  ", "not"]),
        "day": st.none() | st.dates(datetime.date(1960, 1, 1), datetime.date(2040, 1, 1)),
        "late": st.booleans(),
    }
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as a batch of the columns."""
    return pa.RecordBatch.from_pylist(rows, COLUMNS)


def seen() -> pa.RecordBatch:
    """The rows that everything is fitted on."""
    return pa.RecordBatch.from_pydict(SEEN, COLUMNS)


def fitted_plan(encode: str) -> EncodePlan:
    """Plans a recipe's ``encode`` and fits it to the seen rows."""
    recipe = parse_recipe(f"name: x\nsources: {{rows: rows.csv}}\nencode:{encode}", "recipe.yaml")
    return fit_batch(plan_encode(recipe, COLUMNS), seen(), "rows.csv")


def raw_schema() -> schema_pb2.Schema:
    """The schema of the rows' statistics: columns without nulls are dense."""
    schema = schema_pb2.Schema()
    for field in COLUMNS:
        feature = schema.feature.add(name=field.name, type=schema_type(field.type))
        if field.name not in NULLABLE:
            feature.presence.min_fraction, feature.presence.min_count = 1.0, 1
            feature.shape.dim.add(size=1)
    schema.feature.add(name="no column", type=schema_pb2.INT)
    return schema


def raw_examples(batch: pa.RecordBatch) -> list[bytes]:
    """Raw rows as serialized examples, as a client would send them."""
    return _native.serialize(
        pa.RecordBatch.from_arrays(
            [to_feature(column) for column in batch.columns], batch.schema.names
        ),
        framed=False,
    ).to_pylist()


def shard_tensors(plan: EncodePlan, batch: pa.RecordBatch, spec: dict[str, Any]) -> dict[str, Any]:
    """Rows encoded by the pipeline, serialized, and parsed as by a trainer."""
    import tensorflow as tf

    return dict(
        tf.io.parse_example(
            _native.serialize(encode_batch(plan, batch, "rows.csv"), framed=False).to_pylist(), spec
        )
    )


def assert_equal(got: Any, expected: Any) -> None:
    """Compares dense or sparse tensors.

    Floats may differ by one unit in the last place.
    """
    import tensorflow as tf

    assert type(got) is type(expected)
    if isinstance(got, tf.SparseTensor):
        np.testing.assert_array_equal(got.indices, expected.indices)
        got, expected = got.values, expected.values
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if got.dtype == tf.float32:
        np.testing.assert_array_max_ulp(got.numpy(), expected.numpy(), 1)
    else:
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[EncodePlan, Path]:
    """A plan of several kinds at once, and its graph.

    The pipeline builds graphs in the same way.
    """
    plan = fitted_plan(ENCODE)
    folder = tmp_path_factory.mktemp("dataset") / "transform_graph"
    build_in_subprocess(
        GraphJob(plan, raw_schema(), encoded_schema(raw_schema(), plan), "late"), str(folder)
    )
    return plan, folder


@functools.cache
def loaded(folder: Path) -> tuple[Any, Any, Any]:
    """The graph as tensorflow-transform's output and layer, and as a SavedModel."""
    import tensorflow as tf
    import tensorflow_transform as tft

    output = tft.TFTransformOutput(str(folder))
    return (
        output,
        output.transform_features_layer(),
        tf.saved_model.load(str(folder / "transform_fn")),
    )


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, min_size=1, max_size=6))
def test_layer_and_serving_signature_give_what_the_shards_hold(built, rows):
    """For any serialized rows, layer and serving signature equal the parsed shards."""
    import tensorflow as tf

    plan, folder = built
    output, layer, model = loaded(folder)
    batch = batch_of(rows)
    expected = shard_tensors(plan, batch, output.transformed_feature_spec())
    examples = tf.constant(raw_examples(batch))

    got = layer(tf.io.parse_example(examples, output.raw_feature_spec()))

    assert set(got) == set(expected) == set(plan.written)
    for name, tensor in expected.items():
        assert_equal(got[name], tensor)
    served = model.signatures["serving_default"](examples=examples)
    for name in set(plan.written) - {"late"}:
        assert_equal(served[name], to_dense(expected[name]))


def to_dense(tensor: Any) -> Any:
    """A sparse tensor padded with zeros and empty texts."""
    import tensorflow as tf

    return tf.sparse.to_dense(tensor) if isinstance(tensor, tf.SparseTensor) else tensor


def test_signature_from_tensors_equals_the_one_from_examples(built):
    """Raw tensors give the result of serialized examples.

    They are padded and have row lengths.
    """
    import tensorflow as tf

    _, folder = built
    output, _, model = loaded(folder)
    examples = tf.constant(raw_examples(seen()))
    parsed = tf.io.parse_example(examples, output.raw_feature_spec())
    parsed.pop("late")
    tensors = {}
    for name, argument in zip(parsed, argument_names(parsed), strict=True):
        tensors[argument] = to_dense(parsed[name])
        if tensors[argument].dtype == tf.float32:  # as the columns are float64
            tensors[argument] = tf.cast(tensors[argument], tf.float64)
        if isinstance(parsed[name], tf.SparseTensor):
            tensors[f"{argument}_row_lengths"] = tf.RaggedTensor.from_sparse(
                parsed[name]
            ).row_lengths()
    for unused in ("day", "day_row_lengths"):
        assert unused in tensors

    got = model.signatures["from_tensors"](**tensors)
    expected = model.signatures["serving_default"](examples=examples)

    assert set(got) == set(expected)
    assert got["tags_row_lengths"].numpy().tolist() == [2, 0, 1, 1, 0, 2]
    for name, tensor in expected.items():
        assert_equal(got[name], tensor)


def test_signatures_need_neither_label_nor_tensorflow_transform(built, tmp_path):
    """Signatures need neither the label nor TensorFlow Transform.

    A process with TensorFlow alone answers raw rows like the layer.
    """
    _, folder = built
    _, _, model = loaded(folder)
    rows = seen().drop_columns(["late"])
    examples = raw_examples(rows)
    (tmp_path / "examples").write_bytes(pickle.dumps(examples))
    program = (
        "import json, pickle, sys\nimport tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "examples = pickle.load(open(sys.argv[2], 'rb'))\n"
        "result = model.signatures['serving_default'](examples=tf.constant(examples))\n"
        "assert not {'tensorflow_transform', 'tfx_bsl', 'tensorflow_text', 'struct2tensor'} & "
        "set(sys.modules)\n"
        "print(json.dumps({name: tensor.numpy().tolist() for name, tensor in result.items() if "
        "tensor.dtype != tf.string}))"
    )
    arguments = [
        sys.executable,
        "-c",
        program,
        str(folder / "transform_fn"),
        str(tmp_path / "examples"),
    ]

    done = subprocess.run(arguments, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert "late" not in result
    expected = model.signatures["serving_default"](examples=examples)
    assert result["pair"] == expected["pair"].numpy().tolist()
    assert result["route"] == expected["route"].numpy().tolist()


def test_specs_are_those_of_our_schemas(built: tuple[EncodePlan, Path]) -> None:
    """tensorflow-transform parses rows and features as tfx-bsl does, and only columns."""
    from tfx_bsl.tfxio import tensor_representation_util

    plan, folder = built
    output, _, _ = loaded(folder)
    for schema, spec in (
        (encoded_schema(raw_schema(), plan), output.transformed_feature_spec()),
        (raw_schema(), output.raw_feature_spec()),
    ):
        expected = tensor_representation_util.InferTensorRepresentationsFromSchema(schema)
        expected.pop("no column", None)
        parsed = tensor_representation_util.CreateTfExampleParserConfig
        assert set(spec) == set(expected)
        for name, representation in expected.items():
            assert spec[name] == parsed(
                representation, next(f.type for f in schema.feature if f.name == name)
            )


def test_vocabularies_are_found_by_the_name_of_their_feature(built):
    """Words, size and file of a vocabulary are found by its feature.

    Two file names may collide.
    """
    output, _, _ = loaded(built[1])
    assert output.vocabulary_by_name("car rier") == [b"UA", b"DL"]
    assert output.vocabulary_by_name("car-rier") == [b"x y", b"SFO", "é".encode(), b"LAX", b"JFK"]
    assert output.vocabulary_size_by_name("tags") == 3
    assert output.vocabulary_file_by_name("car rier") != output.vocabulary_file_by_name("car-rier")
    assert output.vocabulary_file_by_name("delay") is None


@pytest.mark.usefixtures("own_graph_process")
def test_graph_is_the_same_wherever_and_whenever_it_is_built(built, tmp_path):
    """A graph rebuilt from a refitted plan has the same bytes.

    It is in another folder, and of an interpreter of its own, not of a fork.
    """
    plan = fitted_plan(ENCODE)
    build_in_subprocess(
        GraphJob(plan, raw_schema(), encoded_schema(raw_schema(), plan), "late"), str(tmp_path)
    )
    assert contents(tmp_path) == contents(built[1])
    assert "transform_fn/assets/tags" in contents(tmp_path)


def test_row_that_breaks_the_schemas_promise_is_refused(built: tuple[EncodePlan, Path]) -> None:
    """A missing required value is an error, not a zero.

    The error has the column's name.
    """
    import tensorflow as tf

    examples = raw_examples(seen().drop_columns(["seats"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="seats"):
        loaded(built[1])[2].signatures["serving_default"](examples=tf.constant(examples))


def test_schema_of_other_features_is_refused(tmp_path: Path) -> None:
    """A schema of other features is an error, not a smaller graph."""
    plan = fitted_plan("\n  delay: z_score\n")
    with pytest.raises(ValueError, match=r"features .*, expected .*delay"):
        write_transform_graph(plan, raw_schema(), schema_pb2.Schema(), str(tmp_path))


@pytest.mark.usefixtures("own_graph_process")
def test_failure_is_one_line(tmp_path: Path) -> None:
    """Errors of the process are raised by its parent, without a traceback."""
    job = GraphJob(fitted_plan("\n  delay: z_score\n"), schema_pb2.Schema(), schema_pb2.Schema())
    with pytest.raises(
        DataError, match="the serving graph could not be built: ValueError: found a schema"
    ) as error:
        build_in_subprocess(job, str(tmp_path))
    assert "Traceback" not in str(error.value)


@given(st.lists(st.text() | st.sampled_from(["a b", "a_b", "a_b_2", "class", "日本", ""])))
@example(["a b", "a_b", "class", "1x", "a.b", "x", "Größe", "é", "_", ""])
def test_argument_names_are_valid_and_distinct(columns: list[str]) -> None:
    """Names of columns become distinct names of a signature."""
    names = argument_names(columns)
    assert len(set(names)) == len(names) == len(columns)
    for column, name in zip(columns, names, strict=True):
        plain = re.sub("[^A-Za-z0-9_]", "_", column)
        assert re.fullmatch(rf"(arg_)?{plain}(_[0-9]+)?", name)
        assert name.isascii()
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert name[0].isalpha()


ODD_NAMES = ("Größe", "日本", "naïve é", "a b", "a.b", "a/b", "a_b", "1x", "_y", "🎉", "class")
ODD_ARGUMENTS = (
    "Gr__e", "arg___", "na_ve__", "a_b", "a_b_2", "a_b_3", "a_b_4", "arg_1x", "arg__y", "arg__",
    "arg_class",
)  # fmt: skip


def test_columns_with_odd_names_have_a_serving_graph(tmp_path: Path) -> None:
    """Columns of any names are arguments, and features keep their names.

    One column has the name that the lengths of another one would have.
    """
    import tensorflow as tf

    lengths = "a_b_row_lengths"
    columns = pa.schema([(name, pa.string()) for name in (*ODD_NAMES, lengths)])
    text = "{vocabulary: {num_oov: 1}}"
    encode = "".join(
        f"  {json.dumps(name, ensure_ascii=False)}: {text}\n" for name in columns.names
    )
    recipe = parse_recipe(f"name: odd\nsources: {{t: t.csv}}\nencode:\n{encode}", "recipe.yaml")
    plan = plan_encode(recipe, columns)
    plan = fit_batch(
        plan, pa.RecordBatch.from_pylist([dict.fromkeys(columns.names, "v")], columns), "rows"
    )
    schemas = [schema_pb2.Schema(), schema_pb2.Schema()]
    for schema, type_ in zip(schemas, (schema_pb2.BYTES, schema_pb2.INT), strict=True):
        for name in columns.names:
            schema.feature.add(name=name, type=type_)
    write_transform_graph(plan, *schemas, str(tmp_path))
    model = tf.saved_model.load(str(tmp_path / "transform_fn"))
    signature = model.signatures["from_tensors"]
    arguments = signature.structured_input_signature[1]
    assert set(ODD_ARGUMENTS) <= set(arguments)
    known, missing = tf.constant([["v"]]), tf.constant([0], tf.int64)
    given = {name: missing if spec.dtype == tf.int64 else known for name, spec in arguments.items()}
    given["arg_1x_row_lengths"] = tf.constant([1], tf.int64)
    got = signature(**given)
    present = {name for name, values in got.items() if name.endswith("_lengths") and values[0] == 1}
    assert present == {"1x_row_lengths"}
    assert set(columns.names) < set(got)


CHAINS = [
    "delay: [{fill: mean}, {boundaries: [0.5, 3]}]",
    "seats: [quantile_normal]",
    "car rier: [{fill: most_frequent}, vocabulary]",
    "tags: [{vocabulary: {num_oov: 2}}, multi_hot]",
    "text: [{tokenize: {}}, {vocabulary: {top_k: 4, num_oov: 1}}, {bag_of_words: 5}]",
    "day: {date_parts: [month, weekday]}",
    "seen: [{column: dest}, {vocabulary: {num_oov: 1}}, one_hot]",
    "w: [{column: seats}, {clip: [0, 10]}, z_score]",
    "late: drop",
]


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(
    chosen=st.lists(st.sampled_from(CHAINS), min_size=1, max_size=4, unique=True),
    rows=st.lists(ROWS, min_size=1, max_size=8),
)
def test_any_plan_gives_what_the_shards_hold(chosen, rows, tmp_path_factory):
    """The traced graph equals the parsed shards for any chains."""
    import tensorflow as tf
    from tensorflow_transform.tf_metadata import schema_utils

    from beam_pipelines.serving.ragged import encode_tensors, from_ragged

    plan = fitted_plan("\n  " + "\n  ".join(chosen) + "\n")
    spec = schema_utils.schema_as_feature_spec(encoded_schema(raw_schema(), plan)).feature_spec
    assets = str(tmp_path_factory.mktemp("assets"))
    names = {chain.name: "vocabulary" for chain in plan.chains}
    raw_spec = schema_utils.schema_as_feature_spec(raw_schema()).feature_spec
    del raw_spec["no column"]

    @tf.function(autograph=False)
    def graph(examples: Any) -> Any:
        ragged = encode_tensors(
            plan, tf.io.parse_example(examples, raw_spec), plan.written, assets, names
        )
        return {name: from_ragged(name, value, spec[name]) for name, value in ragged.items()}

    got = graph(tf.constant(raw_examples(batch_of(rows))))
    expected = shard_tensors(plan, batch_of(rows), spec)
    assert set(got) == set(expected)
    for name, tensor in expected.items():
        assert_equal(got[name], tensor)
