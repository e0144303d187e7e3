"""Runs an engine's job server for one job.

Ends all processes that the server started. Beam ends job servers in an exit handler, which fails
after the command's temporary folders are removed, and leaves a JVM (Beam 2.77). So the command runs
the server that Beam's classes describe, and passes its address to Beam as that of a running one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    PrismRunnerOptions,
    SparkRunnerOptions,
)

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.process.signals import ignoring_signals
from beam_pipelines.runners.local_workers import shows_engine_logs
from beam_pipelines.runners.options import is_inside, runner_of
from beam_pipelines.runners.run import waits_for_end

_START_SECS = 120
_STOP_SECS = 5
_POLL_SECS = 0.05
_SHOWN_LINES = 20
_MANUAL = "docs/runners.md says what each engine needs."
# Flink's own ports; those of Beam's Java classes have no option (docs/reliability.md).
_FLINK_ADDRESSES = """
rest.address rest.bind-address jobmanager.bind-host taskmanager.host taskmanager.bind-host
"""


@contextlib.contextmanager
def started(options: PipelineOptions) -> Iterator[None]:
    """Runs the job server that the options need, and sets ``job_endpoint``.

    The server runs while the body runs. Does nothing for runners without one, or if
    ``--job_endpoint`` names a running one.

    Raises:
      RecipeError: a program or file that the server needs is missing, or the command does not wait
        for the job.
      DataError: the server did not start.
    """
    portable, command_of = options.view_as(PortableOptions), _COMMANDS.get(runner_of(options))
    if command_of is None or portable.job_endpoint or _sends_jar(options):
        yield
        return
    if not waits_for_end(options):
        raise RecipeError(
            "found --no_wait_until_finish without --job_endpoint, expected the job server of a "
            "cluster: one that this command starts ends with it."
        )
    with tempfile.TemporaryDirectory(
        prefix="beam-pipelines-engine-", ignore_cleanup_errors=True
    ) as folder:
        try:
            command, endpoint = command_of(options, folder)
        except Exception as error:  # ValueError: missing file; RuntimeError: failed download
            raise RecipeError(
                f"--runner: the job server cannot be started: {error} {_MANUAL}"
            ) from error
        log = Path(folder, "job-server.log")
        process = _start(command, folder, log)
        try:
            _await(process, endpoint, log)
            portable.job_endpoint = endpoint
            yield
        finally:
            portable.job_endpoint = None
            with ignoring_signals():
                _stop(process)


def _sends_jar(options: PipelineOptions) -> bool:
    """Whether Beam sends the job to a cluster as a jar.

    There is no job server then.
    """
    return bool(
        options.view_as(FlinkRunnerOptions).flink_submit_uber_jar
        or options.view_as(SparkRunnerOptions).spark_submit_uber_jar
    )


def _flink(options: PipelineOptions, folder: str) -> tuple[list[str], str]:
    from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner

    flink = options.view_as(FlinkRunnerOptions)
    flink.flink_master = FlinkRunner.add_http_scheme(flink.flink_master)
    command, endpoint = _java(FlinkJarJobServer, options, folder)
    if is_inside(options) and not os.environ.get("FLINK_CONF_DIR"):
        command += ["--flink-conf-dir", folder]
        for name in ("config.yaml", "flink-conf.yaml"):  # the latter before Flink 2
            lines = (f"{key}: 127.0.0.1\n" for key in _FLINK_ADDRESSES.split())
            Path(folder, name).write_text("".join(lines))
    return command, endpoint


def _spark(options: PipelineOptions, folder: str) -> tuple[list[str], str]:
    from apache_beam.runners.portability.spark_runner import SparkJarJobServer

    return _java(SparkJarJobServer, options, folder)


def _prism(options: PipelineOptions, _: str) -> tuple[list[str], str]:
    from apache_beam.runners.portability.prism_runner import PrismJobServer

    options.view_as(PrismRunnerOptions).prism_log_kind = "text"
    command, endpoint = PrismJobServer(options).subprocess_cmd_and_endpoint()
    return list(map(str, command)), endpoint


_COMMANDS: dict[str, Callable[[PipelineOptions, str], tuple[list[str], str]]] = {
    "flink": _flink,
    "spark": _spark,
    "prism": _prism,
}


def _java(kind: Any, options: PipelineOptions, folder: str) -> tuple[list[str], str]:
    """Returns the command and endpoint of a Java server.

    Beam's class of its ``kind`` describes it; its temporary files are in a folder.
    """
    server = options.view_as(JobServerOptions)
    server.artifacts_dir = server.artifacts_dir or os.path.join(folder, "artifacts")
    server.expansion_port = server.expansion_port or -1  # none: no pipeline here has Java steps
    (launcher, *arguments), endpoint = kind(options).subprocess_cmd_and_endpoint()
    return [launcher, f"-Djava.io.tmpdir={folder}", *map(str, arguments)], endpoint


def _start(command: Sequence[str], folder: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        try:
            # In its own session Ctrl-C does not end it before its job is cancelled.
            return subprocess.Popen(  # noqa: S603 - the command that Beam has for the options
                command,
                stdin=subprocess.DEVNULL,
                stdout=None if shows_engine_logs() else file,
                stderr=None if shows_engine_logs() else subprocess.STDOUT,
                env={**os.environ, "TMPDIR": folder},
                start_new_session=True,
            )
        except OSError as error:
            raise RecipeError(
                f"--runner: found no program {command[0]} ({error.strerror}), which starts the job "
                f"server. Install it. {_MANUAL}"
            ) from error


def _await(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    """Waits until the server accepts connections.

    Raises:
      DataError: it ended, or took too long; with the end of its log.
    """
    host, _, port = endpoint.rpartition(":")
    end = time.monotonic() + _START_SECS
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as connection:
            if not connection.connect_ex((host, int(port))):
                return
        time.sleep(_POLL_SECS)
    ended = f"has not answered in {_START_SECS} s"
    if process.returncode is not None:
        ended = f"ended with status {process.returncode}"
    lines = log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
    raise DataError("\n".join([f"the job server {ended}; nothing was read. {_MANUAL}", *lines]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and the processes that it started.

    Sends SIGTERM, and then SIGKILL.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECS)
