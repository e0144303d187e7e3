"""SIGKILL at any moment, of any process of the command.

There is no dataset or the whole one, and the next run is like any other.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time

import psutil
import pytest

from tests.faults import harness

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("number", harness.moments(100, least=2))
def test_killed_at_some_moment(number, workshop, reference):
    """A kill at any moment leaves no dataset or the whole one.

    This holds for every process. None goes on or hangs, and the next run is byte-identical and
    clean.
    """
    rng = harness.random_of("kill", number)
    encodes, overwrites, kills_launcher = number % 5 == 0, rng.random() < 0.5, number % 2 == 0
    options = (
        rng.choice([harness.PROCESSES, harness.THREADS]) if kills_launcher else harness.PROCESSES
    )
    expected, folder = reference[encodes], workshop.place("killed", encodes=encodes)
    if overwrites:
        workshop.fill(folder, expected.folder)
    run = workshop.convert(folder, *options, "--overwrite")
    harness.sleep_until(
        time.monotonic() + rng.random() * expected.secs[options], lambda: not run.is_running()
    )
    if kills_launcher:
        run.signal(signal.SIGKILL)
        assert run.wait(timeout=30).status in (0, -signal.SIGKILL)
        assert run.left_processes() == []
    else:
        _kill_another(run, rng)
        ended = run.wait(timeout=90)
        assert run.left_processes() == []
        harness.check_clean(folder, has_failed=bool(ended.status))
        if ended.status:
            harness.check_error(ended)
        else:  # one that was not needed any more
            assert harness.differences(harness.dataset(folder / "out"), expected.files) == []
    harness.check_all_or_nothing(folder / "out", expected.files)
    harness.check_next_run(workshop, folder, expected.files)


def _kill_another(run: harness.Run, rng: random.Random) -> None:
    """Kills a process of the run other than the command itself.

    It is a worker, a worker's client, their server, or the builder of the graph.
    """
    others = [process for process in run.processes() if process.pid != run.pid]
    if others:
        with contextlib.suppress(psutil.NoSuchProcess):
            rng.choice(others).kill()


@pytest.fixture(scope="module")
def small(workshop: harness.Workshop) -> tuple[dict[str, str], int]:
    """A small conversion over an earlier dataset.

    The fixture holds its dataset and the number of its changes in the output.
    """
    folder = workshop.place("committing", encodes=False, rows=2_000)
    for _ in range(2):
        ended = workshop.convert(
            folder, *harness.ONE, "--overwrite", faults=[_kill_at(10**9)]
        ).wait()
        assert ended.status == 0, ended.err
    return harness.dataset(folder / "out"), workshop.counted()


def _kill_at(number: int) -> dict[str, object]:
    return {"at": "out/", "number": number, "changes": True, "do": "kill_here"}


@pytest.mark.parametrize("number", harness.moments(60, least=3))
def test_killed_before_each_change_of_the_commit(number, workshop, small):
    """A run that overwrites leaves one whole dataset or none when killed.

    The kill comes right before the last change, the last but one, and so on.
    """
    expected, changes = small
    folder = workshop.place("committing", encodes=False, rows=2_000)
    assert workshop.convert(folder, *harness.ONE).wait().status == 0
    step = max(1, 60 // len(harness.moments(60, least=3)))
    run = workshop.convert(
        folder, *harness.ONE, "--overwrite", faults=[_kill_at(changes - 1 - number * step)]
    )
    assert run.wait().status == -signal.SIGKILL
    assert run.left_processes() == []
    harness.check_all_or_nothing(folder / "out", expected)
    harness.check_next_run(workshop, folder, expected, *harness.ONE)
