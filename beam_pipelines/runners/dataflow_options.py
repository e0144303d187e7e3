"""Checks the options of a job on Google Cloud Dataflow before it is submitted: what is wrong would
fail there, half an hour later.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping

from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipelines.core.errors import RecipeError

_PYTHON_OF_IMAGE = re.compile(r"beam_python(\d+\.\d+)_sdk")


def check_dataflow(options: PipelineOptions, paths: Mapping[str, str]) -> None:
    """Checks the options of a job, if it is one on Dataflow.

    Args:
      options: for Beam.
      paths: what workers read and write: what it is -> path.

    Raises:
      RecipeError: lists every problem, one a line.
    """
    runner = options.view_as(StandardOptions).runner or ""
    if runner.lower().removesuffix("runner") != "dataflow":
        return
    problems = [
        *_places(options.view_as(GoogleCloudOptions)),
        *_workers(options),
        *_local_paths(paths),
    ]
    if problems:
        raise RecipeError("\n".join(problems))


def _places(options: GoogleCloudOptions) -> Iterator[str]:
    """Yields what is wrong with where the job runs."""
    if not options.project:
        yield "--project: found none, expected the Google Cloud project that runs the job."
    # Beam takes the region of gcloud's settings too, and without one falls back to its own idea of
    # it.
    if not (options.region or os.environ.get("CLOUDSDK_COMPUTE_REGION")):
        yield (
            "--region: found none, expected one such as us-central1: where the data are, or "
            "every byte travels."
        )
    if not options.temp_location:
        yield "--temp_location: found none, expected a gs:// URL for temporary files."
    for name in ("temp_location", "staging_location"):
        path = getattr(options, name)
        if path and not path.startswith("gs://"):
            yield (
                f"--{name}: found {path}, expected a gs:// URL: workers cannot see a path of "
                "this machine."
            )


def _workers(options: PipelineOptions) -> Iterator[str]:
    """Yields what is wrong with what the workers run."""
    setup, image = options.view_as(SetupOptions), options.view_as(WorkerOptions).sdk_container_image
    if not (image or setup.extra_packages or setup.requirements_file or setup.setup_file):
        yield (
            "found nothing that brings beam-pipelines to the workers, expected "
            "--sdk_container_image with an image that has it "
            "(Dockerfile), or --extra_package with its wheel. run_dataflow.sh does either."
        )
    ours, theirs = (
        f"{sys.version_info[0]}.{sys.version_info[1]}",
        _PYTHON_OF_IMAGE.search(image or ""),
    )
    if theirs is not None and theirs[1] != ours:
        yield (
            f"--sdk_container_image: found {image}, expected Python {ours}, which submits the job."
        )


def _local_paths(paths: Mapping[str, str]) -> Iterator[str]:
    for what, path in paths.items():
        if "://" not in path:
            yield (
                f"{what}: found {path}, expected a URL such as gs://…: workers cannot see a "
                "path of this machine. Copy it there."
            )
