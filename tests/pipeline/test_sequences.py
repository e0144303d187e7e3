"""Rows or lists become tf.SequenceExamples for TensorFlow, tfx-bsl and our commands."""

from __future__ import annotations

import csv
import random
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
from tfx_bsl.tfxio import tensor_representation_util

import beam_pipelines as bp
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.manifest import add_files, read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources import plan as plan_module
from beam_pipelines.transforms.group import GroupPlan, group_batch, send_rows_of
from tests.support.contents import TIMED, contents
from tests.support.read_examples import read_records
from tests.support.runs import plan_in

pytestmark = pytest.mark.end_to_end


def group_plan(
    schema: pa.Schema, by: list[str], order_by: list[str], context: list[str], length: int | None
) -> Any:
    """Returns the plan of ``plan_groups``, without a recipe."""
    kept = (*by, *context)
    lists = tuple(name for name in schema.names if name not in kept)
    fields = [
        pa.field(field.name, pa.list_(field.type)) if field.name in lists else field
        for field in schema
    ]
    return GroupPlan(
        "visits", tuple(by), tuple(order_by), kept, lists, length, 3, pa.schema(fields)
    )


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.sampled_from(["a", "b", "", "é"]),
            "shop": st.integers(-1, 1),
            "time": st.integers(0, 3),
            "price": st.none() | st.floats(0, 9, width=32),
        }
    ),
    max_size=30,
)
SCHEMA = pa.schema(
    {"user": pa.string(), "shop": pa.int64(), "time": pa.int64(), "price": pa.float32()}
)


@given(ROWS, st.none() | st.integers(1, 4), st.booleans())
def test_groups_are_those_of_a_loop(rows, length, ordered):
    """Groups, orders and cuts equal those of a loop over a dictionary."""
    plan = group_plan(SCHEMA, ["user", "shop"], ["time"] if ordered else [], [], length)
    found = group_batch(pa.RecordBatch.from_pylist(rows, SCHEMA), plan).to_pylist()
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["user"], row["shop"]), []).append(row)
    expected = []
    for (user, shop), members in groups.items():
        steps = sorted(members, key=lambda row: row["time"]) if ordered else members
        for start in range(0, len(steps), length or len(steps)):
            part = steps[start : start + (length or len(steps))]
            lists = {name: [row[name] for row in part] for name in ("time", "price")}
            expected.append({"user": user, "shop": shop, **lists})
    assert found == expected


def test_context_with_several_values_is_refused() -> None:
    """A context column with several values is shown with its key."""
    batch = pa.RecordBatch.from_pydict(
        {"user": ["a", "b", "a"], "city": ["x", "y", None], "n": [1, 2, 3]}
    )
    plan = group_plan(batch.schema, ["user"], [], ["city"], None)
    with pytest.raises(
        DataError,
        match="column 'city': found 'x' and None in the rows of user='a', expected one value",
    ):
        group_batch(batch, plan)


def test_context_with_one_value_is_kept() -> None:
    """Equal values, NaN and null among them, are one value."""
    batch = pa.RecordBatch.from_pydict(
        {"user": ["a", "b", "a"], "score": [float("nan"), None, float("nan")], "n": [1, 2, 3]}
    )
    found = group_batch(batch, group_plan(batch.schema, ["user"], [], ["score"], None))
    assert str(found.column("score").to_pylist()) == "[nan, None]"


@pytest.mark.parametrize("key", ["group_by", "order_by"])
def test_null_in_a_key_is_refused(key: str) -> None:
    """A row with a null key or order column is shown."""
    batch = pa.RecordBatch.from_pydict({"user": ["a", "b"], "time": [1, 2], "k": ["x", None]})
    by, order_by = (["k"], []) if key == "group_by" else (["user"], ["k"])
    with pytest.raises(
        DataError,
        match=rf"visits.csv, column 'k': found null in 1 rows .*'user': 'b'.*'{key}' names it",
    ):
        send_rows_of(
            Chunk(0, 0, batch, {}, path="visits.csv"),
            group_plan(batch.schema, by, order_by, [], None),
            1,
        )


VISITS = """
name: visits
sources: {visits: {path: visits.csv, types: {price: float32, item: text, user: text}}}
filter: minute < 50
sequence: {group_by: user, order_by: [day, minute], context: city}
split: {train: 0.6, eval: 0.4, by: [user]}
output: {num_shards: 2, shuffle_seed: 5}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of visits in any order, and a table of lists."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(3)
    with open(folder / "visits.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "city", "day", "minute", "price", "item"])
        for _ in range(4_000):
            user = rng.randrange(150)
            price = rng.choice(["", rng.randrange(9) / 4])
            writer.writerow(
                [
                    f"u{user}",
                    "ABC"[user % 3],
                    rng.randrange(9),
                    rng.randrange(60),
                    price,
                    f"i{rng.randrange(20)}",
                ]
            )
    table = pa.table(
        {
            "id": pa.array(range(400)),
            "label": pa.array([number % 2 for number in range(400)]),
            "words": pa.array(
                [
                    [f"w{rng.randrange(9)}" for _ in range(rng.randrange(5))] if n % 9 else None
                    for n in range(400)
                ]
            ),
            "prices": pa.array(
                [[rng.choice([0.0, 1.5]) for _ in range(rng.randrange(1, 4))] for _ in range(400)],
                pa.list_(pa.float32()),
            ),
            "ids": pa.array([[rng.randrange(-5, 5) for _ in range(3)] for _ in range(400)]),
            "tags": pa.array([["a"] * (n % 3) for n in range(400)]),
        }
    )
    pq.write_table(table, folder / "lists.parquet")
    return folder


def converted(data: Path, output: Path, recipe: str, *options: str, **arguments: Any) -> Manifest:
    """Converts and returns the manifest."""
    options = options or ("--direct_num_workers=1",)
    plan = plan_in(data, recipe)
    return convert.convert(plan, str(output), beam_options=options, quiet=True, **arguments)


def steps(example: tf.train.SequenceExample, name: str) -> list[Any]:
    """Returns a feature list's values, None for steps without one."""
    found = []
    for feature in example.feature_lists.feature_list[name].feature:
        kind = feature.WhichOneof("kind")
        found.append(getattr(feature, kind).value[0] if kind else None)
    return found


@pytest.fixture(scope="module")
def grouped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The visits as a dataset, read in many ranges."""
    output = tmp_path_factory.mktemp("grouped") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module.cut_ranges, "__defaults__", (9_000,))
        patch.setattr("beam_pipelines.transforms.group.PARTITION_BYTES", 30_000)
        converted(data, output, VISITS)
    return output


def test_grouped_rows_are_all_there(data: Path, grouped: Path) -> None:
    """Every user is one sequence of all visits, in one split.

    Row counts add up.
    """
    expected: dict[str, list[dict[str, str]]] = {}
    with open(data / "visits.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["minute"]) < 50:
                expected.setdefault(row["user"], []).append(row)
    seen = set()
    for split in ("train", "eval"):
        for record in read_records(grouped, split):
            example = tf.train.SequenceExample.FromString(record)
            user = example.context.feature["user"].bytes_list.value[0].decode()
            assert user not in seen
            seen.add(user)
            rows = sorted(expected[user], key=lambda row: (int(row["day"]), int(row["minute"])))
            assert example.context.feature["city"].bytes_list.value[0].decode() == rows[0]["city"]
            assert steps(example, "day") == [int(row["day"]) for row in rows]
            assert steps(example, "price") == [
                float(row["price"]) if row["price"] else None for row in rows
            ]
            assert [item.decode() for item in steps(example, "item")] == [
                row["item"] for row in rows
            ]
    assert seen == set(expected)
    counts = read_manifest(str(grouped)).counts
    assert counts.read == 4_000 == counts.filtered + counts.merged + counts.written
    assert counts.written == len(seen)
    assert verify_dataset(str(grouped)).rows == len(seen)


def test_grouping_is_deterministic(data, grouped, tmp_path, monkeypatch):
    """Workers do not change the bytes."""
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (9_000,))
    monkeypatch.setattr("beam_pipelines.transforms.group.PARTITION_BYTES", 30_000)
    converted(data, tmp_path / "out", VISITS, "--direct_num_workers=2")
    assert contents(tmp_path / "out", TIMED) == contents(grouped, TIMED)


LISTS = """
name: lists
sources: {lists: {path: lists.parquet}}
sequence: {features: [words, prices, ids]}
label: label
split: {train: 0.7, eval: 0.3, by: [id]}
output: {num_shards: 2}
"""


@pytest.fixture(scope="module")
def lists(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of lists as a dataset."""
    output = tmp_path_factory.mktemp("lists") / "out"
    converted(data, output, LISTS)
    return output


def test_lists_become_feature_lists(data: Path, lists: Path) -> None:
    """Named lists are feature lists, other lists stay in the context."""
    rows = {row["id"]: row for row in pq.read_table(data / "lists.parquet").to_pylist()}
    count = 0
    for split in ("train", "eval"):
        for record in read_records(lists, split):
            example = tf.train.SequenceExample.FromString(record)
            row = rows[example.context.feature["id"].int64_list.value[0]]
            assert set(example.feature_lists.feature_list) == {
                n for n in ("words", "prices", "ids") if row[n] is not None
            }
            assert [word.decode() for word in steps(example, "words")] == (row["words"] or [])
            assert steps(example, "prices") == row["prices"]
            assert steps(example, "ids") == row["ids"]
            assert [
                tag.decode() for tag in example.context.feature["tags"].bytes_list.value
            ] == row["tags"]
            count += 1
    assert count == 400 == verify_dataset(str(lists)).rows
    assert read_manifest(str(lists)).record == "sequence_example"


def read_schema(folder: Path) -> schema_pb2.Schema:
    """Returns the schema that parses the records."""
    path = folder / read_manifest(str(folder)).schema
    return text_format.Parse(path.read_text(), schema_pb2.Schema())


@pytest.mark.parametrize("name", ["grouped", "lists"])
def test_tfx_parses_by_our_schema(name: str, request: pytest.FixtureRequest) -> None:
    """tfx-bsl's parsers of the schema parse and decode the same values."""
    folder = request.getfixturevalue(name)
    schema = read_schema(folder)
    context_spec, list_spec = tensor_representation_util.CreateTfSequenceExampleParserConfig(schema)
    some = read_records(folder, "train")[:50]
    _, sequences, _ = tf.io.parse_sequence_example(some, context_spec, list_spec)
    decoder = SequenceExamplesToRecordBatchDecoder("##SEQUENCE##", schema.SerializeToString())
    decoded = decoder.DecodeBatch(some).to_pylist()
    for place, record in enumerate(some):
        example = tf.train.SequenceExample.FromString(record)
        _, single = tf.io.parse_single_sequence_example(record, context_spec, list_spec)
        for path in list_spec:
            values = [
                [] if step is None else [step]
                for step in steps(example, path.removeprefix("##SEQUENCE##."))
            ]
            assert sequences[path][place].to_list() == values
            assert single[path].to_list() == values
            found = decoded[place]["##SEQUENCE##"][path.removeprefix("##SEQUENCE##.")]
            assert [step or [] for step in found or []] == values


def list_features(folder: Path) -> dict[str, schema_pb2.Feature]:
    """Returns the feature lists of the records' schema, by name."""
    (struct,) = (
        feature for feature in read_schema(folder).feature if feature.name == "##SEQUENCE##"
    )
    assert struct.type == schema_pb2.STRUCT
    return {feature.name: feature for feature in struct.struct_domain.feature}


def test_schema_knows_steps(lists: Path, grouped: Path) -> None:
    """Feature lists are in a struct, with bounds of steps and values."""
    found = list_features(lists)
    assert [dim.size for dim in found["ids"].shape.dim] == [3, 1]
    assert [(count.min, count.max) for count in found["words"].value_counts.value_count] == [
        (0, 0),
        (1, 1),
    ]
    # No value is promised in a step where one is null.
    found = list_features(grouped)
    assert [(count.min, count.max) for count in found["price"].value_counts.value_count] == [
        (1, 0),
        (0, 0),
    ]
    assert [(count.min, count.max) for count in found["item"].value_counts.value_count] == [
        (1, 0),
        (1, 1),
    ]


def test_statistics_know_steps(grouped: Path) -> None:
    """Statistics of feature lists have TFDV's paths and levels."""
    data = (grouped / "statistics" / "Split-train" / "FeatureStats.pb").read_bytes()
    (features,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
    stats = {tuple(feature.path.step): feature for feature in features.features}
    assert ("city",) in stats
    outer, inner = stats["##SEQUENCE##", "price"].num_stats.common_stats.presence_and_valency_stats
    train = [
        tf.train.SequenceExample.FromString(record) for record in read_records(grouped, "train")
    ]
    prices = [price for example in train for price in steps(example, "price")]
    assert (outer.tot_num_values, outer.num_non_missing, outer.num_missing) == (
        len(prices),
        len(train),
        0,
    )
    assert (inner.num_missing, inner.tot_num_values) == (
        prices.count(None),
        len(prices) - prices.count(None),
    )


def test_accumulators_keep_null_steps(grouped: Path) -> None:
    """Merged statistics count the null steps of both datasets."""
    one = read_statistics(str(grouped))["train"]
    merged = TableStatistics.merged([one, one]).columns["price"]
    assert merged.null_steps == 2 * one.columns["price"].null_steps > 0


def test_batches_of_similar_lengths_as_the_page_makes_them(repository, lists, tmp_path):
    """The page's code for batches of similar lengths loses no row.

    Some sequences have no steps.
    """
    page = (repository / "docs" / "tensorflow.md").read_text()
    (code,) = (
        block for block in page.split("```") if block.startswith("python") and "bucket_by" in block
    )
    planes, given = (
        '"out/planes", "train"',
        f"{str(lists)!r}, 'train', features=['words'], label=False",
    )
    load, flatten, bucket = code.removeprefix("python\n").strip().splitlines()
    script = tmp_path / "page.py"
    script.write_text(
        f"import tensorflow as tf\nimport beam_pipelines as bp\n"
        f"{load.replace(planes, given)}\n{flatten}\n"
        f"batches = {bucket.replace('dep_delay', 'words')}\n"
    )
    found = [batch["words"].numpy() for batch in runpy.run_path(str(script))["batches"]]
    lengths = [int((row != b"").sum()) for batch in found for row in batch]
    wanted = [
        len(steps(tf.train.SequenceExample.FromString(record), "words"))
        for record in read_records(lists, "train")
    ]
    assert 0 in wanted
    assert sorted(lengths) == sorted(wanted)


def test_inspect_shows_steps(grouped: Path) -> None:
    """``inspect`` shows feature lists as lists, and null steps as missing."""
    (shown,) = inspect_examples(str(grouped), 1)
    days = steps(tf.train.SequenceExample.FromString(read_records(grouped, "train")[0]), "day")
    assert f"day     [{', '.join(map(str, days[:8]))}, … {len(days)} values]" in shown
    shard = min((grouped / "examples" / "Split-train").iterdir())
    (alone,) = inspect_examples(str(shard), 1)
    assert sorted(alone.splitlines()[1:]) == sorted(shown.splitlines()[1:])
    assert "(missing)" in "".join(inspect_examples(str(shard), 100))


def test_damaged_steps_are_found(grouped: Path, tmp_path: Path) -> None:
    """The number of values of steps is checked against the schema."""
    shutil.copytree(grouped, tmp_path / "out")
    path = tmp_path / "out" / "schema" / "schema.pbtxt"
    schema = text_format.Parse(path.read_text(), schema_pb2.Schema())
    for feature in schema.feature:
        for child in feature.struct_domain.feature:
            if child.name == "price":
                child.value_counts.value_count[1].min = child.value_counts.value_count[1].max = 1
    path.write_text(text_format.MessageToString(schema))
    add_files(str(tmp_path / "out"), ["schema/schema.pbtxt"])
    with pytest.raises(DataError, match="feature list 'price' has steps without one value"):
        verify_dataset(str(tmp_path / "out"))


def test_schema_is_a_contract_for_steps(data: Path, grouped: Path, tmp_path: Path) -> None:
    """A schema with a value in every step stops null steps.

    A widened one passes.
    """
    schema = read_schema(grouped)
    for feature in schema.feature:
        for child in feature.struct_domain.feature:
            if child.name == "price":
                child.value_counts.value_count[1].min = child.value_counts.value_count[1].max = 1
    contract = tmp_path / "schema.pbtxt"
    contract.write_text(text_format.MessageToString(schema))
    recipe = VISITS + f"schema: {contract}\n"
    with pytest.raises(DataError, match=r"(?s)price.*at least 1 values"):
        converted(data, tmp_path / "out", recipe)
    contract.write_text(text_format.MessageToString(read_schema(grouped)))
    converted(data, tmp_path / "out", recipe)
    assert verify_dataset(str(tmp_path / "out")).rows == verify_dataset(str(grouped)).rows


def test_contract_with_feature_lists_at_the_top_is_refused(data: Path, tmp_path: Path) -> None:
    """A contract with feature lists in the wrong place is refused."""
    contract = tmp_path / "schema.pbtxt"
    contract.write_text('feature { name: "words" type: BYTES }')
    parsed = parse_recipe(LISTS + f"schema: {contract}\n", "recipe.yaml", str(data))
    with pytest.raises(
        RecipeProblems, match="feature 'words' stands at the top, expected it in the struct_domain"
    ):
        make_plan(parsed)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("sequence: {}", "expected|found neither 'features' nor 'group_by'"),
        ("sequence: {order_by: id, features: [ids]}", "found 'order_by' without 'group_by'"),
        ("sequence: {features: [ids], max_length: 0}", "max_length"),
        ("sequence: {features: [idz]}", "unknown feature 'idz'"),
        ("sequence: {features: [id]}", "feature 'id' is int64, expected a list"),
        ("sequence: {group_by: [words]}", "column 'words' is list<text>, expected one value"),
        ("sequence: {group_by: [idd]}\nkeep: [id, label]", "unknown column 'idd'"),
        ("sequence: {features: [ids]}\npreprocessing_fn: f.py", "found it with 'preprocessing_fn'"),
        ("keep: [id]\nsequence: {group_by: [id]}", "found no list among the features"),
    ],
)
def test_problems_of_the_recipe(data: Path, section: str, message: str) -> None:
    """Problems of the section are reported before the read."""
    recipe = f"name: lists\nsources: {{lists: {{path: lists.parquet}}}}\n{section}\n"
    with pytest.raises((RecipeError, RecipeProblems), match=message):
        plan_in(data, recipe)


def test_encodings_apply_to_steps(data: Path, tmp_path: Path) -> None:
    """Encodings apply to each step; the serving graph gives the shards' values."""
    recipe = (
        VISITS
        + """
derive: {cost: 'coalesce(price, 0)'}
encode:
  item: {vocabulary: {num_oov: 1}}
  cost: z_score
  city: vocabulary
  day: drop
  minute: drop
"""
    )
    converted(data, tmp_path / "out", recipe)
    assert verify_dataset(str(tmp_path / "out")).rows
    raw = tmp_path / "raw"
    converted(data, raw, VISITS + "\nderive: {cost: 'coalesce(price, 0)'}\n")
    (plain,) = loader.load(raw, "train", batch_size=500, shuffle=False)
    (encoded,) = loader.load(tmp_path / "out", "train", batch_size=500, shuffle=False)
    graph = Path(bp.make_graph(tmp_path / "out")).parent
    layer = tft.TFTransformOutput(str(graph)).transform_features_layer()
    inputs = {
        name: tensor.to_sparse()
        if isinstance(tensor, tf.RaggedTensor) and tensor.shape.rank == 2
        else tensor
        for name, tensor in plain.items()
        if name != "price"
    }
    inputs["price"] = tf.RaggedTensor.from_row_splits(
        plain["price"].flat_values,
        tf.gather(plain["price"].values.row_splits, plain["price"].row_splits),
    ).to_sparse()
    served = layer(inputs)
    assert (
        tf.sparse.to_dense(served["item"]).numpy().tolist()
        == encoded["item"].to_tensor().numpy().tolist()
    )
    np.testing.assert_array_max_ulp(
        tf.sparse.to_dense(served["cost"]).numpy(), encoded["cost"].to_tensor().numpy(), maxulp=1
    )


def test_validate_finds_rows_to_blame(data: Path, lists: Path, tmp_path: Path) -> None:
    """Rows with steps outside the schema's domain are listed."""
    schema = read_schema(lists)
    for domain in schema.string_domain:
        if domain.name == "words":
            domain.value.remove("w3")
    contract = tmp_path / "schema.pbtxt"
    contract.write_text(text_format.MessageToString(schema))
    with pytest.raises(DataError, match="words"):
        converted(data, tmp_path / "out", LISTS + f"schema: {contract}\n")
    assert '"w3' in (tmp_path / "out" / "rejected" / "_stopped_run.jsonl").read_text().replace(
        "'", '"'
    )


@pytest.mark.slow
def test_text_example_trains(repository: Path, flights_data: Path, tmp_path: Path) -> None:
    """A model trained on the texts example beats the majority class."""
    text = (repository / "examples" / "sequences" / "texts.yaml").read_text()
    text = text.replace("../../.demo/flights-data", str(flights_data)).replace(
        "../../schemas", str(repository / "schemas")
    )
    converted(tmp_path, tmp_path / "out", text)
    command = [
        sys.executable,
        str(repository / "examples" / "train_text.py"),
        str(tmp_path / "out"),
        "--cpus=2",
    ]
    run = subprocess.run(
        [*command, f"--output={tmp_path / 'model'}"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    majority, model = (line.split() for line in run.stdout.splitlines()[-2:])
    assert float(model[1]) > float(majority[2]) + 0.1


@pytest.mark.slow
def test_planes_example_converts(repository: Path, flights_data: Path, tmp_path: Path) -> None:
    """The planes example converts by its schema.

    Every arrived flight is a step.
    """
    text = (repository / "examples" / "sequences" / "planes.yaml").read_text()
    text = text.replace("../../.demo/flights-data", str(flights_data)).replace(
        "../../schemas", str(repository / "schemas")
    )
    converted(tmp_path, tmp_path / "out", text)
    flights = sum(
        int(tf.size(batch["arr_delay"].flat_values))
        for split in ("train", "eval")
        for batch in loader.load(
            tmp_path / "out", split, batch_size=4096, shuffle=False, features=["arr_delay"]
        )
    )
    assert flights == 327_346
