"""Checks the options of a job on Prism, Flink, Spark or another engine with Beam's job interface
before it is submitted.

What is wrong would fail there after minutes or hours, if it failed: a worker that does not see this
machine's files, that this machine cannot be reached from, or that lacks this package.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_pipelines.core.errors import RecipeError, nearest

_RUNNERS = ("flink", "portable", "prism", "spark")
_URN = re.compile(r"beam:env:(\w+):v1")
_PYTHON_OF_IMAGE = re.compile(r"python(\d+\.\d+)")
_STOCK_IMAGE = re.compile(r"(^|/)apache/beam_python[\d.]+_sdk(:|@|$)|^beam_python[\d.]+_sdk(:|@|$)")
_WHAT_WORKERS_NEED = (
    "They need beam-pipelines and this Python, and paths that they see: docs/runners.md."
)


class Workers(NamedTuple):
    """What runs the pipeline's steps.

    Attributes:
      kind: ``LOOPBACK``: threads of this process; ``EXTERNAL``: a worker pool starts them;
        ``PROCESS``: the engine starts them beside itself; ``DOCKER``: the engine starts a
        container.
      engine: the host that the engine is on, as far as the options tell; empty: this machine.
      host: the host that the workers are on; empty: this machine.
      config: the environment's own: address, command or image.
    """

    kind: str
    engine: str
    host: str
    config: str

    @property
    def see_our_files(self) -> bool:
        """Whether they are processes of this machine, outside of containers."""
        return self.kind != "DOCKER" and not self.host


def check_engine(options: PipelineOptions, paths: Mapping[str, str]) -> None:
    """Checks the options of a job, if it is one on an engine with Beam's job interface.

    Args:
      options: for Beam.
      paths: what workers read and write: what it is -> path.

    Raises:
      RecipeError: there is no such runner, or something is wrong; lists every problem, one a line.
    """
    _check_runner(options)
    if not is_engine(options):
        return
    workers = find_workers(options)
    problems = [*_engine(options), *_environment(workers, options), *_local_paths(workers, paths)]
    if problems:
        raise RecipeError("\n".join(problems))


def is_engine(options: PipelineOptions) -> bool:
    """Whether the runner is one of those that this module checks."""
    return runner_of(options) in _RUNNERS


def runner_of(options: PipelineOptions) -> str:
    """Returns the runner's name in lower case, without ``runner`` at its end."""
    name = options.view_as(StandardOptions).runner or "direct"
    return str(name.lower().removesuffix("runner"))


def find_workers(options: PipelineOptions) -> Workers:
    """Returns what will run the pipeline's steps, by Beam's own defaults."""
    portable = options.view_as(PortableOptions)
    engine = _engine_host(options)
    kind = (portable.environment_type or _default_kind(options)).upper()
    named = _URN.fullmatch(kind.lower())
    kind = named[1].upper() if named else kind
    config = portable.environment_config or options.view_as(WorkerOptions).sdk_container_image or ""
    host = {"EXTERNAL": _host_of(_address(config)), "LOOPBACK": ""}.get(kind, engine)
    return Workers(kind, engine, host, config)


def _check_runner(options: PipelineOptions) -> None:
    name = options.view_as(StandardOptions).runner
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


def _default_kind(options: PipelineOptions) -> str:
    """Returns the kind of workers that Beam takes where none is named."""
    is_inside = {
        "prism": True,
        "flink": options.view_as(FlinkRunnerOptions).flink_master in ("[local]", "[auto]"),
        "spark": options.view_as(SparkRunnerOptions).spark_master_url.startswith("local"),
    }
    return "LOOPBACK" if is_inside.get(runner_of(options), False) else "DOCKER"


def _engine_host(options: PipelineOptions) -> str:
    """Returns the host of the engine, or of the job server where that alone knows it; empty: this
    machine.
    """
    runner, job_endpoint = runner_of(options), options.view_as(PortableOptions).job_endpoint
    address = {
        "flink": options.view_as(FlinkRunnerOptions).flink_master.strip("[]"),
        "spark": options.view_as(SparkRunnerOptions).spark_master_url,
    }.get(runner, "")
    if address in ("local", "auto", "") or (runner == "spark" and address.startswith("local")):
        address = job_endpoint if job_endpoint != "embed" else ""
    return _host_of(address or "")


def _address(config: str) -> str:
    """Returns the address of a worker pool: Beam takes it as it is, or as JSON with a ``url``."""
    if not config.startswith("{"):
        return config
    try:
        return str(json.loads(config).get("url", ""))
    except json.JSONDecodeError:
        return ""


def _host_of(address: str) -> str:
    """Returns the host of ``host:port`` or a URL; empty if it is this machine."""
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    is_ours = host in ("", "localhost", "0.0.0.0", "::1", socket.gethostname()) or host.startswith(  # noqa: S104
        "127."
    )
    return "" if is_ours else host


def _engine(options: PipelineOptions) -> Iterator[str]:
    """Yields what is wrong with where the job goes."""
    if runner_of(options) == "portable" and not options.view_as(PortableOptions).job_endpoint:
        yield (
            "--runner: found PortableRunner without --job_endpoint, expected the host:port of a "
            "job server."
        )


def _environment(workers: Workers, options: PipelineOptions) -> Iterator[str]:
    """Yields what is wrong with what the workers run."""
    kind, config = workers.kind, workers.config
    if kind not in ("LOOPBACK", "EXTERNAL", "PROCESS", "DOCKER"):
        yield f"--environment_type: found {kind}, expected LOOPBACK, EXTERNAL, PROCESS or DOCKER."
    elif kind == "LOOPBACK" and workers.engine:
        yield (
            f"--environment_type: found LOOPBACK with an engine on {workers.engine}, which cannot "
            "reach the workers: they are threads "
            f"of this process. Expected EXTERNAL, PROCESS or DOCKER. {_WHAT_WORKERS_NEED}"
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
    elif kind == "DOCKER":
        yield from _image(config, options.view_as(SetupOptions))


def _image(image: str, setup: SetupOptions) -> Iterator[str]:
    """Yields what is wrong with the container of the workers, as far as its name tells."""
    brings = setup.extra_packages or setup.requirements_file or setup.setup_file
    if not brings and (not image or _STOCK_IMAGE.search(image)):
        yield (
            f"--environment_type: found DOCKER with {image or 'the image of Beam'}, in which there "
            "is no beam-pipelines. Expected "
            "--environment_config with an image that has it (Dockerfile), or --extra_package with "
            "its wheel."
        )
    ours, theirs = f"{sys.version_info[0]}.{sys.version_info[1]}", _PYTHON_OF_IMAGE.search(image)
    if theirs and theirs[1] != ours:
        yield (
            f"--environment_config: found {image}, expected an image with Python {ours}, which "
            "submits the job."
        )


def _local_paths(workers: Workers, paths: Mapping[str, str]) -> Iterator[str]:
    """Yields the paths that workers would not find."""
    if workers.see_our_files:
        return
    where = "in containers" if workers.kind == "DOCKER" else f"on {workers.host}"
    for what, path in paths.items():
        if "://" not in path:
            yield (
                f"{what}: found {path}, expected a URL such as gs://… or s3://…: workers {where} "
                "cannot see a path of this machine. "
                "Copy it there."
            )
