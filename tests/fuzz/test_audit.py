"""What the readers of untrusted files start, connect to, import and open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import audit
from tests.fuzz.targets import NAMES

# The manifest's target imports TensorFlow to load the dataset, which takes longer than all others.
_TARGETS = [name for name in NAMES if name != "manifest"]
_BAD_READER = """
import ctypes, os, socket, sys, types
from tests.fuzz import audit
from tests.fuzz.target import Target

def run(data):
    open("/etc/hostname").close()
    ctypes.CDLL(None).open(b"/etc/group", 0)
    try:
        socket.create_connection(("127.0.0.1", 9), 0.1)
    except OSError:
        pass
    sys.modules["stranger"] = types.SimpleNamespace(__file__="/tmp/stranger.py")
    os.system("true")

sys.modules["plugins.tests.fuzz_targets.hdf5"] = types.SimpleNamespace(
    TARGET=Target(run, lambda: [b""], lambda data, chance: data)
)
audit.main(["hdf5"])
"""


def is_traced() -> bool:
    """Whether strace is installed and may trace."""
    if shutil.which("strace") is None:
        return False
    done = subprocess.run(audit.traced(os.devnull, ["true"]), capture_output=True, check=False)
    return done.returncode == 0


CAN_TRACE = is_traced()
needs_strace = pytest.mark.skipif(not CAN_TRACE, reason="strace is missing or may not trace")


def audited(log: Path, *arguments: str) -> tuple[list[str], list[str]]:
    """Runs an audit in a process of its own.

    Returns:
      Its lines, and what is wrong with calls of the system, if strace can tell.
    """
    command = [sys.executable, *arguments]
    if CAN_TRACE:
        command = audit.traced(str(log), command)
    done = subprocess.run(command, capture_output=True, text=True, cwd=audit.ROOT, check=True)
    calls = log.read_text(errors="replace").splitlines() if CAN_TRACE else []
    return done.stdout.splitlines(), [
        wrong for line in calls if (wrong := audit.system_fault(line))
    ]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Returns an audit of all readers."""
    log = tmp_path_factory.mktemp("audit") / "calls"
    return audited(log, "-m", "tests.fuzz.audit", *_TARGETS)


def test_readers_do_nothing_but_read(readers: tuple[list[str], list[str]]) -> None:
    """Readers start, connect to, import and open nothing else."""
    count, *wrong = readers[0]
    assert count.endswith(f" inputs of {len(_TARGETS)} targets")
    assert int(count.split()[0]) > 500
    assert wrong == []


@needs_strace
def test_libraries_of_readers_do_nothing_but_read(readers: tuple[list[str], list[str]]) -> None:
    """Libraries in C start, connect to and open nothing else either."""
    assert readers[1] == []


@pytest.fixture(scope="module")
def bad_reader(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Returns an audit of a reader that breaks all rules."""
    return audited(tmp_path_factory.mktemp("audit") / "calls", "-c", _BAD_READER)


def test_a_reader_that_does_more_is_found(bad_reader: tuple[list[str], list[str]]) -> None:
    """The audit names each act of a reader that does all four."""
    _, *wrong = bad_reader[0]
    for act in (
        "open /etc/hostname",
        "socket.connect",
        "os.system",
        "module stranger /tmp/stranger.py",
    ):
        assert any(line.startswith(act) for line in wrong), (act, wrong)


@needs_strace
def test_a_library_that_does_more_is_found(bad_reader: tuple[list[str], list[str]]) -> None:
    """Calls of the system are seen without events of Python."""
    assert not any("/etc/group" in line for line in bad_reader[0])
    for act in ("openat /etc/hostname", "openat /etc/group", "connect ", "execve ['/bin/sh'"):
        assert any(line.startswith(act) for line in bad_reader[1]), (act, bad_reader[1])


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ('7 openat(AT_FDCWD</w>, "/etc/passwd", O_RDONLY) = 3</etc/passwd>', True),
        ('7 openat(AT_FDCWD</etc>, "passwd", O_RDONLY <unfinished ...>', True),
        ('7 openat(4</etc>, "a\\"b", O_RDONLY) = -1 ENOENT (No such file or directory)', True),
        ('7 open("/lib/../etc/p\\303\\244", O_RDONLY) = -1 ENOENT (No such file)', True),
        ('7 creat("/var/a", 0666) = 3', True),
        ('7 execve("/usr/bin/gs", ["gs", "-q"], 0x7 /* 9 vars */) = 0', True),
        ("7 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(80)}, 16) = 0", True),
        ('7 execve("/usr/bin/uname", ["uname", "-p"], 0x7 /* 9 vars */) = 0', False),
        ('7 openat(AT_FDCWD</w>, "/lib/x86_64-linux-gnu/libm.so.6", O_RDONLY) = 3', False),
        (f'7 openat(AT_FDCWD</w>, "{audit.ROOT}/README.md", O_RDONLY) = 3', False),
        ("7 <... openat resumed>) = 3", False),
        ("7 +++ exited with 0 +++", False),
    ],
)
def test_calls(line: str, is_wrong: bool) -> None:
    """A call of the system is judged by kind and path."""
    assert bool(audit.system_fault(line)) == is_wrong


@pytest.mark.parametrize(
    ("event", "arguments", "is_wrong"),
    [
        ("subprocess.Popen", ("gs", ["gs", "-q"], None, None), True),
        ("os.exec", ("/bin/sh", [], None), True),
        ("socket.connect", (None, ("10.0.0.1", 80)), True),
        ("open", ("/etc/passwd", "r", 0), True),
        ("open", (b"/dev/../etc/passwd", "r", 0), True),
        # A clone may be in the temporary folder, which may be opened.
        ("open", (f"{audit.ROOT}/{os.path.relpath('/etc/passwd', audit.ROOT)}", "r", 0), True),
        ("sqlite3.connect", ("file:/var/a.db?mode=ro",), True),
        ("import", ("a", "/opt/a.so", None, None, None), True),
        ("open", (3, "r", 0), False),
        ("open", (f"{audit.ROOT}/README.md", "r", 0), False),
        ("open", ("/dev/null", "r", 0), False),
        ("import", ("a", None, None, None, None), False),
        ("compile", ("/etc/passwd", None), False),
    ],
)
def test_acts(event: str, arguments: tuple[Any, ...], is_wrong: bool) -> None:
    """An act is judged by its kind and the real path."""
    assert bool(audit.fault(event, arguments)) == is_wrong
