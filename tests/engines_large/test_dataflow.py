"""A job for Dataflow at a real size.

The tests check the submitted graph, and the dataset that Prism makes from the received bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.prism_runner import PrismRunner
from dry_run import Cloud, emulated_cloud, put_files, read_url

from beam_pipelines.cli import main as main_module
from tests.engines import conversions
from tests.engines_large import cases
from tests.support.crossings import STEPS

pytestmark = pytest.mark.engines_large

FLAGS = (
    "--runner=DataflowRunner", "--project=my-project", "--region=europe-west4",
    "--temp_location=gs://jobs/tmp", "--sdk_container_image=image:1", "--sdk_location=container",
    "--no_wait_until_finish",
)  # fmt: skip


@pytest.fixture
def cloud(made: Callable[[str], cases.Made]) -> Iterator[Cloud]:
    """Servers for the interfaces of Dataflow and of Google's storage.

    The clicks are in the bucket ``data``.
    """
    with emulated_cloud() as cloud, mock.patch.dict(os.environ, cloud.environment):
        put_files(cloud.storage, "gs://data", made("clicks_csv").recipe.parent)
        cloud.storage.create_bucket("jobs")
        yield cloud


@pytest.mark.parametrize("engine", [pytest.param("prism", marks=pytest.mark.prism)], indirect=True)
def test_the_staged_job_at_its_size(engine, cloud, made, tmp_path):
    """The submitted graph is small, and Prism makes the local bytes.

    It is far below Dataflow's limit, and its steps are those whose elements are measured.
    """
    arguments = ["--output=gs://jobs/out", *FLAGS, f"--dataflow_endpoint={cloud.dataflow.url}"]
    assert main_module.run(["convert", "gs://data/recipe.yaml", *arguments]) == 0
    (body,) = cloud.dataflow.received
    url = json.loads(body)["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    graph = read_url(cloud.storage, url)
    assert len(graph) + len(body) < 1 << 20
    pipeline = beam_runner_api_pb2.Pipeline.FromString(graph)
    assert _steps_with_side_inputs(pipeline) == STEPS
    for environment in pipeline.components.environments.values():
        environment.urn, environment.payload = python_urns.EMBEDDED_PYTHON_LOOPBACK, b""
        del environment.dependencies[:]
    PrismRunner().run_portable_pipeline(
        pipeline, PipelineOptions([*engine.options])
    ).wait_until_finish()
    assert main_module.run(["verify", "gs://jobs/out"]) == 0
    for blob in cloud.storage.list_blobs("jobs", prefix="out/"):
        path = tmp_path / blob.name
        path.parent.mkdir(parents=True, exist_ok=True)
        blob.download_to_filename(str(path))
    found, expected = (
        {
            name: data
            for name, data in conversions.contents(folder).items()
            if name.startswith("examples/")
        }
        for folder in (tmp_path / "out", made("clicks_csv").expected)
    )
    assert found == expected


def _steps_with_side_inputs(pipeline: beam_runner_api_pb2.Pipeline) -> set[str]:
    steps = set()
    for transform in pipeline.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            if payload.side_inputs:
                steps.add(transform.unique_name)
    return steps
