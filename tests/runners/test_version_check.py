"""A Flink cluster that does not fit its job server."""

from __future__ import annotations

import http.server
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.runners.run import pipeline_options
from beam_pipelines.runners.version_check import check_cluster


@pytest.fixture
def cluster() -> Iterator[str]:
    """The REST address of a JobManager of Flink 1.20.1."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/overview"
            body = json.dumps({"taskmanagers": 2, "flink-version": "1.20.1"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def job_server(path: Path, flink: str) -> str:
    """Writes a job server whose manifest names Flink's version over two lines."""
    line = f"Class-Path: lib/first.jar lib/beam-runners-flink-{flink}-2.62.0.jar lib/last.jar"
    folded = line[:45] + "\r\n " + line[45:]
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\n{folded}\r\n")
    return str(path)


def checked(master: str, *options: str) -> None:
    """Checks a cluster by its options."""
    check_cluster(
        pipeline_options(["--runner=FlinkRunner", f"--flink_master={master}", *options], 1)
    )


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_job_server_of_another_version(cluster, tmp_path, scheme):
    """The error names both versions, and what to do."""
    jar = job_server(tmp_path / "server.jar", "1.19")
    with pytest.raises(RecipeError) as caught:
        checked(f"{scheme}{cluster}", f"--flink_job_server_jar={jar}")
    assert str(caught.value) == (
        "--flink_master: found Flink 1.20.1, expected 1.19, for which the job server was made. "
        "Take a job server of the cluster's version: --flink_job_server_jar."
    )


def test_names_and_options_tell_versions(cluster, tmp_path):
    """A jar's name tells its version, and else Beam's option."""
    (tmp_path / "beam-runners-flink-2.0-job-server.jar").touch()
    for options, expected in (
        (f"--flink_job_server_jar={tmp_path}/beam-runners-flink-2.0-job-server.jar", "2.0"),
        ("--flink_version=2.1", "2.1"),
    ):
        with pytest.raises(RecipeError, match=f"found Flink 1.20.1, expected {expected},"):
            checked(cluster, options)


def test_what_fits_or_cannot_be_compared(cluster, tmp_path):
    """A minor version fits; some cannot be compared."""
    checked(cluster, f"--flink_job_server_jar={job_server(tmp_path / 'a.jar', '1.20')}")
    checked(cluster, "--flink_version=1.20")
    checked(cluster, "--flink_version=1.19", "--job_endpoint=localhost:1")
    checked("127.0.0.1:1", "--flink_version=1.19")
    checked("[local]", "--flink_version=1.19")
