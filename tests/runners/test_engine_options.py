"""runners/options.py refuses options that would fail on an engine.

It does so before the job is sent.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.runners.options import check_options, find_workers
from beam_pipelines.runners.run import pipeline_options

LOCAL = {"--output": "out", "sources.visits.path": "/data/visits.csv"}
REMOTE = {"--output": "gs://bucket/out", "sources.visits.path": "s3://bucket/visits.csv"}
FAR_FLINK = ("--runner=FlinkRunner", "--flink_master=flink.example:8081")
IMAGE = "--environment_config=registry.example/ours:1"


@pytest.mark.parametrize(
    ("arguments", "kind", "see_our_files"),
    [
        ("--runner=PrismRunner", "LOOPBACK", True),
        ("--runner=prism --job_endpoint=localhost:8073", "LOOPBACK", True),
        ("--runner=FlinkRunner", "LOOPBACK", True),
        ("--runner=FlinkRunner --job_endpoint=localhost:8099", "LOOPBACK", True),
        ("--runner=FlinkRunner --flink_master=[local]", "LOOPBACK", True),
        ("--runner=FlinkRunner --flink_master=localhost:8081", "DOCKER", False),
        ("--runner=FlinkRunner --flink_master=http://127.0.0.1:8081 --environment_type=process", "PROCESS", True),
        ("--runner=FlinkRunner --flink_master=far:8081 --environment_type=PROCESS", "PROCESS", False),
        ("--runner=FlinkRunner --environment_type=EXTERNAL --environment_config=localhost:5", "EXTERNAL", True),
        ("--runner=FlinkRunner --environment_type=EXTERNAL --environment_config=far:5", "EXTERNAL", False),
        ('--runner=Flink --environment_type=EXTERNAL --environment_config={"url":"far:5"}', "EXTERNAL", False),
        (("--runner=Flink --environment_type=EXTERNAL " f"--environment_config={socket.gethostname()}:5"), "EXTERNAL", True),
        ("--runner=FlinkRunner --environment_type=beam:env:docker:v1", "DOCKER", False),
        ("--runner=SparkRunner", "LOOPBACK", True),
        ("--runner=SparkRunner --spark_master_url=local[2]", "LOOPBACK", True),
        ("--runner=SparkRunner --spark_master_url=spark://far:7077", "DOCKER", False),
        ("--runner=PortableRunner --job_endpoint=localhost:8099", "DOCKER", False),
        ("--runner=PortableRunner --job_endpoint=localhost:8099 --environment_type=LOOPBACK", "LOOPBACK", True),
    ],
)  # fmt: skip
def test_local_paths_are_for_workers_that_see_them(arguments, kind, see_our_files):
    """Local paths are for threads and processes of this machine.

    For containers and other machines, each such path is named in an error.
    """
    extra = (
        [IMAGE]
        if kind == "DOCKER"
        else ['--environment_config={"command":"boot"}']
        if kind == "PROCESS"
        else []
    )
    options = pipeline_options([*arguments.split(" "), *extra], 1)
    assert (find_workers(options).kind, find_workers(options).see_our_files) == (
        kind,
        see_our_files,
    )
    check_options(options, REMOTE)
    if see_our_files:
        check_options(options, LOCAL)
        return
    with pytest.raises(RecipeError) as caught:
        check_options(options, LOCAL)
    lines = str(caught.value).split("\n")
    assert [line.split(": found ")[0] for line in lines] == list(LOCAL)
    assert all("cannot see a path of this machine" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runner=Flnk",), "--runner: found Flnk, expected one of .*FlinkRunner"),
        (("--runner=FlinkRuner",), "Did you mean 'FlinkRunner'"),
        (("--runner=PortableRunner",), "found PortableRunner without --job_endpoint"),
        ((*FAR_FLINK, "--environment_type=LOOPBACK"), "found LOOPBACK with an engine on flink.example, which cannot"),
        (("--runner=Flink", "--job_endpoint=far:8099"), "found LOOPBACK with an engine on far"),
        ((*FAR_FLINK, "--environment_type=EXTERNAL"), "found none with --environment_type EXTERNAL, expected the host:port"),
        ((*FAR_FLINK, "--environment_type=PROCESS"), "found none with --environment_type PROCESS, expected '{\"command"),
        ((*FAR_FLINK, "--environment_type=DOKCER"), "found DOKCER, expected LOOPBACK, EXTERNAL, PROCESS or DOCKER"),
    ],
)  # fmt: skip
def test_what_would_fail_later_is_refused(arguments: tuple[str, ...], message: str) -> None:
    """An option that would fail later is refused for all paths.

    The error has what was found, what was expected and what to do.
    """
    with pytest.raises(RecipeError, match=message):
        check_options(pipeline_options(arguments, 1), REMOTE)


@pytest.mark.parametrize(
    "arguments",
    [
        (*FAR_FLINK, IMAGE),
        ("--runner=apache_beam.runners.direct.DirectRunner",),
        ("--runner=DirectRunner",),
        ("--runner=DataflowRunner", "--project=ours", "--region=us-central1", "--temp_location=gs://bucket/temp",
         "--extra_package=dist/beam_pipelines-0.1.0.tar.gz"),
        (),
    ],
)  # fmt: skip
def test_what_may_work_is_let_through(arguments: tuple[str, ...]) -> None:
    """Options that may work pass; other runners are not checked."""
    check_options(pipeline_options(arguments, 1), REMOTE)


def test_the_command_ends_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints all problems at once and ends with status 2.

    It writes nothing.
    """
    (tmp_path / "visits.csv").write_text("a,b\n1,2\n")
    out = tmp_path / "out"
    assert (
        run(["convert", str(tmp_path / "visits.csv"), "--output", str(out), "--quiet", *FAR_FLINK])
        == 2
    )
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(": found")[0] for line in errors] == [
        "error: --output",
        "error: sources.visits.path",
    ]
    assert not out.exists()
