"""The process that builds the serving graph ends with its run."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

pytestmark = pytest.mark.end_to_end

RECIPE = (
    "name: t\nsources: {t: a.csv}\nencode: {a: z_score, b: vocabulary}\noutput: {serving: true}\n"
)
COMMAND = [
    sys.executable, "-m", "beam_pipelines", "convert", "r.yaml", "--output", "out", "--quiet",
]  # fmt: skip


@contextlib.contextmanager
def running(recipe: str) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """Runs a recipe in its own process group.

    The fixture gives the run and its new builder.
    """
    pathlib.Path("r.yaml").write_text(recipe)
    pathlib.Path("a.csv").write_text(
        "a,b\n" + "".join(f"{row},v{row % 7}\n" for row in range(1000))
    )
    run = subprocess.Popen(
        COMMAND,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: bool(builders(run)), run)
        yield run, builders(run)
    finally:
        run.kill()
        run.communicate()


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits for a condition while a process runs."""
    deadline = time.monotonic() + 120
    while not happened():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def builders(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Returns the processes of a run that build a serving graph."""
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if any("beam_pipelines.serving" in each for each in child.cmdline())
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_nothing(number, tmp_path, monkeypatch):
    """Ctrl-C and SIGTERM end the builder, and leave no file."""
    monkeypatch.chdir(tmp_path)
    with running(RECIPE) as (run, found):
        os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)
        _, error = run.communicate(timeout=120)
    assert run.returncode == 130
    assert error.strip() == "error: interrupted; nothing was committed."
    assert psutil.wait_procs(found, timeout=120)[1] == []
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"r.yaml", "a.csv"}


def test_a_run_that_is_killed_takes_its_builder_along(tmp_path, monkeypatch):
    """A builder ends when it asks a killed run for its job."""
    monkeypatch.chdir(tmp_path)
    with running(RECIPE) as (run, found):
        run.kill()
        assert len(found) == 1
        assert psutil.wait_procs(found, timeout=120)[1] == []


def test_a_builder_loads_only_what_it_needs() -> None:
    """The builder loads no Beam, Keras or tensorflow-transform.

    Each would take a second; Keras is lazy.
    """
    program = (
        "import sys\nfrom beam_pipelines.serving import __main__ as "
        "builder\nbuilder.load_tensorflow()\n"
        "print([name for name in ('apache_beam', 'keras', 'tensorflow_transform') if name in "
        "sys.modules])\n"
        "import tensorflow as tf\nprint(tf.keras.layers.Dense.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["[]", "Dense"], done.stderr
