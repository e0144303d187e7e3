"""Checks a job's engine options before the job is submitted.

The engine is Dataflow or another one. Wrong options would fail there after minutes or hours:
without a project or region, with workers that do not see this machine's files, that this machine
cannot reach, or that lack this package.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipelines.core.errors import RecipeError, nearest

# Runners with Beam's job interface.
_ENGINES = ("flink", "portable", "prism", "spark")
_URN = re.compile(r"beam:env:(\w+):v1")
_PYTHON_OF_IMAGE = re.compile(r"python(\d+\.\d+)")
_WORKERS_NEED = (
    "They need beam-pipelines and this Python, and paths that they see: docs/runners.md."
)


class ReportOptions(PipelineOptions):
    """Where a conversion reports to; Beam ignores it."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--metrics")
        parser.add_argument("--lineage")


class Workers(NamedTuple):
    """The workers of an engine, as far as the options tell.

    Attributes:
      kind: ``LOOPBACK``: threads of this process; ``EXTERNAL``: started by a worker pool;
        ``PROCESS``: started by the engine on its own host; ``DOCKER``: containers that the engine
        starts.
      engine: host of the engine; empty: this machine.
      host: host of the workers; empty: this machine.
      config: the environment's address, command or image.
    """

    kind: str
    engine: str
    host: str
    config: str

    @property
    def see_our_files(self) -> bool:
        """Whether they are processes of this machine, outside containers."""
        return self.kind != "DOCKER" and not self.host


def check_options(options: PipelineOptions, paths: Mapping[str, str]) -> None:
    """Checks the options of a job on an engine.

    The engine is Dataflow, or one with Beam's job interface.

    Args:
      options: for Beam.
      paths: that workers read and write: what each is -> path.

    Raises:
      RecipeError: there is no such runner, or options are wrong; one problem a line.
    """
    check_runner(options.view_as(StandardOptions).runner)
    problems: list[str] = []
    if runner_of(options) == "dataflow":
        problems = [
            *_check_dataflow(options.view_as(GoogleCloudOptions)),
            *_check_dataflow_workers(options),
            *_check_paths(paths, "gs://…", "workers"),
        ]
    elif is_engine(options):
        workers = find_workers(options)
        problems = [*_check_engine(workers, options)]
        if not workers.see_our_files:
            where = "in containers" if workers.kind == "DOCKER" else f"on {workers.host}"
            problems += _check_paths(paths, "gs://… or s3://…", f"workers {where}")
    if problems:
        raise RecipeError("\n".join(problems))


def is_engine(options: PipelineOptions) -> bool:
    """Whether the runner is an engine with Beam's job interface."""
    return runner_of(options) in _ENGINES


def runner_of(options: PipelineOptions) -> str:
    """Returns the runner's name in lower case, without ``runner`` at its end."""
    name = options.view_as(StandardOptions).runner or "direct"
    return str(name.lower().removesuffix("runner"))


def is_inside(options: PipelineOptions) -> bool:
    """Whether the engine is inside its job server, or is Prism."""
    are_inside = {
        "prism": True,
        "flink": options.view_as(FlinkRunnerOptions).flink_master in ("[local]", "[auto]"),
        "spark": options.view_as(SparkRunnerOptions).spark_master_url.startswith("local"),
    }
    return bool(are_inside.get(runner_of(options)))


def find_workers(options: PipelineOptions) -> Workers:
    """Returns the workers of a job, by Beam's defaults."""
    portable = options.view_as(PortableOptions)
    engine = _engine_host(options)
    kind = (portable.environment_type or ("LOOPBACK" if is_inside(options) else "DOCKER")).upper()
    named = _URN.fullmatch(kind.lower())
    kind = named[1].upper() if named else kind
    config = portable.environment_config or options.view_as(WorkerOptions).sdk_container_image or ""
    host = {"EXTERNAL": _host_of(_address(config)), "LOOPBACK": ""}.get(kind, engine)
    return Workers(kind, engine, host, config)


def check_runner(name: str | None) -> None:
    """Raises ``RecipeError`` if Beam knows no runner of a name."""
    known = StandardOptions.KNOWN_RUNNER_NAMES
    if (
        not name
        or "." in name
        or name.lower().removesuffix("runner")
        in [each.lower().removesuffix("runner") for each in (*known, "FnApiRunner")]
    ):
        return
    raise RecipeError(
        f"--runner: found {name}, expected one of {', '.join(known)}, or a class with its "
        f"module.{nearest(name, known)}"
    )


def _engine_host(options: PipelineOptions) -> str:
    """Returns the host of the engine, else of the job server.

    An empty text stands for this machine.
    """
    job_endpoint = options.view_as(PortableOptions).job_endpoint
    address = {
        "flink": options.view_as(FlinkRunnerOptions).flink_master,
        "spark": options.view_as(SparkRunnerOptions).spark_master_url,
    }.get(runner_of(options))
    if not address or is_inside(options):
        address = job_endpoint if job_endpoint != "embed" else ""
    return _host_of(address or "")


def _address(config: str) -> str:
    """Returns the address of a worker pool from its configuration.

    The configuration is plain text, or JSON with a ``url``.
    """
    if not config.startswith("{"):
        return config
    try:
        return str(json.loads(config).get("url", ""))
    except json.JSONDecodeError:
        return ""


def _host_of(address: str) -> str:
    """Returns the host of ``host:port`` or a URL.

    An empty text stands for this machine.
    """
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    is_ours = host in ("", "localhost", "0.0.0.0", "::1", socket.gethostname()) or host.startswith(  # noqa: S104
        "127."
    )
    return "" if is_ours else host


def _check_engine(workers: Workers, options: PipelineOptions) -> Iterator[str]:
    kind, config = workers.kind, workers.config
    if runner_of(options) == "portable" and not options.view_as(PortableOptions).job_endpoint:
        yield (
            "--runner: found PortableRunner without --job_endpoint, expected the host:port of a "
            "job server."
        )
    if kind not in ("LOOPBACK", "EXTERNAL", "PROCESS", "DOCKER"):
        yield f"--environment_type: found {kind}, expected LOOPBACK, EXTERNAL, PROCESS or DOCKER."
    elif kind == "LOOPBACK" and workers.engine:
        yield (
            f"--environment_type: found LOOPBACK with an engine on {workers.engine}, which cannot "
            "reach the workers: they are threads "
            f"of this process. Expected EXTERNAL, PROCESS or DOCKER. {_WORKERS_NEED}"
        )
    elif (
        kind in ("EXTERNAL", "PROCESS")
        and not config
        and not options.view_as(PortableOptions).environment_options
    ):
        expected = (
            "the host:port of a worker pool"
            if kind == "EXTERNAL"
            else "'{\"command\": …}', which starts a worker"
        )
        yield (
            f"--environment_config: found none with --environment_type {kind}, expected {expected}."
        )


def _check_dataflow(options: GoogleCloudOptions) -> Iterator[str]:
    if not options.project:
        yield "--project: found none, expected the Google Cloud project that runs the job."
    # Beam also takes the region of gcloud's settings; without one it falls back to a default.
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


def _check_dataflow_workers(options: PipelineOptions) -> Iterator[str]:
    setup, image = options.view_as(SetupOptions), options.view_as(WorkerOptions).sdk_container_image
    if not (image or setup.extra_packages or setup.requirements_file or setup.setup_file):
        yield (
            "found nothing that brings beam-pipelines to the workers, expected "
            "--sdk_container_image with an image that has it "
            "(Dockerfile), or --extra_package with its wheels. run_dataflow.sh does either."
        )
    version = _PYTHON_OF_IMAGE.search(image or "")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version is not None and version[1] != here:
        yield (
            f"--sdk_container_image: found {image}, expected Python {here}, which submits the job."
        )


def _check_paths(paths: Mapping[str, str], urls: str, workers: str) -> Iterator[str]:
    """Yields the paths of this machine."""
    for what, path in paths.items():
        if "://" not in path:
            yield (
                f"{what}: found {path}, expected a URL such as {urls}: {workers} cannot see a path "
                "of this machine. Copy it there."
            )
