"""A Flink cluster that loses a TaskManager in mid-conversion recovers.

The dataset is the same as without the loss.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.engines import conversions
from tests.engines.conftest import LOCAL
from tests.engines.engines import Engine, FlinkCluster

pytestmark = pytest.mark.runners

ROWS = 15_000
# Only a conversion that hangs takes as long, also on a busy machine.
WAIT_SECS = 3_600


def first_found(look: Callable[[], Any], running: Future[None]) -> Any:
    """Looks until something is found, or the conversion is over or late."""
    end = time.monotonic() + WAIT_SECS
    while time.monotonic() < end and not running.done():
        with contextlib.suppress(OSError):  # a busy engine answers late, or not yet
            if found := look():
                return found
        time.sleep(0.02)
    running.result(timeout=0)
    raise AssertionError("the conversion was over before its middle was seen")


def conversion_of(cluster: FlinkCluster, before: set[str]) -> str | None:
    """Returns the new job that is a conversion.

    The job that asks the workers for their versions runs before it.
    """
    for job in cluster.ask("/jobs")["jobs"]:
        if job["id"] not in before:
            vertices = cluster.ask(f"/jobs/{job['id']}")["vertices"]
            if any("Convert/" in vertex["name"] for vertex in vertices):
                return str(job["id"])
    return None


def busy_task_manager(cluster: FlinkCluster, job: str) -> str | None:
    """Returns the TaskManager of a running task.

    It waits until a quarter of the job's stages are done.
    """
    vertices = cluster.ask(f"/jobs/{job}")["vertices"]
    if sum(vertex["status"] == "FINISHED" for vertex in vertices) < len(vertices) / 4:
        return None
    for vertex in vertices:
        if vertex["status"] == "RUNNING":
            for subtask in cluster.ask(f"/jobs/{job}/vertices/{vertex['id']}")["subtasks"]:
                if subtask["status"] == "RUNNING":
                    return str(subtask["taskmanager-id"])
    return None


@pytest.mark.parametrize(
    "engine", [pytest.param("flink_cluster", marks=pytest.mark.flink_cluster)], indirect=True
)
def test_a_lost_task_manager(engine: Engine, tmp_path: Path) -> None:
    """A dataset is the same although a busy TaskManager is killed.

    Flink starts its tasks again on the other one.
    """
    cluster = engine.cluster
    assert cluster is not None
    conversions.write_data(tmp_path, ROWS)
    conversions.convert("everything", tmp_path, tmp_path / "expected", LOCAL)
    jobs = {job["id"] for job in cluster.ask("/jobs")["jobs"]}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            conversions.convert, "everything", tmp_path, tmp_path / "out", engine.options
        )
        job = first_found(lambda: conversion_of(cluster, jobs), running)
        victim = first_found(lambda: busy_task_manager(cluster, job), running)
        cluster.task_managers[victim].kill()
        running.result(timeout=WAIT_SECS)
    history = cluster.ask(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    assert [entry for entry in history if victim in entry["stacktrace"]], "the job has not noticed"
    assert cluster.ask(f"/jobs/{job}")["state"] == "FINISHED"
    conversions.assert_same(tmp_path / "out", tmp_path / "expected")
    cluster.add_task_manager()  # for the tests that follow
