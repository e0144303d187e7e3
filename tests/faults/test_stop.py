"""Ctrl-C and SIGTERM at any moment give a clean stop within seconds.

Nothing temporary is left, not even until the next run.
"""

from __future__ import annotations

import contextlib
import signal
import time

import psutil
import pytest

from tests.faults import harness

pytestmark = pytest.mark.faults

MOST_SECS = 5
LINE = "error: interrupted; nothing was committed."
COMPLETE = "error: interrupted; out was complete already, and stays."
# The signals of a terminal, of a polite `kill`, and of a container's end.
WAYS = (
    *((signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)),
    *((signal.SIGHUP, True), (signal.SIGHUP, False)),
)  # fmt: skip


@pytest.mark.parametrize("number", harness.moments(60, least=4))
def test_stopped_at_some_moment(number, workshop, reference):
    """A stopped command ends within five seconds with one line.

    Its status is 130. No process, no temporary file and no part of a dataset is left.
    """
    rng = harness.random_of("stop", number)
    signal_, everybody = WAYS[number % len(WAYS)]
    encodes, options = number % 5 == 0, rng.choice([harness.PROCESSES, harness.THREADS])
    expected, folder = reference[encodes], workshop.place("stopped", encodes=encodes)
    if rng.random() < 0.3:
        workshop.fill(folder, expected.folder)
    run = workshop.convert(folder, *options, "--overwrite")
    harness.sleep_until(
        time.monotonic() + rng.random() * expected.secs[options], lambda: not run.is_running()
    )
    before, busy = run.secs(), harness.slowdown()
    run.signal(signal_, everybody=everybody)
    ended = run.wait(timeout=60)
    busy = max(busy, harness.slowdown())
    harness.check_all_or_nothing(folder / "out", expected.files)
    if ended.status == 0:  # it was done when the signal came
        assert harness.differences(harness.dataset(folder / "out"), expected.files) == []
    else:
        assert ended.status == 130, ended.err
        is_complete = ended.err.strip() == COMPLETE
        assert is_complete or ended.err.strip() == LINE
        if is_complete:
            assert harness.differences(harness.dataset(folder / "out"), expected.files) == []
    assert ended.secs - before < MOST_SECS * busy, f"{busy:.1f} times slower than alone"
    assert run.left_processes() == []
    harness.check_clean(folder)
    if number % 5 == 0:
        harness.check_next_run(workshop, folder, expected.files)


def test_stopped_when_the_dataset_is_complete(workshop: harness.Workshop) -> None:
    """An interruption after the commit reports the complete dataset.

    The command tidies up at that moment, and the dataset is there.
    """
    whole, late = (workshop.place(name, encodes=False, rows=2_000) for name in ("whole", "late"))
    fault = {"at": "out/", "number": 10**9, "changes": True, "do": "interrupt_here"}
    assert workshop.convert(whole, *harness.ONE, faults=[fault]).wait().status == 0
    # The last change is the launcher's, which removes the temporary folder if the commit has not;
    # before it the commit does.
    before_last = workshop.counted() - 2
    ended = workshop.convert(late, *harness.ONE, faults=[fault | {"number": before_last}]).wait()
    assert (ended.status, ended.err.strip()) == (130, COMPLETE)
    # Manifests tell the dates of the input's files.
    assert set(
        harness.differences(harness.dataset(late / "out"), harness.dataset(whole / "out"))
    ) <= {"dataset.json"}
    harness.check_clean(late)


def test_only_the_command_is_interrupted(workshop, reference):
    """Workers that get Ctrl-C print nothing.

    Ctrl-C may reach them before the command has ended them. They do nothing by themselves.
    """
    expected, folder = reference[False], workshop.place("deaf", encodes=False)
    run = workshop.convert(folder, *harness.PROCESSES)
    told = set()
    while run.is_running():
        for process in run.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                # A worker is a fork; its client, which starts as something else, is not.
                if (
                    process.pid not in {run.pid, *told}
                    and "tests.faults.starter" in process.cmdline()
                ):
                    process.send_signal(signal.SIGINT)
                    told.add(process.pid)
        time.sleep(0.01)
    ended = run.wait()
    assert (ended.status, ended.err) == (0, "")
    assert len(told) >= 3  # their server, too
    assert harness.differences(harness.dataset(folder / "out"), expected.files) == []
