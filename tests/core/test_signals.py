"""core/process/signals.py: Ctrl-C, SIGTERM and SIGHUP end a process tidily.

The process prints no traceback, wherever its main thread is.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.end_to_end

BEGIN = """\
import atexit, os, signal, sys, time
from beam_pipelines.core.process import signals
def stop():
    os.kill(os.getpid(), signal.SIGNAL)
def wait():
    time.sleep(400)  # for a signal; a program that goes on fails its test
"""
LINE = "error: interrupted; nothing was committed.\n"


def run(body: str, signal: str = "SIGINT") -> tuple[int, str, str]:
    """Runs a program that stops itself.

    Returns:
      Its exit status, its standard output and its standard error.
    """
    # A test that runs under nohup inherits that SIGHUP is ignored, which programs respect.
    reset = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    code = reset + BEGIN.replace("SIGNAL", signal) + body
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_finalizer_does_not_swallow_the_exception(signal: str) -> None:
    """A signal in a finalizer prints nothing and raises a moment later.

    A finalizer cannot raise an exception itself.
    """
    body = """
class Thing:
    def __del__(self):
        stop()
        time.sleep(0.01)
signals.raise_on_signal()
try:
    Thing()
    wait()
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(body, signal) == (0, "stopped\n", "")


@pytest.mark.parametrize(
    "delay",
    [
        pytest.param(
            """
start = threading.Thread.start
def slowly(self):
    start(self)
    time.sleep(0.1)
threading.Thread.start = slowly
""",
            id="the hook is slow",
        ),
        pytest.param(
            """
kill, seen = signal.pthread_kill, []
def lost(*arguments):
    seen.append(arguments)
    if len(seen) > 1:
        kill(*arguments)
signal.pthread_kill = lost
""",
            id="the signal interrupts nothing",
        ),
    ],
)
def test_one_signal_that_is_lost_is_not_enough(delay: str) -> None:
    """A repeated signal that comes too early is repeated again."""
    body = f"""
import threading
{delay}
class Thing:
    def __del__(self):
        stop()
signals.raise_on_signal()
try:
    Thing()
    wait()
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(body) == (0, "stopped\n", "")


def test_what_else_a_finalizer_raises_is_told() -> None:
    """An error in a finalizer is printed as usual without a signal."""
    body = (
        "signals.raise_on_signal()\nclass Thing:\n    def __del__(self):\n        1 / 0\nThing()\n"
    )
    status, _, err = run(body)
    assert status == 0
    assert "ZeroDivisionError" in err


def test_a_second_signal_does_not_disturb_the_tidying_up() -> None:
    """A second signal right after the first does not disturb the cleanup."""
    body = """
signals.raise_on_signal()
try:
    stop()
    wait()
except KeyboardInterrupt:
    stop()
    time.sleep(0.01)
    print("tidied up")
"""
    assert run(body) == (0, "tidied up\n", "")


def test_a_late_second_signal_ends_what_does_not_end() -> None:
    """A late second signal ends the process and names the remains."""
    body = """
signals.raise_on_signal()
signals.TIDYING_SECS = 0.05
try:
    stop()
    wait()
except KeyboardInterrupt:
    time.sleep(0.1)
    stop()
    wait()
"""
    status, _, err = run(body)
    assert status == 130
    assert (
        err
        == "error: interrupted twice; temporary files may be left, which the next run removes.\n"
    )


def test_a_body_that_is_not_to_be_disturbed() -> None:
    """A signal during a cleanup does nothing; the cleanup goes on."""
    body = """
signals.raise_on_signal()
with signals.ignoring_signals():
    stop()
    time.sleep(0.01)
    print("undisturbed", signals.has_raised())
"""
    assert run(body) == (0, "undisturbed False\n", "")


def test_an_exception_that_nobody_catches_is_silent() -> None:
    """Python prints no traceback of an uncaught signal exception."""
    status, _, err = run("signals.raise_on_signal()\nstop()\nwait()\n")
    assert (status, err) == (-2, "")
    assert "ZeroDivisionError" in run("signals.raise_on_signal()\n1 / 0\n")[2]


def test_a_command_stopped_while_it_is_imported() -> None:
    """A command stopped during its import prints its line and ends."""
    body = """
class Finder:
    def find_spec(self, name, *_):
        if name == "beam_pipelines.cli.main":
            stop()
            wait()
sys.meta_path.insert(0, Finder())
from beam_pipelines.cli import start
start.main()
"""
    assert run(body) == (130, "", LINE)


def test_a_command_stopped_at_its_very_end() -> None:
    """A signal at the very end does not change the exit status.

    Functions registered for the exit print nothing.
    """
    body = """
def late():
    stop()
    wait()
atexit.register(late)
sys.argv = ["beam-pipelines", "--version"]
from beam_pipelines.cli import main
main.main()
"""
    status, out, err = run(body)
    assert (status, err) == (0, "")
    assert out.startswith("beam-pipelines ")


def test_a_command_stopped_while_it_runs() -> None:
    """A stopped command reports the interruption, not the error that follows it."""
    body = """
from beam_pipelines.cli import main
def fails(*_, **__):
    try:
        stop()
        wait()
    except KeyboardInterrupt:
        raise RuntimeError("a worker process is gone") from None
main.cli.main = fails
main.main()
"""
    status, _, err = run(body)
    assert (status, err) == (130, LINE)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a structure of Linux's")
def test_arrow_leaves_our_handlers_alone() -> None:
    """Arrow does not replace our signal handlers.

    It would set its own while it reads, and they lose a signal now and then.
    """
    body = """
import ctypes, io
from pyarrow import csv
from beam_pipelines.cli import main
from beam_pipelines.core import errors
def handler():
    found = (ctypes.c_void_p * 32)()
    ctypes.CDLL(None).sigaction(int(signal.SIGINT), None, found)
    return found[0]
signals.raise_on_signal()
ours = handler()
try:
    main.cli.main(["verify", "missing"], standalone_mode=False)
except errors.DataError:
    print("no dataset")
class File(io.BytesIO):
    def read(self, size=-1):
        print(handler() == ours)
        return super().read()
csv.read_csv(File(b"a,b\\n1,2\\n"))
"""
    assert set(run(body)[1].split("\n")) == {"no dataset", "True", ""}


def test_the_end_of_the_terminal_is_ignored_by_who_was_told_to() -> None:
    """A command that was started to outlive its terminal (nohup) does."""
    body = "signals.raise_on_signal()\nstop()\ntime.sleep(0.01)\nprint('goes on')\n"
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        + BEGIN.replace("SIGNAL", "SIGHUP")
        + body
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "goes on\n", "")
