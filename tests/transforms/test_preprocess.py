"""A recipe's preprocessing_fn is planned, analyzed, applied to every row, and served."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core import _native
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.runners.run import find_error
from beam_pipelines.serving.process import build_in_subprocess
from beam_pipelines.serving.write import GraphJob
from beam_pipelines.transforms.fit import fit_batch
from beam_pipelines.transforms.preprocessing.function import Preprocessing, plan_preprocessing
from beam_pipelines.transforms.preprocessing.steps import AnalyzePreprocessing, load_function

pytestmark = pytest.mark.end_to_end

MODULE = """
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    outputs = {name: inputs[name] for name in ("carrier_id", "late")}
    outputs["delay"] = tft.scale_to_z_score(inputs["delay"])
    outputs["carrier"] = tft.compute_and_apply_vocabulary(inputs["carrier"], vocab_filename="own carrier", num_oov_buckets=1)
    outputs["powers"] = tf.concat([inputs["delay"], inputs["delay"] ** 2], 1)
    carrier = inputs["carrier"]
    places = tf.concat([carrier.indices, tf.strings.to_hash_bucket_fast(carrier.values, 3)[:, tf.newaxis]], 1)
    shape = tf.concat([carrier.dense_shape[:1], [1, 3]], 0)
    outputs["grid"] = tf.SparseTensor(places, tf.ones_like(carrier.values, tf.int64), shape)
    return outputs
"""
ENCODE = """
  delay: {fill: 0}
  carrier_id: [{column: carrier}, {vocabulary: {num_oov: 1}}]
"""
COLUMNS = pa.schema([("delay", pa.float64()), ("carrier", pa.string()), ("late", pa.bool_())])


def recipe_with(folder: Path, module: str, more: str = "") -> Recipe:
    """A recipe next to a module with that text."""
    (folder / "own.py").write_text(module)
    text = (
        f"name: x\nsources: {{rows: rows.csv}}\nencode:{ENCODE}\npreprocessing_fn: "
        f"own.py\nlabel: late\n{more}"
    )
    recipe = parse_recipe(text, "recipe.yaml")
    return dataclasses.replace(recipe, directory=str(folder))


def contract() -> schema_pb2.Schema:
    """A schema that promises a label in every row.

    It promises no delay and no carrier.
    """
    schema = schema_pb2.Schema()
    schema.feature.add(name="delay", type=schema_pb2.FLOAT)
    schema.feature.add(name="carrier", type=schema_pb2.BYTES)
    late = schema.feature.add(name="late", type=schema_pb2.INT)
    late.presence.min_fraction = 1
    late.shape.dim.add(size=1)
    return schema


def rows(number: int, carriers: str) -> pa.RecordBatch:
    """Input rows: every fifth delay and every seventh carrier is null."""
    random = np.random.default_rng(number)
    delays = [
        None if index % 5 == 4 else float(value)
        for index, value in enumerate(random.normal(10, 4, 40))
    ]
    names = [
        None if index % 7 == 6 else carriers[value]
        for index, value in enumerate(random.integers(0, len(carriers), 40))
    ]
    return pa.RecordBatch.from_pydict(
        {"delay": delays, "carrier": names, "late": random.random(40) < 0.5}, COLUMNS
    )


class Run(NamedTuple):
    """The results of a run.

    They are the fitted plan, batches and chunks by address, and the analysis folder.
    """

    plan: EncodePlan
    raw: dict[tuple[int, int, str], pa.RecordBatch]
    chunks: dict[tuple[int, int, str], Chunk]
    analyzed: Path


def run(folder: Path, chunks: list[tuple[tuple[int, int, str], pa.RecordBatch]]) -> Run:
    """Fits the encodings and runs both transforms."""
    recipe = recipe_with(folder, MODULE)
    train = (
        pa.Table.from_batches([batch for (_, _, split), batch in chunks if split == "train"])
        .combine_chunks()
        .to_batches()[0]
    )
    plan = fit_batch(plan_encode(recipe, COLUMNS), train, "rows.csv")
    function = plan_preprocessing(
        recipe, plan_encode(recipe, COLUMNS), contract().SerializeToString()
    )
    assert function is not None
    encoded = [
        Chunk(
            *address[:2],
            encode_batch(plan, batch, "rows.csv"),
            {},
            path="rows.csv",
            split=address[2],
        )
        for address, batch in chunks
    ]
    analyzed = folder / "temporary" / "analyzed"
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = (
            pipeline
            | beam.Create(encoded)
            | AnalyzePreprocessing(function, ("train",), str(folder / "temporary"), str(analyzed))
        )
    apply = load_function(function, str(analyzed))
    by_address = {
        (one.range_number, one.part, one.split): one._replace(batch=apply(one.batch, one.path))
        for one in encoded
        if one.batch.num_rows
    }
    return Run(plan, dict(chunks), by_address, analyzed)


CHUNKS = [
    ((0, 0, "train"), rows(1, "abc")),
    ((0, 0, "eval"), rows(2, "abz")),
    ((1, 0, "train"), rows(3, "abc")),
    ((1, 1, "train"), rows(4, "abc").slice(0, 0)),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run for all tests."""
    return run(tmp_path_factory.mktemp("run"), CHUNKS)


@pytest.fixture(scope="module")
def graph(done: Run) -> Path:
    """The serving graph of that run."""
    schema = read_schema(str(done.analyzed / "transformed_metadata" / "schema.pbtxt"))
    folder = done.analyzed.parent.parent / "transform_graph"
    build_in_subprocess(
        GraphJob(done.plan, contract(), schema, "late", str(done.analyzed)), str(folder)
    )
    return folder


def column(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column's rows."""
    values: list[Any] = batch.column(name).to_pylist()
    return values


def test_every_row_stays_in_its_place(done: Run) -> None:
    """Rows keep their order."""
    for address, chunk in done.chunks.items():
        assert column(chunk.batch, "late") == [
            [int(value)] for value in column(done.raw[address], "late")
        ]


def test_analysis_sees_only_the_splits_to_fit_on(done: Run) -> None:
    """Mean, deviation and vocabulary are those of the train split, by numpy."""
    train = np.array(
        [
            value or 0.0
            for (_, _, split), batch in CHUNKS
            if split == "train"
            for value in column(batch, "delay")
        ],
        np.float32,
    ).astype(np.float64)
    for address, chunk in done.chunks.items():
        filled = np.array(
            [value or 0.0 for value in column(done.raw[address], "delay")], np.float32
        )
        expected = (filled - train.mean()) / train.std()
        np.testing.assert_allclose(
            [row[0] for row in column(chunk.batch, "delay")], expected, rtol=1e-4, atol=1e-5
        )
        powers = np.stack([filled, filled**2], 1)
        np.testing.assert_allclose(column(chunk.batch, "powers"), powers, rtol=1e-6)
    words = (done.analyzed / "transform_fn" / "assets" / "own-carrier").read_text().split()
    assert sorted(words) == ["a", "b", "c"]
    unseen = [
        row
        for row, raw in zip(
            column(done.chunks[0, 0, "eval"].batch, "carrier"),
            column(CHUNKS[1][1], "carrier"),
            strict=True,
        )
        if raw == "z"
    ]
    assert unseen
    assert set(map(tuple, unseen)) == {(3,)}


def test_serving_graph_is_encodings_and_function_together(done: Run, graph: Path) -> None:
    """Raw rows through layer and signature give the shards' records.

    The rows have no label.
    """
    import tensorflow as tf
    import tensorflow_transform as tft

    from beam_pipelines.encodings.apply import to_feature

    output = tft.TFTransformOutput(str(graph))
    batch = done.raw[0, 0, "eval"]
    raw = pa.RecordBatch.from_arrays(
        [to_feature(values) for values in batch.columns], batch.schema.names
    )
    expected = tf.io.parse_example(
        _native.serialize(done.chunks[0, 0, "eval"].batch, framed=False).to_pylist(),
        output.transformed_feature_spec(),
    )
    parsed = tf.io.parse_example(
        _native.serialize(raw, framed=False).to_pylist(), output.raw_feature_spec()
    )

    got = output.transform_features_layer()(parsed)

    assert set(got) == set(expected) == {"carrier", "carrier_id", "delay", "grid", "late", "powers"}
    for name, tensor in expected.items():
        left, right = (
            tf.sparse.to_dense(t, -7) if isinstance(t, tf.SparseTensor) else t
            for t in (got[name], tensor)
        )
        np.testing.assert_array_equal(left.numpy(), right.numpy())
    served = tf.saved_model.load(str(graph / "transform_fn")).signatures["serving_default"](
        examples=tf.constant(
            _native.serialize(raw.drop_columns(["late"]), framed=False).to_pylist()
        )
    )
    np.testing.assert_array_equal(served["delay"].numpy(), expected["delay"].numpy())
    assert "late" not in served
    # Features without a dense form are given by their columns.
    assert (
        served["grid$sparse_values_row_lengths"].numpy().sum() == len(expected["grid"].values) > 0
    )
    assert expected["grid"].shape[1:] == [1, 3]


def test_vocabularies_of_both_are_found(graph: Path) -> None:
    """The function's vocabulary has its name; an encoding's has its feature's."""
    import tensorflow_transform as tft

    output = tft.TFTransformOutput(str(graph))
    assert sorted(output.vocabulary_by_name("own carrier")) == [b"a", b"b", b"c"]
    assert sorted(output.vocabulary_by_name("carrier_id")) == [b"a", b"b", b"c"]


def test_order_of_chunks_does_not_matter(done: Run, tmp_path: Path) -> None:
    """Chunks in another order give the same records, to the last bit."""
    again = run(tmp_path, CHUNKS[::-1])
    for address, chunk in done.chunks.items():
        assert _native.serialize(chunk.batch, framed=False).equals(
            _native.serialize(again.chunks[address].batch, framed=False)
        )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "x = 1\n",
            "found no function 'preprocessing_fn', expected 'def preprocessing_fn(inputs)'",
        ),
        ("def preprocessing_fn(:\n", "line 1: found no Python"),
    ],
)
def test_module_that_cannot_work_is_a_problem_of_the_recipe(tmp_path, module, message):
    """Planning reports problems of the module that need no run of it."""
    recipe = recipe_with(tmp_path, module)
    with pytest.raises(RecipeProblems) as error:
        plan_preprocessing(recipe, plan_encode(recipe, COLUMNS), None)
    (problem,) = error.value.problems
    assert problem.path == ("preprocessing_fn",)
    assert str(tmp_path / "own.py") in problem.message
    assert message in problem.message


def test_missing_module_is_a_problem_of_the_recipe(tmp_path: Path) -> None:
    """Planning reports a missing module."""
    recipe = recipe_with(tmp_path, "raise SystemExit\ndef preprocessing_fn(inputs): ...\n")
    assert plan_preprocessing(recipe, plan_encode(recipe, COLUMNS), None) is not None
    (tmp_path / "own.py").unlink()
    with pytest.raises(RecipeProblems, match=re.escape("own.py")):
        plan_preprocessing(recipe, plan_encode(recipe, COLUMNS), None)


def test_inputs_are_dense_only_where_something_promises_it(tmp_path: Path) -> None:
    """A contract or a fill makes a dense input.

    Other inputs are sparse.
    """
    recipe = recipe_with(tmp_path, MODULE)
    plan = plan_encode(recipe, COLUMNS)
    with_contract, without = (
        plan_preprocessing(recipe, plan, schema)
        for schema in (contract().SerializeToString(), None)
    )
    assert with_contract is not None
    assert without is not None
    assert with_contract.inputs == {"delay": 1, "carrier": None, "late": 1, "carrier_id": None}
    assert without.inputs == {"delay": 1, "carrier": None, "late": None, "carrier_id": None}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "    x = 1\n    return {'late': inputs['nothing']}\n",
            "own.py, line 3: preprocessing_fn raised KeyError: 'nothing'",
        ),
        ("    return {'delay': inputs['delay']}\n", "expected the label 'late' among them"),
    ],
)
def test_error_in_the_function_names_its_line(tmp_path: Path, body: str, message: str) -> None:
    """A function's error is a recipe error with file and line.

    It comes while tracing, before the run.
    """
    recipe = recipe_with(tmp_path, f"def preprocessing_fn(inputs):\n{body}")
    function = plan_preprocessing(
        recipe, plan_encode(recipe, COLUMNS), contract().SerializeToString()
    )
    assert isinstance(function, Preprocessing)
    chunks = beam.Pipeline(runner="FnApiRunner") | beam.Create([])
    with pytest.raises(RecipeError, match=re.escape(message)):
        _ = chunks | AnalyzePreprocessing(
            function, ("train",), str(tmp_path / "temporary"), str(tmp_path / "analyzed")
        )


def test_failure_on_a_batch_is_told_without_traceback() -> None:
    """tensorflow-transform's error about a failed batch becomes one sentence."""
    text = (
        'ValueError: An error occurred while trying to apply the transformation: "Graph execution '
        "error:\n\n"
        "Detected at node Assert/Assert defined at (most recent call last):\n<stack traces "
        "unavailable>\n"
        "assertion failed: [too late]\n\t [[{{node Assert/Assert}}]] "
        '[Op:__inference_wrapped_finalized_271]".\n'
        "          Batch instances: pyarrow.RecordBatch\n [while running 'Transform']"
    )
    error = find_error(text)
    assert isinstance(error, DataError)
    assert str(error).startswith(
        "preprocessing_fn failed on a batch: assertion failed: [too late]. Mend"
    )
