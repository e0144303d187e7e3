"""runners/run.py chooses Beam's local runner by name.

It keeps the runner from losing data, and makes its failures readable.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines.runners import local_workers
from beam_pipelines.runners import run as run_module

pytestmark = pytest.mark.end_to_end

ELEMENTS = 200_000
# A worker's thread that fails after the run. Its events are in builtins, because functions are
# pickled.
OUTLIVED = """
import builtins, logging, os, signal, threading, time
import apache_beam as beam
from beam_pipelines.runners import local_workers, run
from beam_pipelines.core.process import signals
signals.raise_on_signal()  # as the commands do: where the main thread is in a function whose errors go nowhere, it is told again
logging.getLogger().setLevel(logging.CRITICAL + 1)
builtins.over, builtins.failed = threading.Event(), threading.Event()
builtins.both = threading.Barrier(3)  # the test's function, and both workers once they are connected
set_input = local_workers.ControlConnection.set_input
def connected(self, requests):
    set_input(self, requests)
    threading.Thread(target=builtins.both.wait, daemon=True).start()
local_workers.ControlConnection.set_input = connected
def fail(_):
    import builtins, os, signal
    builtins.both.wait(60)
    os.kill(os.getpid(), signal.SIGINT)
    builtins.over.wait(15)  # one run in fifty is interrupted where Beam then waits for its threads
    builtins.failed.set()
    raise ValueError("the temporary files are gone")
options = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
try:
    run.run(lambda pipeline: pipeline | beam.Create([1]) | beam.Map(fail), run.pipeline_options(options, 1))
except KeyboardInterrupt:
    builtins.over.set()
    print(builtins.failed.wait(60), flush=True)
    time.sleep(1)
    os._exit(0)
"""


def count_through_two_workers(path: Path) -> int:
    """Pushes 200,000 elements through two workers and counts the arrivals.

    Each has 500 bytes. The second stage is slow to take them.
    """
    options = PipelineOptions(
        ["--runner=FnApiRunner", "--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    )
    with beam.Pipeline(options=options) as pipeline:
        count(pipeline, path)
    return int(path.read_text())


def count(pipeline: beam.Pipeline, path: Path) -> None:
    """Adds the steps of ``count_through_two_workers``."""

    def take(element: tuple[int, bytes]) -> tuple[int, bytes]:
        if element[0] % 1_000 == 0:
            time.sleep(0.05)  # the runner's queue fills up, and its flushes have to wait
        return element

    _ = (
        pipeline
        | beam.Create(range(100), reshuffle=True)
        | beam.FlatMap(lambda _: ((number, b"x" * 500) for number in range(ELEMENTS // 100)))
        | beam.Reshuffle()
        | beam.Map(take)
        | beam.combiners.Count.Globally()
        | beam.Map(lambda found: path.write_text(str(found)))
    )


@pytest.mark.slow
def test_beams_own_timer_loses_elements(tmp_path: Path) -> None:
    """Beam's default flush timer loses elements.

    The loss depends on timing, so that Beam gets a few attempts; if it never happens, Beam is
    mended and our setting can go.
    """
    assert worker_handlers.DATA_BUFFER_TIME_LIMIT_MS > 0
    path = tmp_path / "count"
    assert any(count_through_two_workers(path) < ELEMENTS for _ in range(8))


def test_flushes_by_size_lose_no_elements(tmp_path: Path) -> None:
    """Our servers lose no elements."""
    options = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    path = tmp_path / "count"
    run_module.run(lambda pipeline: count(pipeline, path), run_module.pipeline_options(options, 1))
    assert int(path.read_text()) == ELEMENTS


@pytest.mark.parametrize(
    ("arguments", "size_bytes", "mode", "workers"),
    [
        ([], 1 * MIB, "in_memory", 1),
        ([], 1000 * MIB, "multi_processing", run_module.available_cores()),
        ([], 100 * MIB, "multi_threading", run_module.available_cores()),
        (["--runner=DirectRunner", "--direct_num_workers=3"], 1 * MIB, "multi_threading", 3),
        (["--runner=direct", "--direct_num_workers=3"], 1000 * MIB, "multi_processing", 3),
        (["--direct_num_workers=1"], 1000 * MIB, "in_memory", 1),
        (["--direct_num_workers=0"], 1 * MIB, "multi_threading", run_module.available_cores()),
        (["--direct_num_workers=2", "--direct_running_mode=multi_threading"], 1, "multi_threading", 2),
    ],
)  # fmt: skip
def test_local_runner_is_chosen_by_size(arguments, size_bytes, mode, workers):
    """Beam's local runner is chosen by name.

    DirectRunner would try a download. Only large input gets processes.
    """
    options = run_module.pipeline_options(arguments, size_bytes)
    assert options.view_as(StandardOptions).runner == "FnApiRunner"
    direct = options.view_as(DirectOptions)
    if workers == 1:  # a machine with one core
        mode = "in_memory"
    assert (direct.direct_running_mode, direct.direct_num_workers) == (mode, workers)


def test_other_runners_are_left_alone() -> None:
    """A cluster's options are the user's own."""
    options = run_module.pipeline_options(
        ["--runner=FlinkRunner", "--flink_master=localhost:8081"], 1
    )
    assert options.view_as(StandardOptions).runner == "FlinkRunner"
    assert not run_module.is_local(options)


def _fail(_: int) -> None:
    raise DataError("users.csv, line 3: found 'x', expected an integer.\nDeclare it as text.")


@pytest.mark.parametrize(
    "options",
    [
        ["--direct_num_workers=1"],
        ["--direct_num_workers=2"],
        ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
    ],
)
def test_errors_of_workers_arrive_as_they_were_raised(options: list[str]) -> None:
    """A worker's DataError arrives with its own message, from any process.

    The message is whole and without Beam's additions.
    """
    with pytest.raises(DataError) as raised:
        run_module.run(
            lambda pipeline: pipeline | beam.Create([1]) | beam.Map(_fail),
            run_module.pipeline_options(options, 1),
        )
    assert (
        str(raised.value)
        == "users.csv, line 3: found 'x', expected an integer.\nDeclare it as text."
    )


def test_a_thread_that_outlives_an_interrupted_run_prints_nothing() -> None:
    """A worker's thread that fails after an interrupted run prints nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", OUTLIVED], capture_output=True, text=True, timeout=1200, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


def test_a_worker_that_connects_too_late_ends() -> None:
    """A worker that connects too late ends.

    Its server is closed by then and tells the worker so. Neither the worker nor the run waits.
    """
    connection = local_workers.ControlConnection()
    connection.close()
    connection.set_input(iter(()))
    connection.push(beam_fn_api_pb2.InstructionRequest(instruction_id="for nobody"))
    assert connection.get_req() is worker_handlers.BeamFnControlServicer._DONE_MARKER


def test_errors_that_are_not_ours_stay_what_they_are() -> None:
    """A bug is not dressed up as the user's mistake."""
    with pytest.raises(ZeroDivisionError):
        run_module.run(
            lambda pipeline: pipeline | beam.Create([0]) | beam.Map(lambda zero: 1 // zero),
            run_module.pipeline_options([], 1),
        )


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-v 1900000", "1.9 GB on the address space of a process (ulimit -v), expected 2.8 GB"),
        ("-d 340000", "0.3 GB on the data of a process (ulimit -d), expected 0.6 GB"),
    ],
)
def test_limits_that_workers_cannot_start_in(tmp_path: Path, limit: str, said: str) -> None:
    """A run whose workers cannot start their threads ends with a reason.

    It would hang otherwise. The remedy works.
    """
    (tmp_path / "data.csv").write_text("a\n1\n")
    command = f"{Path(sys.executable).with_name('beam-pipelines')} convert data.csv --output out -q"
    ended = [
        subprocess.run(
            ["bash", "-c", f"ulimit {limit}; {command} --direct_num_workers={workers}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )
        for workers in (2, 1)
    ]
    assert [each.returncode for each in ended] == [1, 0], ended[1].stderr
    assert ended[0].stderr.startswith(f"error: found a limit of {said} or more: ")


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: can't start new thread [while running 'Convert/Write']",
        "ArrowMemoryError: In CSV column #1: malloc of size 314688 failed",
        "MemoryError: there is not enough memory for the result",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
def test_memory_that_runs_out(said: str) -> None:
    """Messages on exhausted memory are explained, from any process.

    Other messages are not.
    """
    error = run_module.find_error(f"Traceback (most recent call last):\n  File 'x', line 1\n{said}")
    assert str(error).startswith(
        f"memory ran out, or the limit that this process was started with (ulimit -v, ulimit -d): {said}."
    )
    assert run_module.find_error("ValueError: a memory of MemoryErrors") is None


@pytest.mark.parametrize(
    "said",
    [
        "failed in state FAILED: …StatusRuntimeException: CANCELLED: client cancelled",
        "bundle inst003 stage-004 failed:SDK worker disconnected: worker[job-002], 2 active",
    ],
)
def test_a_lost_worker(said: str) -> None:
    """The error of a killed worker names its likely cause."""
    error = run_module.find_error(f"RuntimeError: Pipeline job-002 {said}")
    assert f"{said}. Most often the system has ended it for lack of memory" in str(error)
