"""Starts conversions for a test to break, and checks their remains."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline.resume import KEPT
from tests.support.contents import timeless
from tests.support.reports import without_seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The number of moments that each sweep tries; the complete one: 100.
MOMENTS = int(os.environ.get("FAULT_MOMENTS", "100"))
SEED = int(os.environ.get("FAULT_SEED", "7"))
PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
ONE = ("--direct_num_workers=1",)
FILES = 4

# Every kind of thing that a conversion leaves: shards, statistics, a serving graph, rejected rows;
# and a join, so that there are exchanges.
RECIPE = """
name: visits
sources:
  visits: {path: "INPUT/visits-*.csv", types: {seconds: int64}}
  users: {path: "INPUT/users.csv", key: user}
from: visits
join:
  - {source: users, on: user, prefix: user_, strategy: hash}
derive: {long: seconds > 300}
ENCODE
label: long
split: {train: 0.8, eval: 0.2, by: [user]}
on_error: {reject: 1%}
output: {num_shards: 4, shuffle_seed: 5, serving: true}
"""
ENCODE = "encode:\n  site: vocabulary\n  seconds: z_score\n"


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a command.

    It holds the exit status (negative: the signal), the output, and the seconds that the command
    and its processes took.
    """

    status: int
    out: str
    err: str
    secs: float


class Run:
    """A command that goes on.

    Attributes:
      pid: of the command, and of the session of all its processes.
    """

    def __init__(self, pid: int, notes: pathlib.Path, started: float) -> None:
        self.pid, self._notes, self._started = pid, notes, started

    def processes(self) -> list[psutil.Process]:
        """Returns all living processes of the command.

        They may hang anywhere in the tree.
        """
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess, PermissionError):
                if (
                    os.getsid(pid) == self.pid
                    and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(psutil.Process(pid))
        return found

    def is_running(self) -> bool:
        """Whether the command still runs."""
        return not (self._notes / "ended").exists()

    def secs(self) -> float:
        """Returns how long it has been running."""
        return time.monotonic() - self._started

    def signal(self, number: int, everybody: bool = False) -> float:
        """Sends a signal to the command or its process group.

        Returns:
          When it was sent.
        """
        at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everybody else os.kill)(self.pid, number)
        return at

    def wait(self, timeout: float = 120) -> Ended:
        """Waits for the command's own end.

        It kills a hanging command and fails the test.
        """
        deadline = time.monotonic() + timeout
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.005)
        hangs = self.is_running()
        if hangs:
            family = [" ".join(process.cmdline())[:200] for process in self.processes()]
            self.end()
            raise AssertionError(f"the command still runs after {timeout} s: {family}")
        ended = json.loads((self._notes / "ended").read_text())
        # One that was killed in its first millisecond has opened neither.
        printed = [self._notes / name for name in ("out", "err")]
        out, err = (path.read_text(errors="replace") if path.exists() else "" for path in printed)
        return Ended(ended["status"], out, err, ended["at"] - self._started)

    def end(self) -> None:
        """Kills all remaining processes."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def left_processes(self, timeout: float = 20) -> list[str]:
        """Returns the command lines of its processes that remain after a while."""
        deadline = time.monotonic() + timeout
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return [f"{process.pid}: {' '.join(process.cmdline())[:200]}" for process in left]


class Workshop:
    """A folder with data, and the process that starts commands."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._runs: list[Run] = []
        self._number = 0
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.starter"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._starter.stdout is not None
        assert self._starter.stdout.readline() == "ready\n"

    def close(self) -> None:
        """Ends everything that was started."""
        for run in self._runs:
            run.end()
        assert self._starter.stdin is not None
        self._starter.stdin.close()
        self._starter.wait()

    def start(
        self,
        folder: pathlib.Path,
        *arguments: str,
        faults: Sequence[dict[str, Any]] = (),
        obeys_permissions: bool = False,
        temporary: pathlib.Path | None = None,
    ) -> Run:
        """Starts a command.

        Args:
          folder: in which it runs; the system's temporary folder of the command is ``temporary`` in
            it, unless that is given.
          arguments: of the command line.
          faults: as ``injected.install`` takes them, without their counters.
          obeys_permissions: whether the command must obey them though we are root.
          temporary: see above.
        """
        self._number += 1
        notes = self.folder / "notes" / str(self._number)
        notes.mkdir(parents=True)
        temporary = temporary or folder / "temporary"
        temporary.mkdir(exist_ok=True)
        request = {
            "folder": str(folder),
            "arguments": arguments,
            "notes": str(notes),
            # TensorFlow's autograph would leave compiled functions in the temporary folder.
            "environment": {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
            "obeys_permissions": obeys_permissions,
            "faults": [
                {**fault, "counter": str(notes / f"count{number}")}
                for number, fault in enumerate(faults)
            ],
        }
        started = time.monotonic()
        assert self._starter.stdin is not None
        self._starter.stdin.write(json.dumps(request) + "\n")
        self._starter.stdin.flush()
        while not (notes / "pid").exists():
            time.sleep(0.001)
        run = Run(int((notes / "pid").read_text()), notes, started)
        self._runs.append(run)
        return run

    def counted(self, fault: int = 0) -> int:
        """Returns how many operations the last command's fault has counted."""
        path = self.folder / "notes" / str(self._number) / f"count{fault}"
        return path.stat().st_size if path.exists() else 0

    def convert(self, folder: pathlib.Path, *options: str, **arguments: Any) -> Run:
        """Starts a conversion of ``recipe.yaml`` into ``out``."""
        return self.start(
            folder, "convert", "recipe.yaml", "--output", "out", "--quiet", *options, **arguments
        )

    def fill(self, folder: pathlib.Path, earlier: pathlib.Path) -> None:
        """Puts an earlier dataset into a folder's output."""
        shutil.copytree(earlier, folder / "out")

    def place(
        self, name: str, *, encodes: bool = True, rows: int = 0, input_: str = ""
    ) -> pathlib.Path:
        """Makes an empty folder with a recipe.

        The data are shared, or with ``rows`` the folder's own.

        Args:
          name: of the folder.
          encodes: whether there is anything to fit, and with it a serving graph, which takes most
            of the time.
          rows: of visits.
          input_: the data's path in the recipe, if it is not their own folder.
        """
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        data = self.folder / "data"
        if rows:
            data = folder
            make_data(folder, rows)
        text = RECIPE.replace("INPUT", input_ or str(data)).replace(
            "ENCODE", ENCODE if encodes else ""
        )
        (folder / "recipe.yaml").write_text(text)
        return folder


def make_data(folder: pathlib.Path, rows: int) -> None:
    """Writes a table of visits in several files, and one of users.

    A few of the visits are bad rows.
    """
    rng = random.Random(11)
    for number in range(FILES):
        lines = ["user,day,seconds,site,comment"]
        for row in range(rows // FILES):
            seconds = "soon" if row % 997 == 500 else rng.randrange(600)
            lines.append(
                f"u{rng.randrange(3000)},{rng.randrange(30)},{seconds},s{rng.randrange(400)},{rng.getrandbits(96):024x}"
            )
        (folder / f"visits-{number}.csv").write_text("\n".join(lines) + "\n")
    users = [f"u{user},{user % 90}" for user in range(2900)]
    (folder / "users.csv").write_text("\n".join(["user,age", *users]) + "\n")
    for path in folder.glob("*.csv"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # dates are in the manifest


def dataset(folder: pathlib.Path) -> dict[str, str]:
    """Returns file -> SHA-256 of everything in a dataset.

    The hashes of manifest and report leave out timings.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.name == "dataset.json":
                data = json.dumps(timeless(json.loads(data))).encode()
            elif path.name == "report.html":
                data = without_seconds(data)
            found[str(path.relative_to(folder))] = hashlib.sha256(data).hexdigest()
    return found


def check_all_or_nothing(output: pathlib.Path, expected: dict[str, str]) -> bool:
    """Checks that there is no dataset, or a whole one, which verifies.

    Returns:
      Whether there is one.
    """
    if not (output / "dataset.json").exists():
        return False
    verify_dataset(str(output))
    found = {
        name: digest
        for name, digest in dataset(output).items()
        if not name.startswith("_temporary/")
    }
    assert differences(found, expected) == []
    return True


def differences(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Returns the files that are missing, too many, or have other bytes."""
    return sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )


def check_clean(folder: pathlib.Path, has_failed: bool = False) -> None:
    """Checks that the output and the system's temporary folder are clean.

    Args:
      folder: of the run.
      has_failed: whether finished shards may remain there, for ``--resume``.
    """
    left = list((folder / "temporary").rglob("*"))
    if (folder / "out").exists():
        left += [
            path
            for path in folder.joinpath("out").rglob("*")
            if "_temporary" in path.parts or path.suffix == ".part"
        ]
    if has_failed:
        left = [
            path
            for path in left
            if path.is_file()
            and path.relative_to(folder / "out" / "_temporary").parts[0] not in KEPT
        ]
    assert not left, left


def check_error(ended: Ended, *parts: str, status: int = 1) -> None:
    """Checks that a command failed with one clean error."""
    assert ended.status == status, f"{ended.status}\n{ended.err}"
    assert "Traceback" not in ended.err
    lines = ended.err.splitlines()
    assert lines, "the command failed without a word"
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in ended.err, f"{part!r} is not in: {ended.err}"


def check_next_run(
    workshop: Workshop, folder: pathlib.Path, expected: dict[str, str], *options: str
) -> None:
    """Checks that the next run succeeds with the same bytes.

    It leaves nothing temporary, whatever was there before.
    """
    again = workshop.convert(folder, *(options or THREADS), "--overwrite").wait()
    assert again.status == 0, again.err
    assert differences(dataset(folder / "out"), expected) == []
    check_clean(folder)


def moments(count: int, least: int = 1) -> range:
    """Returns the numbers of some moments; fewer where ``FAULT_MOMENTS`` says so."""
    return range(max(least, round(count * MOMENTS / 100)))


def random_of(name: str, number: int) -> random.Random:
    """Returns the random generator for one moment of a test.

    It is the same in every run, unless ``FAULT_SEED`` says otherwise.
    """
    return random.Random(f"{SEED} {name} {number}")


def sleep_until(moment: float, is_over: Callable[[], bool]) -> None:
    """Sleeps until a moment of the monotonic clock or an end."""
    while time.monotonic() < moment and not is_over():
        time.sleep(0.002)


def slowdown() -> float:
    """Returns how much longer than alone a busy loop takes now.

    The factor is at least 1.
    """
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.05:
        pass
    return max(1.0, (time.monotonic() - wall) / 0.05)


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: str, *, options: str = "") -> Iterator[pathlib.Path]:
    """Mounts a disk of its own.

    Raises:
      PermissionError: it may not be mounted.
    """
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(disk)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
        raise PermissionError
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
