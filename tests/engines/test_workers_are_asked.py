"""A one-step job finds workers without our package or versions.

It runs before the job that takes hours.
"""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.runners import version_check
from beam_pipelines.runners.run import pipeline_options
from tests.engines import conversions, engines
from tests.engines.engines import Engine

pytestmark = pytest.mark.runners

ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("prism", "flink")]

# Three minutes: too long for what CI runs.
FLINK_WAITS = pytest.param("flink", marks=pytest.mark.flink_cluster)


def options_of(engine: Engine, environment: tuple[str, ...]) -> list[str]:
    """Returns an engine's options with workers of a pool."""
    return [*(option for option in engine.options if "environment" not in option), *environment]


@pytest.mark.parametrize("engine", [ENGINES[0], FLINK_WAITS], indirect=True)
def test_workers_without_our_package(engine: Engine, data: Path, tmp_path: Path) -> None:
    """A worker's Python with Beam but without our package is named.

    Nothing has begun at that point.
    """
    venv.create(tmp_path / "venv")
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # Modules of the other environment are found, and what it has installed in place, as it has us,
    # is not.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with (
        engines.worker_pool(tmp_path, tmp_path / "venv" / "bin") as environment,
        pytest.raises(RecipeError) as caught,
    ):
        conversions.convert("raw", data, tmp_path / "out", options_of(engine, environment))
    # Flink does not pass on what such a worker says, and waits for it.
    said = (
        "have no beam-pipelines, expected beam-pipelines 0"
        if engine.name == "prism"
        else "gave no answer"
    )
    assert str(caught.value).startswith(f"the workers {said}")
    assert not any((tmp_path / "out").rglob("*")) if (tmp_path / "out").exists() else True


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_workers_with_other_versions(engine, tmp_path, monkeypatch, capfd):
    """A worker compares its versions with the launcher's, and reports both.

    A warning comes first if it takes long.
    """
    here = version_check.versions()
    with engines.worker_pool(tmp_path) as environment:
        options = pipeline_options(options_of(engine, environment), 1)
        version_check.check_workers(options)
        assert "has not answered" not in capfd.readouterr().err
        monkeypatch.setattr(version_check, "WAIT_SECS", 0.01)
        monkeypatch.setattr(version_check, "versions", lambda: {**here, "Python": "3.9"})
        with pytest.raises(RecipeError) as caught:
            version_check.check_workers(options)
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert str(caught.value).startswith(f"the workers have Python {found}, expected 3.9, as here.")
    assert "has not answered a job of one step" in capfd.readouterr().err


@pytest.mark.flink_cluster
@pytest.mark.parametrize("engine", ["flink_cluster"], indirect=True)
def test_a_cluster_of_another_version(engine: Engine, data: Path, tmp_path: Path) -> None:
    """A cluster that its job server does not fit is found early."""
    assert engine.cluster is not None
    jar = tmp_path / "beam-runners-flink-2.0-job-server.jar"
    jar.symlink_to(engines.FLINK_JOB_SERVER)
    master = f"--flink_master=127.0.0.1:{engine.cluster.rest}"
    options = ["--runner=FlinkRunner", master, f"--flink_job_server_jar={jar}"]
    options += [option for option in engine.options if "environment" in option]
    with pytest.raises(RecipeError, match=r"found Flink 1\.19\.0, expected 2\.0"):
        conversions.convert("raw", data, tmp_path / "out", options)
