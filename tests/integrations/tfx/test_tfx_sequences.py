"""Sequences in TFX's own programs: TFDV, StatisticsGen, SchemaGen, Transform."""

from __future__ import annotations

import csv
import pathlib
import random

import pytest

from tests.analysis.statistics.tfdv import flat
from tests.integrations.tfx.support import artifacts, need_tfx, run_script, states

need_tfx()
pytestmark = pytest.mark.tfx

RECIPE = """
name: visits
sources: {visits: {path: visits.csv, types: {price: float32, item: text, user: text}}}
sequence: {group_by: user, order_by: minute, context: [city]}
split: {train: 0.6, eval: 0.4, by: [user]}
"""
MODULE = """
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    minutes = tf.cast(inputs["##SEQUENCE##.minute"], tf.float32)
    return {
        "city": tft.compute_and_apply_vocabulary(inputs["city"]),
        "item": tft.compute_and_apply_vocabulary(inputs["##SEQUENCE##.item"]),
        "minutes": tf.reduce_sum(minutes.to_tensor(), axis=[1, 2]),
    }
"""
PIPELINE = """
from beam_pipelines.integrations.tfx.component import RecipeExampleGen
from tfx import v1 as tfx

visits = RecipeExampleGen(recipe="recipe.yaml")
schema = tfx.components.SchemaGen(statistics=visits.outputs["statistics"])
statistics = tfx.components.StatisticsGen(examples=visits.outputs["examples"])
validator = tfx.components.ExampleValidator(
    statistics=visits.outputs["statistics"], schema=visits.outputs["schema"]
)
transform = tfx.components.Transform(
    examples=visits.outputs["examples"], schema=visits.outputs["schema"], module_file="module.py"
)
tfx.orchestration.LocalDagRunner().run(
    tfx.dsl.Pipeline(
        pipeline_name="visits",
        pipeline_root="pipeline",
        components=[visits, schema, statistics, validator, transform],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            "metadata.db"
        ),
    )
)
"""


def write_visits(folder: pathlib.Path) -> None:
    """Writes a table of visits, in any order, with missing prices."""
    chance = random.Random(3)
    with (folder / "visits.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "city", "minute", "price", "item"])
        for _ in range(900):
            user = chance.randrange(120)
            price = chance.choice(["", chance.randrange(9) / 4])
            item = f"i{chance.randrange(20)}"
            writer.writerow([f"u{user}", "ABC"[user % 3], chance.randrange(60), price, item])


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Runs the pipeline on sequences; the folder that it ran in."""
    folder = tmp_path_factory.mktemp("sequences")
    write_visits(folder)
    for name, text in {"recipe.yaml": RECIPE, "module.py": MODULE, "pipeline.py": PIPELINE}.items():
        (folder / name).write_text(text)
    run_script(folder, "pipeline.py")
    return folder


def path_of(folder: pathlib.Path, component: str, type_: str) -> pathlib.Path:
    """Returns the folder of a component's artifact."""
    [found] = (item.uri for item in artifacts(folder, f"/{component}/") if item.type == type_)
    return folder / found


def test_the_components_take_sequences(pipeline) -> None:
    """SchemaGen and ExampleValidator take our statistics, Transform our examples and schema."""
    names = ["ExampleValidator", "RecipeExampleGen", "SchemaGen", "StatisticsGen", "Transform"]
    assert sorted(states(pipeline)) == [(name, "COMPLETE") for name in names]
    [validated] = artifacts(pipeline, "/ExampleValidator/")
    assert dict(validated.properties["blessed"]) == {"train": 1, "eval": 1}


def test_tfdv_infers_our_schema(pipeline) -> None:
    """SchemaGen (``tfdv.infer_schema``) finds in our statistics what our own schema says."""
    import tensorflow_data_validation as tfdv
    from tensorflow_metadata.proto.v0 import schema_pb2

    def read(component: str) -> dict[str, schema_pb2.Feature]:
        path = path_of(pipeline, component, "Schema") / "schema.pbtxt"
        schema = tfdv.load_schema_text(str(path))
        [parent] = (item for item in schema.feature if item.type == schema_pb2.STRUCT)
        assert parent.name == "##SEQUENCE##"
        context = {item.name: item for item in schema.feature if item is not parent}
        return context | {item.name: item for item in parent.struct_domain.feature}

    ours, theirs = read("RecipeExampleGen"), read("SchemaGen")
    assert ours.keys() == theirs.keys() == {"user", "city", "minute", "price", "item"}
    assert all(ours[name].type == theirs[name].type for name in ours)
    for name in ("minute", "item"):  # TFDV promises a value in each step of ``price`` too
        assert ours[name].value_counts == theirs[name].value_counts


def test_statistics_are_those_of_statisticsgen(pipeline) -> None:
    """Statistics of feature lists and of their parent are those of StatisticsGen."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    def read(component: str, split: str) -> dict[str, dict[str, object]]:
        folder = path_of(pipeline, component, "ExampleStatistics")
        data = (folder / f"Split-{split}" / "FeatureStats.pb").read_bytes()
        [dataset] = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
        return {".".join(feature.path.step): flat(feature) for feature in dataset.features}

    for split in ("train", "eval"):
        ours, theirs = read("RecipeExampleGen", split), read("StatisticsGen", split)
        assert ours.keys() == theirs.keys()
        for name in (
            "##SEQUENCE##",
            *(f"##SEQUENCE##.{n}" for n in ("minute", "item", "price")),
            "city",
        ):
            assert ours[name].keys() == theirs[name].keys()
            for path, value in theirs[name].items():
                close = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
                assert ours[name][path] == close, path
