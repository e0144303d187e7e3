"""The commands of docs/runners.md that start an engine of their own.

The tests also check what the commands leave when they end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engines import conversions, engines
from tests.engines.conftest import LOCAL

pytestmark = pytest.mark.runners

COMMANDS = {
    "prism": (engines.PRISM, ("--runner=PrismRunner", f"--prism_location={engines.PRISM}")),
    "flink": (engines.FLINK_JOB_SERVER, ("--runner=FlinkRunner", f"--flink_job_server_jar={engines.FLINK_JOB_SERVER}", "--parallelism=2")),
    "spark": (engines.SPARK_JOB_SERVER, ("--runner=SparkRunner", f"--spark_job_server_jar={engines.SPARK_JOB_SERVER}")),
}  # fmt: skip
CONVERT = (sys.executable, "-m", "beam_pipelines", "convert")
ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in COMMANDS]
# In the environment of a command, and so of all that it starts.
_MARK = "BEAM_PIPELINES_TEST"
WAIT_SECS = 120


def options_of(name: str) -> Sequence[str]:
    """Returns the engine's options, or skips the test.

    The command starts the engine.
    """
    needed, options = COMMANDS[name]
    if not needed.exists():
        pytest.skip(f"{name}: {needed.name} is not there.")
    return options


@pytest.mark.parametrize("name", ENGINES)
def test_one_command(name: str, data: Path, tmp_path: Path) -> None:
    """The command starts the engine and writes the usual dataset."""
    options = options_of(name)
    recipe = conversions.SOURCE_ORDER
    for table in ("visits.csv", "users.jsonl", "shops.parquet"):
        recipe = recipe.replace(f"path: {table}", f"path: {data / table}")
    (tmp_path / "recipe.yaml").write_text(recipe)
    command = [*CONVERT, tmp_path / "recipe.yaml", "--quiet"]
    for output, chosen in ((tmp_path / "expected", LOCAL), (tmp_path / "found", options)):
        ended = subprocess.run(
            [*command, "--output", output, *chosen], capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
    conversions.assert_same(tmp_path / "found", tmp_path / "expected")


class Command:
    """A conversion in its own process, with its own temporary folder.

    It knows what it has left behind.
    """

    def __init__(self, folder: Path, rows: Sequence[str], options: Sequence[str]) -> None:
        self.output, self.temporary, self.mark = folder / "out", folder / "tmp", uuid.uuid4().hex
        self.temporary.mkdir()
        (folder / "d.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
        self.process = subprocess.Popen(
            [*CONVERT, str(folder / "d.csv"), "--quiet", "--output", str(self.output), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(self.temporary), _MARK: self.mark},
        )

    def wait_for_chunks(self) -> None:
        """Waits until the first read has stored a chunk.

        The job is then in its middle.
        """
        end = time.monotonic() + WAIT_SECS
        while not list((self.output / "_temporary" / "kept").glob("*")):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Returns the exit status, and all that the command has printed."""
        printed, _ = self.process.communicate(timeout=WAIT_SECS)
        return self.process.returncode, printed

    def left(self) -> tuple[list[str], list[str]]:
        """Returns the remains of a command.

        These are processes that it started, and files in the temporary folder.
        """
        processes = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes():
                    processes.append(
                        (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
            except OSError:  # gone, or a process of the system
                continue
        return processes, sorted(path.name for path in self.temporary.iterdir())


ROWS = [f"{number},{number % 97},text of row {number}" for number in range(60_000)]


@pytest.mark.parametrize("name", ENGINES)
def test_success_leaves_nothing(name: str, tmp_path: Path) -> None:
    """A conversion with --quiet prints nothing and leaves nothing.

    No process and no temporary file remains.
    """
    command = Command(tmp_path, ROWS, options_of(name))
    assert command.end() == (0, "")
    assert command.left() == ([], [])
    assert (command.output / "dataset.json").exists()


@pytest.mark.parametrize("name", ENGINES)
def test_failure_leaves_nothing(name: str, tmp_path: Path) -> None:
    """A bad row in the last range gives error and remedy.

    It leaves no process, no temporary file and no dataset.
    """
    command = Command(tmp_path, [*ROWS, "1,2"], options_of(name))
    status, printed = command.end()
    assert status == 1
    error, remedy = printed.splitlines()
    assert error.startswith("error: "), printed
    assert remedy.startswith("Without a recipe, "), printed
    assert "d.csv, line 60002" in printed
    assert command.left() == ([], [])
    assert not any(path.is_file() for path in command.output.rglob("*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("name", ENGINES)
def test_interruption_leaves_nothing(name: str, number: signal.Signals, tmp_path: Path) -> None:
    """A signal in the middle of the job gives a one-line error.

    It leaves no process, no temporary file and no dataset.
    """
    command = Command(tmp_path, ROWS, options_of(name))
    command.wait_for_chunks()
    command.process.send_signal(number)
    assert command.end() == (130, "\nerror: interrupted; nothing was committed.\n")
    assert command.left() == ([], [])
    assert not any(path.is_file() for path in command.output.rglob("*"))
