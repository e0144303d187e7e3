"""The pipelines of docs/tfx.md, as they stand there, run by TFX's LocalDagRunner."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import psutil
import pytest

from beam_pipelines.dataset.verify import verify_dataset
from tests.integrations.tfx.support import (
    artifacts,
    need_tfx,
    run_script,
    states,
    store_of,
    warnings_in,
    write_clicks,
    write_documented,
)

need_tfx()
pytestmark = pytest.mark.tfx

# In the code of a worker process.
WORKER = "apache_beam.runners.worker import sdk_worker_main"
# The same pipeline with TFX's own components in front.
OWN = """
csv = tfx.components.CsvExampleGen(input_base="data")
counted = tfx.components.StatisticsGen(examples=csv.outputs["examples"]).with_id("Counted")
inferred = tfx.components.SchemaGen(statistics=counted.outputs["statistics"]).with_id("Inferred")


class clicks:
    outputs = {"examples": csv.outputs["examples"], "statistics": counted.outputs["statistics"], "schema": inferred.outputs["schema"]}
"""
ALONE = """
import sys

from beam_pipelines.integrations.tfx.component import RecipeExampleGen
from tfx import v1 as tfx

clicks = RecipeExampleGen(recipe="recipe.yaml")
tfx.orchestration.LocalDagRunner().run(
    tfx.dsl.Pipeline(
        pipeline_name="alone",
        pipeline_root="pipeline",
        components=[clicks],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config("metadata.db"),
        beam_pipeline_args=sys.argv[1:],
    )
)
"""


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """Runs the first pipeline of the page.

    The fixture holds its folder and its log.
    """
    folder = tmp_path_factory.mktemp("documented")
    write_documented(folder)
    return folder, run_script(folder, "pipeline.py")


def test_the_documented_pipeline_runs(documented):
    """TFX's components take our outputs, and a model is trained.

    They are ExampleValidator, Transform, Trainer, StatisticsGen and SchemaGen.
    """
    folder, _ = documented
    assert sorted(states(folder)) == [
        (name, "COMPLETE")
        for name in (
            "ExampleValidator",
            "RecipeExampleGen",
            "SchemaGen",
            "StatisticsGen",
            "Trainer",
            "Transform",
        )
    ]
    assert list(folder.glob("pipeline/Trainer/model/*/Format-Serving/saved_model.pb"))


def test_outputs_are_the_folders_of_one_dataset(documented):
    """The artifacts are in one folder, which is a dataset.

    Its shards match its manifest, and there is nothing elsewhere.
    """
    folder, _ = documented
    [dataset] = (folder / "pipeline" / "RecipeExampleGen" / "dataset").iterdir()
    ours = {
        artifact.type: pathlib.Path(artifact.uri)
        for artifact in artifacts(folder, "RecipeExampleGen")
    }
    assert ours == {
        "Examples": dataset.relative_to(folder) / "examples",
        "ExampleStatistics": dataset.relative_to(folder) / "statistics",
        "Schema": dataset.relative_to(folder) / "schema",
        "ExampleAnomalies": dataset.relative_to(folder) / "anomalies",
    }
    assert verify_dataset(str(dataset)).rows == 600
    assert not (dataset / "transform_graph").exists()
    own = folder / "pipeline" / "RecipeExampleGen"
    assert {path.relative_to(own).parts[0] for path in own.rglob("*") if path.is_file()} == {
        "dataset"
    }


def test_artifacts_say_what_they_hold(documented):
    """Artifacts have splits, span, format and blessing like those of TFX."""
    folder, _ = documented
    found = {
        artifact.type: artifact.properties for artifact in artifacts(folder, "RecipeExampleGen")
    }
    for type_ in ("Examples", "ExampleStatistics", "ExampleAnomalies"):
        assert json.loads(found[type_]["split_names"]) == ["train", "eval"]
        assert found[type_]["span"] == 0
    assert found["Examples"]["payload_format"] == "FORMAT_TF_EXAMPLE"
    assert found["Examples"]["file_format"] == "tfrecords_gzip"
    assert found["Examples"]["input_fingerprint"].startswith("sha256:")
    assert dict(found["ExampleAnomalies"]["blessed"]) == {"train": 1, "eval": 1}


def test_tfx_finds_nothing_wrong(documented):
    """ExampleValidator blesses our statistics against our schema."""
    folder, _ = documented
    [validated] = (artifact for artifact in artifacts(folder, "ExampleValidator"))
    assert dict(validated.properties["blessed"]) == {"train": 1, "eval": 1}


def test_tfx_counts_what_we_count(documented):
    """StatisticsGen and our statistics agree on every feature.

    They agree on the numbers of examples and values; StatisticsGen reads our examples.
    """
    from tensorflow_metadata.proto.v0 import statistics_pb2

    folder, _ = documented

    def counts(uri: str, split: str) -> dict[str, tuple[int, int]]:
        data = (folder / uri / f"Split-{split}" / "FeatureStats.pb").read_bytes()
        [dataset] = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
        common = {
            feature.path.step[0]: (
                feature.num_stats if feature.HasField("num_stats") else feature.string_stats
            ).common_stats
            for feature in dataset.features
        }
        return {
            name: (stats.num_non_missing, stats.tot_num_values) for name, stats in common.items()
        }

    [ours] = (
        artifact.uri
        for artifact in artifacts(folder, "RecipeExampleGen")
        if artifact.type == "ExampleStatistics"
    )
    [theirs] = (artifact.uri for artifact in artifacts(folder, "StatisticsGen"))
    for split in ("train", "eval"):
        assert counts(ours, split) == counts(theirs, split)
        assert set(counts(ours, split)) == {"age", "country", "spent", "clicked"}


def test_nothing_is_warned_of(documented, tmp_path):
    """The log has no warnings beyond those of TFX's own components.

    The same pipeline behind CsvExampleGen, StatisticsGen and SchemaGen has all of them.
    """
    _, log = documented
    write_documented(tmp_path)
    write_clicks(tmp_path / "data" / "clicks.csv")
    script = tmp_path / "pipeline.py"
    text = script.read_text().replace('clicks = RecipeExampleGen(recipe="recipe.yaml")\n', OWN)
    script.write_text(text.replace("components=[clicks, ", "components=[csv, counted, inferred, "))
    assert warnings_in(log) - warnings_in(run_script(tmp_path, "pipeline.py")) == set()


def test_the_documented_pipeline_with_encodings_runs(tmp_path):
    """Trainer takes encoded examples and the transform graph.

    All five outputs are there.
    """
    write_documented(tmp_path)
    run_script(tmp_path, "encoded.py")
    assert states(tmp_path) == [("RecipeExampleGen", "COMPLETE"), ("Trainer", "COMPLETE")]
    assert {
        pathlib.Path(artifact.uri).name for artifact in artifacts(tmp_path, "RecipeExampleGen")
    } == {"examples", "statistics", "schema", "anomalies", "transform_graph"}


def test_the_documented_import_runs(tmp_path):
    """Importer takes the folders of a dataset of the command line.

    ExampleValidator and Transform read them, without a warning about formats.
    """
    from beam_pipelines.cli.main import run

    write_documented(tmp_path)
    assert (
        run(
            [
                "convert",
                str(tmp_path / "recipe.yaml"),
                "--output",
                str(tmp_path / "out" / "clicks"),
                "--quiet",
            ]
        )
        == 0
    )
    log = run_script(tmp_path, "importing.py")
    assert [state for _, state in states(tmp_path)] == ["COMPLETE"] * 5
    assert "does not have payload_format" not in log
    [validated] = (artifact for artifact in artifacts(tmp_path, "ExampleValidator"))
    assert dict(validated.properties["blessed"]) == {"train": 1, "eval": 1}


def test_cache_goes_by_content(tmp_path):
    """A touched input and a commented recipe are taken from the cache.

    A changed byte is not, though size and date stay.
    """
    write_documented(tmp_path)
    (tmp_path / "alone.py").write_text(ALONE)
    data, recipe = tmp_path / "clicks.csv", tmp_path / "recipe.yaml"
    run_script(tmp_path, "alone.py")
    os.utime(data, (1, 1))
    recipe.write_text("# clicks\n" + recipe.read_text())
    run_script(tmp_path, "alone.py")
    assert [state for _, state in states(tmp_path)] == ["COMPLETE", "CACHED"]
    text = data.read_text()
    data.write_text(text.replace("DE", "ES", 1))
    os.utime(data, (1, 1))
    assert data.stat().st_size == len(text)
    run_script(tmp_path, "alone.py")
    assert [state for _, state in states(tmp_path)] == ["COMPLETE", "CACHED", "COMPLETE"]
    domains = [
        path.read_text()
        for path in sorted(tmp_path.glob("pipeline/*/dataset/*/schema/schema.pbtxt"))
    ]
    assert ['"ES"' in domain for domain in domains] == [False, True]
    recipe.write_text(recipe.read_text().replace("0.7", "0.6").replace("0.3", "0.4"))
    run_script(tmp_path, "alone.py")
    assert states(tmp_path)[-1][1] == "COMPLETE"


def test_beam_options_reach_beam(tmp_path):
    """``beam_pipeline_args`` start worker processes.

    An input of this size would else be read in one thread.
    """
    write_documented(tmp_path)
    (tmp_path / "alone.py").write_text(ALONE)
    options = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    seen: set[int] = set()
    with subprocess.Popen(
        [sys.executable, "alone.py", *options], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                children = psutil.Process(process.pid).children(recursive=True)
                seen.update(
                    child.pid
                    for child in children
                    if any(WORKER in each for each in child.cmdline())
                )
            time.sleep(0.1)
    assert process.returncode == 0
    assert len(seen) == 2
    assert states(tmp_path) == [("RecipeExampleGen", "COMPLETE")]


def write_contract(folder: pathlib.Path) -> pathlib.Path:
    """Adds a schema that the clicks break to the recipe."""
    schema = 'feature { name: "age" type: INT int_domain { max: 50 } }\n'
    names = {"country": "BYTES", "spent": "FLOAT", "clicked": "INT"}
    schema += "".join(
        f'feature {{ name: "{name}" type: {type_} }}\n' for name, type_ in names.items()
    )
    (folder / "contract.pbtxt").write_text(schema)
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "schema: contract.pbtxt\n")
    return recipe


def test_a_recipe_accepts_anomalies(tmp_path):
    """The recipe's ``allow_anomalies`` holds for the component."""
    write_documented(tmp_path)
    (tmp_path / "alone.py").write_text(ALONE)
    recipe = write_contract(tmp_path)
    strict = recipe.read_text()
    recipe.write_text(strict + "allow_anomalies: INT_TYPE_BIG_INT\n")
    run_script(tmp_path, "alone.py")
    recipe.write_text(strict)
    run = subprocess.run([sys.executable, "alone.py"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert [state for _, state in states(tmp_path)] == ["COMPLETE", "FAILED"]


def test_a_run_that_fails_leaves_no_dataset(tmp_path):
    """Data that break the contract stop the pipeline with our message.

    The execution has failed, and only the blamed rows are left.
    """
    write_documented(tmp_path)
    (tmp_path / "alone.py").write_text(ALONE)
    write_contract(tmp_path)
    run = subprocess.run([sys.executable, "alone.py"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert "FindingsError" in run.stderr
    assert "age" in run.stderr.strip().splitlines()[-1]
    assert states(tmp_path) == [("RecipeExampleGen", "FAILED")]
    left = {
        path.name
        for path in (tmp_path / "pipeline" / "RecipeExampleGen" / "dataset" / "1").iterdir()
    }
    assert left <= {"rejected"}
    assert list(artifacts(tmp_path)) == []
    assert (
        store_of(tmp_path).get_executions()[0].custom_properties["recipe"].string_value
        == "recipe.yaml"
    )
