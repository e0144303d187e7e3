"""Killed trainings go on with other numbers of ranks."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

import beam_pipelines as bp
from tests.engines.engines import free_ports

pytestmark = [pytest.mark.adapters, pytest.mark.slow]
TRAINERS = Path(__file__).resolve().parents[2] / "examples" / "trainers"
ROWS, STEPS_AN_EPOCH, EPOCHS = 480, 20, 2
# Ranks of each run, and the step behind which it is killed: in the first and second epoch.
RUNS = ((4, 12), (2, 27), (3, None))
NAMES = sorted({path.stem for path in TRAINERS.glob("*.py")} - {"common"})
# The others are started by torchrun, or start their ranks themselves.
PROCESSES = ("grain_jax", "keras_fit")
TIMEOUT_SECONDS = 600


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """A dataset of 480 rows with ids."""
    folder = tmp_path_factory.mktemp("rows")
    rows = "".join(f"{i},{i % 7 / 7},{i % 5 / 5},{i % 2}\n" for i in range(ROWS))
    (folder / "rows.csv").write_text(f"id,x,y,late\n{rows}")
    recipe = {
        "name": "rows",
        "sources": {"rows": str(folder / "rows.csv")},
        "label": "late",
        "split": {"train": 1.0},
        "encode": {"x": {"cast": "float32"}, "y": {"cast": "float32"}},
    }
    bp.convert(recipe, output=folder / "out")
    return folder / "out"


def start(
    name: str, arguments: Sequence[str], ranks: int, trace: Path, until: int | None
) -> list[subprocess.Popen]:
    """Starts an example, which waits behind a step to be killed."""
    command, own = [str(TRAINERS / f"{name}.py"), *arguments], [{}]
    environment = {
        **os.environ,
        "TRAINED_ROWS": str(trace),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": "1",
        "KERAS_BACKEND": "jax",
        "MASTER_PORT": str(free_ports(1)[0]),
        "RAY_TRAIN_V2_ENABLED": "1",
        "WAIT_BEHIND": str(until or 1000),
    }
    if name in PROCESSES:
        own = [{"RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks)]
    elif name == "ray_train":
        command.append(f"--workers={ranks}")
    else:
        command[:0] = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return [subprocess.Popen([sys.executable, *command], env=environment | each) for each in own]


def kill(processes: Sequence[subprocess.Popen]) -> None:
    """Kills processes with all that they have started."""
    for process in processes:
        parent = psutil.Process(process.pid)
        for one in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        process.wait()


def rows_of(trace: Path) -> dict[int, list[int]]:
    """Returns the rows of each step, of all ranks together."""
    found: dict[int, list[int]] = collections.defaultdict(list)
    for path in trace.parent.glob(f"{trace.name}.*"):
        for line in path.read_text().splitlines():
            step, *rows = map(int, line.split())
            found[step] += rows
    return found


def run(name: str, dataset: Path, folder: Path, number: int, ranks: int, until: int | None) -> dict:
    """Runs an example until it ends, or kills it; returns its rows."""
    trace = folder / f"run-{number}"
    processes = start(name, [str(dataset), str(folder / "checkpoints")], ranks, trace, until)
    try:
        end = time.monotonic() + TIMEOUT_SECONDS
        while any(process.poll() is None for process in processes):
            assert time.monotonic() < end, f"{name} hangs"
            if until is not None and max(rows_of(trace), default=0) >= until:
                break
            time.sleep(0.05)
        else:
            assert until is None, f"{name} ended before it was killed"
            assert [process.returncode for process in processes] == [0] * len(processes)
    finally:
        kill([process for process in processes if process.poll() is None])
    return rows_of(trace)


@pytest.mark.parametrize("name", NAMES)
def test_each_row_is_trained_once_an_epoch(name: str, dataset: Path, tmp_path: Path) -> None:
    """Steps behind a checkpoint are trained again, with the same rows."""
    trained: dict[int, list[int]] = {}
    for number, (ranks, until) in enumerate(RUNS):
        trained |= run(name, dataset, tmp_path, number, ranks, until)
    assert sorted(trained) == list(range(1, EPOCHS * STEPS_AN_EPOCH + 1))
    for epoch in range(EPOCHS):
        steps = range(epoch * STEPS_AN_EPOCH + 1, (epoch + 1) * STEPS_AN_EPOCH + 1)
        assert sorted(row for step in steps for row in trained[step]) == list(range(ROWS))
