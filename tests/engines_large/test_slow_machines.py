"""Narrow, slow and lost machines change no byte of a dataset."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines import conversions, engines
from tests.engines.conftest import started
from tests.engines.test_flink_recovery import first_found
from tests.engines_large import cases

pytestmark = pytest.mark.engines_large

Make = Callable[[str], cases.Made]

# A group of processes, and the file with its limit in bytes: of Linux's cgroups 1 and 2.
GROUPS = next(
    (
        (Path(root), limit)
        for root, limit in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        )
        if os.access(root, os.W_OK) and Path(root, "cgroup.procs").exists()
    ),
    None,
)
GB = 1_000_000_000
# Flink gives a machine up after 15 s, Spark after 120 s, both by the tests' settings.
STOPPED_SECS = 180
# Some steps say nothing for longer than engines wait for machines.
SILENT_SECS = 320


@contextlib.contextmanager
def narrow_python(folder: Path, limit: int) -> Iterator[Path]:
    """Yields a folder with a ``python`` that has a limit of memory."""
    if GROUPS is None:
        pytest.skip("limits of memory need a cgroup that this user can write")
    root, file = GROUPS
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    group = f"{root}/{folder.name}-$$"
    program.write_text(
        f"#!/bin/sh\nmkdir {group} && echo {limit} >{group}/{file} && "
        f'echo $$ >{group}/cgroup.procs && exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    try:
        yield program.parent
    finally:
        for left in root.glob(f"{folder.name}-*"):
            left.rmdir()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((name, limit), marks=getattr(pytest.mark, name), id=f"{name}-{limit}GB")
        for name, limit in itertools.product(("prism", "flink", "spark"), (1, 2))
    ],
)
def narrow(request, tmp_path_factory) -> Iterator[tuple[str, ...]]:
    """An engine's options, whose workers have 1 or 2 GB each."""
    name, limit = request.param
    folder = tmp_path_factory.mktemp(f"narrow-{name}-{limit}")
    with (
        narrow_python(folder, limit * GB) as python,
        started(engines.STARTERS[name](folder)) as engine,
        engines.worker_pool(folder, python) as pool,
    ):
        yield (*(given for given in engine.options if "--environment" not in given), *pool)


@pytest.mark.parametrize("name", cases.WRITERS)
def test_narrow_workers(name: str, narrow: tuple[str, ...], made: Make, tmp_path: Path) -> None:
    """A million rows go through workers of 1 GB."""
    case = made(name)
    cases.run(case.recipe, tmp_path / "out", narrow)
    conversions.assert_same(tmp_path / "out", case.expected)


@contextlib.contextmanager
def converting(made: Make, output: Path, engine: engines.Engine) -> Iterator[Future[None]]:
    """Converts while the block runs, and compares."""
    case = made("clicks_csv")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(cases.run, case.recipe, output, engine.options)
        first_found(lambda: any((output / "_temporary").glob("*/*")) and engine.workers(), running)
        yield running
        running.result(timeout=cases.LONGEST_SECS)
    conversions.assert_same(output, case.expected)
    shutil.rmtree(output)


@pytest.mark.flink_cluster
def test_lost_task_managers(made: Make, tmp_path: Path) -> None:
    """Eight TaskManagers of 512 MB are killed in turn."""
    with (
        started(engines.flink_cluster(tmp_path, task_managers=8, slots=1)) as engine,
        converting(made, tmp_path / "out", engine) as running,
    ):
        assert engine.cluster
        for name in list(engine.cluster.task_managers):
            engine.cluster.task_managers[name].kill()
            engine.cluster.add_task_manager()
            with contextlib.suppress(TimeoutError):
                running.result(timeout=10)


@pytest.mark.flink_cluster
def test_stopped_task_manager(made: Make, tmp_path: Path) -> None:
    """A machine hangs until Flink gives it up, and then goes on."""
    with (
        started(engines.flink_cluster(tmp_path)) as engine,
        converting(made, tmp_path / "out", engine),
    ):
        assert engine.cluster
        stopped = engine.cluster.task_managers["task-manager-1"]
        stopped.pause()
        time.sleep(STOPPED_SECS)
        stopped.resume()


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(engines.flink_cluster, marks=pytest.mark.flink_cluster),
        pytest.param(engines.spark_cluster, marks=pytest.mark.spark_cluster),
    ],
)
def test_silent_workers(
    start: Callable[[Path], contextlib.AbstractContextManager[engines.Engine]],
    made: Make,
    tmp_path: Path,
) -> None:
    """Steps that say nothing for five minutes are waited for."""
    with started(start(tmp_path)) as engine, converting(made, tmp_path / "out", engine):
        stopped = engine.workers()
        _send(signal.SIGSTOP, stopped)
        time.sleep(SILENT_SECS)
        _send(signal.SIGCONT, stopped)


@pytest.mark.spark_cluster
def test_speculation(made: Make, tmp_path: Path) -> None:
    """Spark runs a task twice whose machine is slow, and both end."""
    properties = (
        "speculation=true", "speculation.multiplier=1", "speculation.quantile=0.1",
        "speculation.interval=50ms", "speculation.task.duration.threshold=5s",
    )  # fmt: skip
    with started(engines.spark_cluster(tmp_path, *(f"spark.{name}" for name in properties))) as on:
        with converting(made, tmp_path / "out", on) as running:
            while not running.done() and not _twice(on):
                stopped = _of_one_machine(on.workers())
                _send(signal.SIGSTOP, stopped)
                time.sleep(10)
                _send(signal.SIGCONT, stopped)
                time.sleep(1)
        assert _twice(on), "no task was run twice"


def _of_one_machine(workers: list[int]) -> list[int]:
    """Returns the workers with the same parent as the last one."""
    parents = {}
    for process in workers:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process}/stat").read_text()
            parents[process] = status.rpartition(")")[2].split()[1]
    return [process for process in parents if parents[process] == [*parents.values()][-1]]


def _send(number: int, processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _twice(engine: engines.Engine) -> bool:
    """Whether a task of the last job has run twice."""
    return any(event.get("Task Info", {}).get("Speculative") for event in engine.events())
