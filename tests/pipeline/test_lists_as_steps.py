"""Columns of lists of lists become feature lists whose steps are lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.tfxio.dataset_options import TensorFlowDatasetOptions
from tfx_bsl.tfxio.tf_sequence_example_record import TFSequenceExampleRecord

from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.verify import verify_dataset
from tests.support.protos import fill
from tests.support.read_examples import read_records
from tests.support.runs import convert_in, plan_in
from tests.support.tables import write_table

pytestmark = pytest.mark.end_to_end

ROWS: list[dict[str, Any]] = [
    {"id": 1, "x": [[1.5, 2.0], [], None, [3.0]], "w": [["a"], ["b", "c"]]},
    {"id": 2, "x": [], "w": [["d", "é", ""]]},
    {"id": 3, "x": None, "w": []},
    {"id": 4, "x": [[7.0]], "w": [[]]},
]
TYPES = "{x: 'list<list<float32>>', w: 'list<list<text>>'}"
RECIPE = """
name: steps
sources: {{rows: {{path: '{path}', types: {types}}}}}
sequence: {{features: [x, w]}}
output: {{num_shards: 1, shuffle: false}}
"""


def recipe(path: str, types: str = TYPES, **changes: str) -> str:
    """Returns the recipe of the rows, with some sections changed."""
    text = RECIPE.format(path=path, types=types)
    for section, value in changes.items():
        kept = [line for line in text.splitlines() if not line.startswith(f"{section}:")]
        text = "\n".join([*kept, *([f"{section}: {value}"] if value else [])])
    return text


def by_tensorflow(row: dict[str, Any]) -> bytes:
    """Serializes a row with TensorFlow's protos."""
    example = tf.train.SequenceExample()
    fill(example.context.feature["id"], pa.int64(), [row["id"]])
    example.feature_lists.SetInParent()
    for name, kind in (("x", pa.float32()), ("w", pa.string())):
        if row[name] is None:
            continue
        steps = example.feature_lists.feature_list[name]
        for step in row[name]:
            feature = steps.feature.add()
            if step is not None:
                fill(feature, kind, step)
    return bytes(example.SerializeToString(deterministic=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows in every format that has lists of lists."""
    folder = tmp_path_factory.mktemp("steps")
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    schema = pa.schema(
        {
            "id": pa.int64(),
            "x": pa.large_list(pa.list_(pa.float64())),
            "w": pa.list_(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        }
    )
    texts = pa.list_(pa.list_(pa.string()))
    plain = pa.schema([schema.field(0), ("x", pa.list_(pa.list_(pa.float32()))), ("w", texts)])
    table = pa.Table.from_pylist(ROWS, plain)
    write_table(folder / "rows.parquet", table, 3)
    write_table(folder / "rows.arrow", pa.Table.from_pylist(ROWS, schema), 3)
    with tf.io.TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
        for row in ROWS:
            writer.write(by_tensorflow(row))
    return folder


def converted(folder: Path, text: str, name: str) -> Path:
    """Converts a recipe into a dataset next to the rows."""
    convert_in(folder, text, name)
    return folder / name


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Path:
    """The dataset of the JSON Lines."""
    return converted(folder, recipe("rows.jsonl"), "dataset")


def test_records_are_those_of_tensorflow(dataset: Path) -> None:
    """Null, an empty step and an empty list stay three things."""
    assert read_records(dataset) == [by_tensorflow(row) for row in ROWS]
    verify_dataset(str(dataset))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.tfrecord"])
def test_formats_give_the_same_records(folder: Path, dataset: Path, name: str) -> None:
    """Every source with lists of lists gives the same bytes."""
    assert read_records(converted(folder, recipe(name), f"{name}.out")) == read_records(dataset)


def test_an_import_gives_the_same_records(folder: Path, dataset: Path) -> None:
    """The shards are a source themselves."""
    again = converted(folder, recipe("dataset/examples/Split-*/*"), "again")
    assert read_records(again) == read_records(dataset)


def schema_of(dataset: Path) -> schema_pb2.Schema:
    """Returns the schema of the records."""
    text = (dataset / "schema" / "schema.pbtxt").read_text("utf-8")
    return text_format.Parse(text, schema_pb2.Schema())


def test_statistics_and_schema_have_two_levels(dataset: Path) -> None:
    """Both levels have TFDV's counts.

    A null step is missing, an empty one has no values.
    """
    data = (dataset / "statistics" / "Split-train" / "FeatureStats.pb").read_bytes()
    (found,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
    stats = {feature.path.step[-1]: feature for feature in found.features}
    levels = {
        name: [
            (
                level.num_non_missing,
                level.num_missing,
                level.min_num_values,
                level.max_num_values,
                level.tot_num_values,
            )
            for level in common.presence_and_valency_stats
        ]
        for name, common in (
            ("x", stats["x"].num_stats.common_stats),
            ("w", stats["w"].string_stats.common_stats),
        )
    }
    assert levels == {
        "x": [(3, 1, 0, 4, 5), (4, 1, 0, 2, 4)],
        "w": [(4, 0, 0, 2, 4), (4, 0, 0, 3, 6)],
    }
    assert (stats["x"].num_stats.mean, stats["w"].string_stats.unique) == (13.5 / 4, 6)
    struct = next(f for f in schema_of(dataset).feature if f.name == "##SEQUENCE##")
    for feature in struct.struct_domain.feature:
        assert [count.ByteSize() for count in feature.value_counts.value_count] == [0, 0]


def test_tfx_reads_the_records(dataset: Path) -> None:
    """tfx-bsl's reader gives the values by our schema."""
    files = str(dataset / "examples" / "Split-train" / "*")
    reader = TFSequenceExampleRecord(files, ["test"], schema=schema_of(dataset))
    options = TensorFlowDatasetOptions(batch_size=9, num_epochs=1, shuffle=False)
    [batch] = reader.TensorFlowDataset(options)
    assert batch["##SEQUENCE##.x"].to_list() == ragged("x")
    assert batch["##SEQUENCE##.w"].to_list() == ragged("w")


def ragged(name: str) -> list[list[list[Any]]]:
    """Returns a column as TensorFlow has it: what is missing is empty."""
    return [
        [
            [value.encode() if isinstance(value, str) else value for value in step or []]
            for step in row[name] or []
        ]
        for row in ROWS
    ]


def test_inspect_shows_steps(dataset: Path) -> None:
    """A step of one value is in brackets."""
    first, _, _, last = inspect_examples(str(dataset), 4)
    assert "  x   [[1.5, 2.0], [], (missing), [3.0]]\n" in first
    assert "  x   [[7.0]]\n" in last
    assert "  w   [[]]\n" in last


GROUPED = """
name: grouped
sources: {rows: {path: visits.jsonl}}
sequence: {group_by: user, order_by: time}
encode: {user: vocabulary}
output: {num_shards: 1, shuffle: false}
"""


def test_lists_of_grouped_rows_become_steps(folder: Path) -> None:
    """A row's list is a step; encodings take other columns."""
    visits: list[dict[str, Any]] = [
        {"user": "a", "time": 1, "tags": ["x"]},
        {"user": "b", "time": 1, "tags": []},
        {"user": "a", "time": 0, "tags": ["y", "z"]},
        {"user": "b", "time": 2, "tags": None},
    ]
    (folder / "visits.jsonl").write_text("\n".join(map(json.dumps, visits)) + "\n")
    output = converted(folder, GROUPED, "grouped")
    verify_dataset(str(output))
    found = {}
    for record in read_records(output):
        lists = tf.train.SequenceExample.FromString(record).feature_lists.feature_list
        times = tuple(feature.int64_list.value[0] for feature in lists["time"].feature)
        found[times] = [
            list(feature.bytes_list.value) if feature.WhichOneof("kind") else None
            for feature in lists["tags"].feature
        ]
    assert found == {(0, 1): [[b"y", b"z"], [b"x"]], (1, 2): [[], None]}
    # A tf.Example has no steps, so that the serving graph does not take them.
    metadata = output / "transform_graph" / "transformed_metadata"
    assert '"tags"' not in (metadata / "schema.pbtxt").read_text()
    assert '"tags"' in (metadata / "sequence_schema.pbtxt").read_text()
    assert '"tags"' not in (metadata.parent / "metadata" / "schema.pbtxt").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence": ""}, "column 'x' is list<list<float32>>, which only a feature list holds"),
        ({"sequence": "{features: w}"}, "feature 'x' is list<list<float32>>, which only a feature"),
        ({"sequence": "{features: w}", "encode": "{x: drop}"},
         "column 'x' is .*Name it in 'sequence: {features: x}'.* leave it out with 'drop'"),
        ({"encode": "{w: vocabulary}"}, "found list<list<text>> in 'w', expected values"),
        ({"encode": "{y: [{column: x}, log1p]}"}, "found list<list<float32>> in 'x'"),
        ({"encode": "{x: [{column: id}, log1p]}"}, "found list<list<float32>> in 'x'"),
        ({"statistics": "{slice_by: w}"}, "found column 'w' of type list<list<text>>, expected"),
        ({"derive": "{y: '[[id]]'}"}, "expected a scalar or a list of scalars"),
        ({"types": "{x: 'list<list<list<float32>>>', w: tensor}"}, "which cannot become list<list<list<"),
        ({"sequence": "{group_by: id}"}, "column 'x' is list<list<float32>>, expected a value or"),
        ({"sequence": "{group_by: w}"}, "column 'w' is list<list<text>>, expected one value"),
    ],
)  # fmt: skip
def test_what_takes_no_steps_says_so(folder: Path, changes: dict[str, str], message: str) -> None:
    """Places without lists of lists refuse them before the run."""
    text = recipe("rows.jsonl", changes.pop("types", TYPES), **changes)
    with pytest.raises((RecipeError, DataError, RecipeProblems), match=message):
        plan_in(folder, text)


@pytest.mark.parametrize("name", ["bad.jsonl", "bad.parquet"])
def test_a_null_inside_a_step_is_an_error(folder: Path, name: str) -> None:
    """A step may be null; a value of a step may not."""
    rows = [{"id": 1, "x": [None, [1.0]], "w": []}, {"id": 2, "x": [[1.0, None]], "w": [["a"]]}]
    if name.endswith("jsonl"):
        (folder / name).write_text("\n".join(map(json.dumps, rows)) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    with pytest.raises(
        DataError, match=rf"{name}, (line|row) 2, column 'x': found a null inside a list, expected"
    ):
        converted(folder, recipe(name), f"{name}.out")
