"""runners/job_server.py reports what an engine's server lacks.

It shows the log of a server that did not start.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.runners import job_server


def flink(jar: Path, *more: str) -> PipelineOptions:
    """Options for Flink with a job server of one's own."""
    return PipelineOptions(["--runner=FlinkRunner", f"--flink_job_server_jar={jar}", *more])


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    """A file that is there."""
    path = tmp_path / "server.jar"
    path.touch()
    return path


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A jar that is not there is an error before anything starts."""
    options = flink(tmp_path / "none.jar")
    said = r"job server cannot be started: .*none\.jar.* docs/runners\.md"
    with pytest.raises(RecipeError, match=said), job_server.started(options):
        pass


def test_a_missing_program_is_named(jar: Path) -> None:
    """Without Java the error says what to install."""
    options = flink(jar, "--job_server_java_launcher=no-such-java")
    with (
        pytest.raises(RecipeError, match=r"found no program no-such-java .*Install it"),
        job_server.started(options),
    ):
        pass


def test_a_server_that_ends_shows_its_log(jar, tmp_path, monkeypatch):
    """The error shows an ended server's log, and its folder is gone."""
    monkeypatch.setattr(job_server, "shows_engine_logs", lambda: False)  # as without --verbose
    launcher = tmp_path / "java"
    launcher.write_text('#!/bin/sh\necho "$@" > "$0.arguments"\necho out of luck >&2\nexit 3\n')
    launcher.chmod(0o755)
    options = flink(jar, f"--job_server_java_launcher={launcher}")
    said = r"ended with status 3; nothing was read[\s\S]*out of luck"
    with pytest.raises(DataError, match=said), job_server.started(options):
        pass
    (own,) = [
        word.partition("=")[2]
        for word in (tmp_path / "java.arguments").read_text().split()
        if word.startswith("-Djava.io.tmpdir=")
    ]
    assert not os.path.exists(own)


def test_a_job_that_is_not_waited_for_needs_a_server_that_stays(jar: Path) -> None:
    """The command's own server ends with it, and with it the job."""
    said, options = (
        r"found --no_wait_until_finish without --job_endpoint",
        flink(jar, "--no_wait_until_finish"),
    )
    with pytest.raises(RecipeError, match=said), job_server.started(options):
        pass


@pytest.mark.parametrize("arguments", [[], ["--runner=FlinkRunner", "--job_endpoint=localhost:1"]])
def test_nothing_is_started_without_need(arguments: list[str]) -> None:
    """The local runner starts no server, and a running one is used."""
    options = PipelineOptions(arguments)
    before = options.view_as(PortableOptions).job_endpoint
    with job_server.started(options):
        assert options.view_as(PortableOptions).job_endpoint == before
