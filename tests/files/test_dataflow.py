"""Jobs for Dataflow, submitted to a local server and run there.

The server speaks Dataflow's interface, and another one is the storage. The jobs run from the bytes
that the server received.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from unittest import mock

import proof
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from dry_run import Cloud, emulated_cloud, put_files, read_url
from google.cloud import dataflow_v1beta3
from launch import command_of

from beam_pipelines.cli import main as main_module
from beam_pipelines.files import stores

pytestmark = pytest.mark.remote
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = """
name: clicks
sources:
  clicks: {path: ../raw/*.csv}
  users: {path: ../raw/users.csv, key: user}
from: clicks
join:
  - {source: users, on: user}
encode:
  city: vocabulary
schema: ../schemas/clicks.pbtxt
split: {train: 0.8, eval: 0.2}
output: {num_shards: 2}
"""
SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } }
feature { name: "user" type: BYTES presence { min_fraction: 1 } }
feature { name: "city" type: BYTES presence { min_fraction: 1 } }
"""
FLAGS = [
    "--runner=DataflowRunner", "--project=my-project", "--region=europe-west4",
    "--temp_location=gs://jobs/tmp", "--job_name=clicks", "--sdk_container_image=image:1",
    "--sdk_location=container",
]  # fmt: skip


@pytest.fixture
def cloud(tmp_path: pathlib.Path) -> Iterator[Cloud]:
    """Both servers, with raw data and the recipe in the bucket ``data``."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text(
        "id,user\n" + "".join(f"{n},u{n % 9}\n" for n in range(900))
    )
    (tmp_path / "raw" / "b.csv").write_text(
        "id,user\n" + "".join(f"{n},u{n % 9}\n" for n in range(900, 1000))
    )
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "users.csv").write_text(
        "user,city\n" + "".join(f"u{n},city {n % 3}\n" for n in range(9))
    )
    (tmp_path / "recipes").mkdir()
    recipe = RECIPE.replace("../raw/users.csv", "../users/users.csv")
    (tmp_path / "recipes" / "clicks.yaml").write_text(recipe)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "clicks.pbtxt").write_text(SCHEMA)
    with emulated_cloud() as cloud, mock.patch.dict(os.environ, cloud.environment):
        stores._made.cache_clear()  # of an earlier emulator
        put_files(cloud.storage, "gs://data", tmp_path)
        cloud.storage.create_bucket("jobs")
        yield cloud


def submit(cloud: Cloud, *arguments: str) -> int:
    """Converts the recipe in the storage by a job on the server.

    Returns:
      The command's exit status.
    """
    flags = [*FLAGS, f"--dataflow_endpoint={cloud.dataflow.url}"]
    return main_module.run(
        ["convert", "gs://data/recipes/clicks.yaml", "--output=gs://jobs/out", *flags, *arguments]
    )


def received(cloud: Cloud) -> tuple[dataflow_v1beta3.Job, dict]:
    """The job that the server received, and its pipeline options."""
    (body,) = cloud.dataflow.received
    return dataflow_v1beta3.Job.from_json(body), json.loads(body)["environment"][
        "sdkPipelineOptions"
    ]["options"]


def run_received(cloud: Cloud) -> beam_runner_api_pb2.Pipeline:
    """Runs the received job on Beam's local runner, and returns its pipeline."""
    _, options = received(cloud)
    pipeline = beam_runner_api_pb2.Pipeline.FromString(
        read_url(cloud.storage, options["pipelineUrl"])
    )
    for environment in pipeline.components.environments.values():
        environment.urn, environment.payload = python_urns.EMBEDDED_PYTHON, b""
        del environment.dependencies[:]
    FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([])).wait_until_finish()
    return pipeline


def test_a_job_has_all_that_dataflow_asks_for(cloud, capsys):
    """A job has all fields of the command.

    These are name, type, region, workers, image, experiments, labels, scheduling and places of
    files.
    """
    more = [
        "--machine_type=n2-highmem-8",
        "--max_num_workers=7",
        "--autoscaling_algorithm=THROUGHPUT_BASED",
    ]
    more += [
        "--labels=team=ads",
        "--labels=stage=test",
        "--flexrs_goal=COST_OPTIMIZED",
        "--experiments=shuffle_mode=service",
    ]
    assert submit(cloud, *more, "--no_wait_until_finish") == 0
    job, options = received(cloud)
    environment, (pool,) = job.environment, job.environment.worker_pools
    assert (job.name, job.type_.name) == ("clicks", "JOB_TYPE_BATCH")
    assert {"use_runner_v2", "shuffle_mode=service"} <= set(environment.experiments)
    assert environment.flex_resource_scheduling_goal.name == "FLEXRS_COST_OPTIMIZED"
    assert environment.temp_storage_prefix.startswith("storage.googleapis.com/jobs/tmp")
    assert dict(job.labels) == {"team": "ads", "stage": "test"}
    assert (pool.machine_type, pool.autoscaling_settings.max_num_workers) == ("n2-highmem-8", 7)
    assert pool.autoscaling_settings.algorithm.name == "AUTOSCALING_ALGORITHM_BASIC"
    assert [image.container_image for image in pool.sdk_harness_container_images] == ["image:1"]
    assert (options["region"], options["project"]) == ("europe-west4", "my-project")
    assert "dry-run" in capsys.readouterr().out  # the job's id
    # The job's mark, by which it sees at its end that no other run has begun.
    assert [blob.name for blob in cloud.storage.list_blobs("jobs", prefix="out/")] == [
        "out/_temporary/run.json"
    ]


def test_a_pipeline_is_whole_without_the_machine_that_submitted_it(cloud, tmp_path):
    """Another runner makes a dataset that verifies from the staged pipeline.

    The recipe and the schema are gone by then.
    """
    assert submit(cloud, "--no_wait_until_finish") == 0
    for name in ("recipes/clicks.yaml", "schemas/clicks.pbtxt"):
        cloud.storage.bucket("data").blob(name).delete()
    pipeline = run_received(cloud)
    steps = {
        transform.unique_name.split("/")[1]
        for transform in pipeline.components.transforms.values()
        if "/" in transform.unique_name
    }
    assert {"FirstPass", "BuildGraph", "WriteShards", "Commit"} <= steps
    assert main_module.run(["verify", "gs://jobs/out"]) == 0
    manifest = json.loads(read_url(cloud.storage, "gs://jobs/out/dataset.json"))
    assert manifest["counts"]["written"] == 1_000
    assert [blob.name for blob in cloud.storage.list_blobs("jobs", prefix="out/_temporary")] == []


def test_proof(cloud, tmp_path, capsys):
    """The proof has id, command, counts and checksums of a job."""
    file = tmp_path / "proof.json"
    given = ["--project=my-project", "--bucket=jobs", "--rows=20000", f"--file={file}"]
    submitted = ["--option=--image", "--option=image:1", "--option=--no_wait"]
    assert proof.main([*given, *submitted, f"--dataflow_endpoint={cloud.dataflow.url}"]) == 1
    job = json.loads(file.read_text())
    assert (job["job"], job["status"], job["same_bytes"]) == ("2000-01-01_dry-run", 0, False), job
    assert "found no dataset.json" in job["dataset"]
    run_received(cloud)
    assert proof.main([*given, "--collect"]) == 0
    found = json.loads(file.read_text())
    assert found["job"] == job["job"]
    assert "run_dataflow.sh gs://jobs/beam-pipelines-proof/recipe.yaml" in found["command"]
    assert found["counts"]["written"] == 20_000 == sum(s["rows"] for s in found["shards"].values())
    assert found["shards"] == found["shards_here"]
    assert {"apache-beam", "python"} <= {*found["versions"]}
    assert found["timings"]["total_secs"] > 0
    assert "the same bytes as here" in capsys.readouterr().out


def test_a_template_is_written_instead_of_a_job(cloud, capsys):
    """The command of a Flex Template's launcher writes a template.

    It leaves the job at the launcher's path, and submits none.
    """
    given = ["--recipe=gs://data/recipes/clicks.yaml", "--output=gs://jobs/out"]
    given += ["--overwrite=false", "--template_location=gs://jobs/staging/job_object", *FLAGS]
    command = command_of(given, {})
    assert main_module.run(command) == 0
    job = json.loads(read_url(cloud.storage, "gs://jobs/staging/job_object"))
    assert job["name"] == "clicks"
    assert cloud.dataflow.received == []
    assert "gs://jobs/staging/job_object" in capsys.readouterr().out


def dry_run(folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script, which submits nothing."""
    command = ["bash", "run_dataflow.sh", str(folder / "recipe.yaml"), "--dry-run", *options]
    command += ["--output", "gs://work-bucket/out", "--temp", "gs://work-bucket/tmp"]
    command += ["--project", "my-project"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_script_goes_as_far_as_one_can_without_a_cloud(tmp_path):
    """`run_dataflow.sh --dry-run` builds the wheels, submits and prints the job.

    The wheels are staged under their names.
    """
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "a.csv").write_text("id,x\n1,2\n3,4\n")
    (tmp_path / "recipe.yaml").write_text(
        "name: small\nsources: {small: {path: 'gs://raw-data/small/*.csv'}}\n"
    )
    run = dry_run(tmp_path, "--flexrs", "--data", f"gs://raw-data/small={tmp_path / 'sample'}")
    assert run.returncode == 0, run.stderr
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert "job beam-pipelines-recipe, JOB_TYPE_BATCH, in us-central1" in lines
    assert "scheduling FLEXRS_COST_OPTIMIZED" in lines
    assert "labels tool=beam-pipelines" in lines
    for name in ("beam_pipelines_reader", "beam_pipelines"):
        assert [line for line in lines if line.startswith(f"staged {name}-") and ".whl, " in line]
    assert [line for line in lines if line.startswith("experiments ") and "use_runner_v2" in line]


@pytest.mark.parametrize(
    ("recipe", "status", "message"),
    [
        ("name: a\nsources: {a: {path: a.csv}}\n", 2, "sources.a.path: found"),
        ("name: a\nsources: {a: {path: 'gs://raw-data/none/*.csv'}}\n", 1, "gs://raw-data/none/*.csv: cannot be listed"),
    ],
)  # fmt: skip
def test_script_refuses_data_that_workers_cannot_read(tmp_path, recipe, status, message):
    """A local or missing source ends the dry run with an error.

    It is the recipe's own error.
    """
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "recipe.yaml").write_text(recipe)
    run = dry_run(tmp_path, "--image", "image:1")
    assert run.returncode == status
    assert message in run.stderr
    assert "Traceback" not in run.stderr
