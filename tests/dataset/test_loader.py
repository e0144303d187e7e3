"""``bp.load`` gives every row once an epoch, parsed by the schema.

The order is the requested one; some arguments are refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
import tensorflow as tf
from hypothesis import given
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset import loader
from beam_pipelines.serving.specs import feature_spec
from tests.reader.indexed import add_index
from tests.support import small_dataset


def write_dataset(folder: Path, *arguments, **options) -> str:
    """Writes a dataset with an index of its parts."""
    return add_index(small_dataset.write_dataset(folder, *arguments, **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 50 rows in four shards, one of them empty."""
    return write_dataset(tmp_path_factory.mktemp("dataset"))


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A dataset of 800 rows in eight shards."""
    return write_dataset(tmp_path_factory.mktemp("larger"), [100] * 8)


def ids(batches: tf.data.Dataset) -> list[int]:
    """One epoch's rows, by number, in the order they come."""
    return [number for features, _ in batches for number in features["id"].numpy()[:, 0].tolist()]


def test_a_seed_fixes_the_order_of_every_epoch(larger):
    """A seed fixes the order of every epoch.

    Epochs differ, and so do seeds.
    """
    one, same, other = (loader.load(larger, seed=seed) for seed in (1, 1, 2))
    first, second = ids(one), ids(one)
    assert (ids(same), ids(same)) == (first, second)
    assert first != second
    assert ids(other) != first
    repeated = ids(loader.load(larger, seed=1).repeat(2))
    assert (repeated[:800], repeated[800:]) == (first, second)


@pytest.mark.parametrize(
    ("arguments", "features", "label"),
    [
        ({}, {"id", "half", "words"}, "odd"),
        ({"label": False}, {"id", "half", "words", "odd"}, None),
        ({"label": "id"}, {"half", "words", "odd"}, "id"),
        ({"features": ["half"]}, {"half"}, "odd"),
        ({"features": ["half", "odd"]}, {"half"}, "odd"),
        ({"features": ["half"], "label": False}, {"half"}, None),
    ],
)
def test_label_and_features_are_what_is_asked_for(folder, arguments, features, label):
    """Examples are pairs with the recipe's label by default.

    On request there is no label, another one, or few features.
    """
    element = loader.load(folder, **arguments).element_spec
    found, found_label = element if isinstance(element, tuple) else (element, None)
    assert set(found) == features
    assert (found_label is None) == (label is None)


def test_without_a_label_in_the_recipe_there_are_features_only(tmp_path):
    """``label=True`` asks for the recipe's label, if it has one."""
    assert isinstance(loader.load(write_dataset(tmp_path, label=None)).element_spec, dict)


def test_drop_remainder_makes_all_batches_alike(folder):
    """``remainder`` leaves the rest out and makes the batch size static."""
    batches = loader.load(folder, batch_size=8, remainder="drop", shuffle=False)
    assert batches.element_spec[0]["id"].shape == (8, 1)
    assert ids(batches) == list(range(48))
    assert len(batches) == 6
    assert len(loader.load(folder, "train", batch_size=8)) == 7


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize(
    "order", [{"shuffle": False}, {"seed": 3}, {}], ids=["in order", "seeded", "shuffled"]
)
def test_input_pipelines_divide_the_shards(larger, count, order):
    """All ranks together get every row once."""
    parts = [
        ids(loader.load(larger, rank=rank, world_size=count, **order)) for rank in range(count)
    ]
    assert all(parts)
    assert sorted(number for part in parts for number in part) == list(range(800))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"split": "trian"},
            "found no split 'trian', expected one of train, eval. Did you mean 'train'",
        ),
        (
            {"features": ["halve"]},
            "found no feature 'halve', expected one of the schema's. Did you mean 'half'",
        ),
        ({"label": "od"}, "found no feature 'od', .* Did you mean 'odd'"),
        ({"batch_size": 0}, "batch_size: found 0, expected an integer from 1"),
        (
            {"batch_size": 51, "remainder": "drop"},
            "batch_size: found 51 on 1 ranks, expected together at most the 50 rows",
        ),
        ({"rank": 2, "world_size": 2}, "rank: found 2, expected 0 to 1, as world_size is 2"),
    ],
)
def test_wrong_arguments_are_explained(folder, arguments, message):
    """A wrong argument is an error before anything is read."""
    with pytest.raises(ValueError, match=message):
        loader.load(folder, **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a manifest"),
        ("[]", "is not a manifest"),
        ('{"format_version": 1, "splits": {"train": {}}}', "found a manifest that lacks 'schema'"),
        ('{"format_version": 2}', "format version 2, expected 1"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(tmp_path, text, message):
    """A file that is no manifest, or a later one, is named."""
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(DataError, match=f"dataset.json: {message}"):
        bp.open(tmp_path)


def test_a_changed_byte_in_a_shard_ends_the_epoch(tmp_path):
    """Every record's checksum is checked as it is read."""
    shard = (
        Path(write_dataset(tmp_path, compression="none"))
        / "examples/Split-train/t-00002-of-00004.tfrecord"
    )
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(tf.errors.OpError, match=r"t-00002-of-00004\.tfrecord.*CRC"):
        ids(loader.load(tmp_path))


@st.composite
def schemas(draw):
    """Draws schemas of up to six features.

    They are dense of any rank, of varying length, deprecated or sparse.
    """
    schema = schema_pb2.Schema(represent_variable_length_as_ragged=draw(st.booleans()))
    for number in range(draw(st.integers(1, 6))):
        feature = schema.feature.add(name=f"f{number}", type=draw(st.sampled_from([1, 2, 3])))
        kind = draw(st.sampled_from(["dense", "length", "nothing", "planned"]))
        if kind == "dense":
            feature.presence.min_fraction = 1
            feature.shape.SetInParent()
            for size in draw(st.lists(st.integers(1, 4), max_size=3)):
                feature.shape.dim.add(size=size)
        elif kind == "length":
            feature.value_count.min = feature.value_count.max = draw(st.integers(1, 3))
        elif kind == "planned":
            feature.lifecycle_stage = schema_pb2.PLANNED
    if draw(st.booleans()):
        for suffix, kind in (("index", schema_pb2.INT), ("value", schema_pb2.FLOAT)):
            schema.feature.add(name=f"sparse_{suffix}", type=kind)
        schema.feature[-2].int_domain.min, schema.feature[-2].int_domain.max = 0, 99
        sparse = schema.sparse_feature.add(name="sparse")
        sparse.index_feature.add(name="sparse_index")
        sparse.value_feature.name = "sparse_value"
    return schema


@given(schemas())
def test_the_feature_spec_is_tensorflow_transforms(schema):
    """For any schema, features parse as tf.Transform, and so TFX, parses them."""
    assert feature_spec(schema) == schema_utils.schema_as_feature_spec(schema).feature_spec


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        ("type: INT bool_domain {}", ()),
        ('type: BYTES bool_domain { true_value: "yes" false_value: "no" }', ("no", "yes")),
        ('type: BYTES string_domain { value: "cat" value: "dog" }', ("cat", "dog")),
        ('type: BYTES domain: "animals"', ("bee", "ant")),
        ("type: INT", ()),
    ],
)
def test_labels_are_those_of_the_labels_domain(tmp_path, feature, names):
    """Labels are in the order of the schema.

    A label without named classes has none.
    """
    schema = (
        f'feature {{ name: "odd" {feature} }} string_domain {{ name: "animals" value: "bee" '
        f'value: "ant" }}'
    )
    assert bp.open(write_dataset(tmp_path, schema=schema)).labels() == names


def test_labels_are_those_that_the_source_knows(tmp_path):
    """Names of the label's ids in the manifest come first.

    Names of another feature are not the label's.
    """
    folder = write_dataset(tmp_path, labels={"id": ["no", "yes"], "odd": ["even", "odd"]})
    assert bp.open(folder).labels() == ("even", "odd")


UNDER_MIRRORED_STRATEGY = """
import json, sys
import tensorflow as tf
from beam_pipelines.dataset import loader

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
batches = strategy.experimental_distribute_dataset(loader.load(sys.argv[1], batch_size=100, seed=1))
rows, sizes = [], []
for features, label in batches:
    local = strategy.experimental_local_results(features["id"])
    sizes.append([len(part) for part in local])
    rows += [int(number) for part in local for number in part[:, 0]]
print(json.dumps({"rows": rows, "sizes": sizes, "beam": [name for name in sys.modules if name.startswith("apache_beam")]}))
"""


def test_replicas_share_the_batches_and_no_beam_is_imported(larger, repository):
    """Two replicas share the batches, and the process imports no Beam.

    Under MirroredStrategy each gets half of every batch, all rows once.
    """
    command = [sys.executable, "-c", UNDER_MIRRORED_STRATEGY, larger]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert sorted(result["rows"]) == list(range(800))
    assert result["sizes"] == [[50, 50]] * 8
    assert result["beam"] == []
