"""runners/fork_server.py: worker processes are forks, and none outlives the command."""

from __future__ import annotations

import ast
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import psutil
import pytest

from beam_pipelines.cli import main
from beam_pipelines.cli import options as cli_options
from beam_pipelines.runners import fork_server
from beam_pipelines.runners.run import ONE_THREAD_BYTES

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only"),
]

BIN = pathlib.Path(sys.executable).parent
ROWS = 60_000
_SET_CHILD_SUBREAPER = 36  # of prctl
RECIPE = "name: numbers\nsources: {numbers: {path: numbers.csv}}\noutput: {num_shards: 3}\n"
MANY = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
SERVER = """\
import sys
from beam_pipelines.runners import fork_server
fork_server.allow_forks()
with fork_server.running():
    print("ready", flush=True)
    print(eval(sys.argv[1]), flush=True)
"""


def serve(expression: str) -> subprocess.Popen[str]:
    """Starts a process with a fork server, which evaluates an expression."""
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, expression],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def convert(folder: pathlib.Path, output: str, *options: str) -> subprocess.Popen[str]:
    """Starts a conversion by the command line."""
    command = [str(BIN / "beam-pipelines"), "convert", "recipe.yaml", "--output", output, "--quiet"]
    return subprocess.Popen([*command, *options], cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a recipe and its table."""
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "numbers.csv").write_text(
        "a,b\n" + "".join(f"{row},x{row % 977}\n" for row in range(ROWS))
    )
    return tmp_path


def test_a_program_with_threads_of_its_own_is_not_forked() -> None:
    """Only the command line's own process is."""
    with fork_server.running():
        assert not fork_server.is_running()


def test_without_forks_there_is_a_folder_alone() -> None:
    """The command has its folder for temporary files, and no child."""
    expression = "len(psutil.Process().children()), tempfile.gettempdir()"
    code = f"import psutil, tempfile\n{SERVER.replace('running()', 'running(forks=False)')}"
    command = [sys.executable, "-c", code, expression]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    number, folder = ast.literal_eval(printed.splitlines()[1])
    assert number == 0
    assert os.path.basename(folder).startswith("beam-pipelines-run-")
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("arguments", "is_small"),
    [
        (["numbers.csv"], True), (["large.csv"], False), (["numbers.csv", *MANY], False),
        (["recipe.yaml"], False), (["."], False), (["-"], False),
    ],
)  # fmt: skip
def test_one_small_file_needs_no_forks(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_small: bool
) -> None:
    """Recipes, folders, larger files and options of Beam's may."""
    monkeypatch.chdir(data)
    (data / "large.csv").touch()
    os.truncate(data / "large.csv", ONE_THREAD_BYTES)
    context = main.convert.make_context("convert", [*arguments, "--output", "out"])
    assert cli_options._is_small(context) == is_small


def test_forks_write_what_threads_write(data: pathlib.Path) -> None:
    """Forked workers give the bytes that threads give.

    Their own output is dropped.
    """
    for output, options in (("forks", MANY), ("thread", ["--direct_num_workers=1"])):
        process = convert(data, output, *options)
        _, errors = process.communicate(timeout=1200)
        assert (process.returncode, errors) == (0, "")
    written = [sorted((data / output / "examples").rglob("*.gz")) for output in ("forks", "thread")]
    assert len(written[0]) == 3
    assert [path.read_bytes() for path in written[0]] == [path.read_bytes() for path in written[1]]


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_worker_that_fails_says_so(is_quiet: bool) -> None:
    """A worker without Beam's variables fails with exit status 1.

    Its traceback is in the launcher's standard error, or nowhere.
    """
    printed, errors = serve(f"fork_server.run_worker({{}}, {is_quiet})").communicate(timeout=1200)
    assert printed.splitlines() == ["ready", "1"]
    assert ("CONTROL_API" in errors) != is_quiet


@pytest.fixture
def adopted() -> Iterator[None]:
    """Makes this process the parent of orphans."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("number", "signalled"),
    [(signal.SIGKILL, 1), (signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 4)],
)
@pytest.mark.usefixtures("adopted")
def test_no_process_outlives_the_command(
    data: pathlib.Path, number: signal.Signals, signalled: int
) -> None:
    """Workers and their server end with a killed or interrupted command.

    The command has waited for its children, if it could; its server has in any case.
    """
    process = convert(data, "out", *MANY)
    family: dict[int, psutil.Process] = {}
    deadline = time.monotonic() + 120
    while len(family) < 3 and time.monotonic() < deadline and process.poll() is None:
        family |= {
            child.pid: child for child in psutil.Process(process.pid).children(recursive=True)
        }
        time.sleep(0.05)
    assert len(family) >= 3, "a server and two workers"
    for each in [process.pid, *family][:signalled]:
        os.kill(each, number)
    process.communicate(timeout=1200)
    orphans = []
    if number == signal.SIGKILL:  # the server ends when the command has
        orphans, _ = psutil.wait_procs(list(family.values()), timeout=1200)
        assert len(orphans) == len(family)
    left = {child.pid for child in psutil.Process().children()}
    assert not left & family.keys()


@pytest.fixture
def temporary() -> Iterator[pathlib.Path]:
    """A folder whose path is short enough for a socket's."""
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


def test_a_folder_that_nobody_removed(temporary: pathlib.Path) -> None:
    """A command removes the folders of killed commands.

    It leaves the folder of a command that is running or about to start.
    """
    environment = {**os.environ, "TMPDIR": str(temporary)}
    code = (
        "from beam_pipelines.runners import fork_server as f; f.allow_forks()\nwith "
        "f.running(): print(f.is_running(), flush=True); input()"
    )
    start = [sys.executable, "-c", code]
    running, killed = (
        subprocess.Popen(
            start,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            text=True,
        )
        for _ in range(2)
    )
    for process in (running, killed):
        assert process.stdout is not None
        process.stdout.readline()
    assert len(list(temporary.iterdir())) == 2
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert len(list(temporary.iterdir())) == 2
    for path in temporary.iterdir():
        os.utime(path, (time.time() - 100,) * 2)
    (temporary / "beam-pipelines-run-new").mkdir()
    subprocess.run(start, input=b"", capture_output=True, env=environment, check=False)
    assert len(list(temporary.iterdir())) == 2
    running.communicate("\n")
    assert [path.name for path in temporary.iterdir()] == ["beam-pipelines-run-new"]
