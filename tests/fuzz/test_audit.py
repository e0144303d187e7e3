"""What the readers of untrusted files start, connect to, import and open."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.fuzz import audit
from tests.fuzz.targets import NAMES

# The manifest's target imports TensorFlow to load the dataset, which takes longer than all others.
_TARGETS = [name for name in NAMES if name != "manifest"]
_BAD_READER = """
import os, socket, sys, types
from tests.fuzz import audit
from tests.fuzz.target import Target

def run(data):
    open("/etc/hostname").close()
    try:
        socket.create_connection(("127.0.0.1", 9), 0.1)
    except OSError:
        pass
    sys.modules["stranger"] = types.SimpleNamespace(__file__="/tmp/stranger.py")
    os.system("true")

sys.modules["tests.fuzz.targets.hdf5"] = types.SimpleNamespace(
    TARGET=Target(run, lambda: [b""], lambda data, chance: data)
)
audit.main(["hdf5"])
"""


def audited(*arguments: str) -> list[str]:
    """Returns the lines of an audit in a process of its own."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=audit.ROOT, check=True)
    return done.stdout.splitlines()


def test_readers_do_nothing_but_read() -> None:
    """Readers start, connect to, import and open nothing else."""
    count, *wrong = audited("-m", "tests.fuzz.audit", *_TARGETS)
    assert count.endswith(f" inputs of {len(_TARGETS)} targets")
    assert int(count.split()[0]) > 500
    assert wrong == []


def test_a_reader_that_does_more_is_found() -> None:
    """The audit names each act of a reader that does all four."""
    _, *wrong = audited("-c", _BAD_READER)
    for act in (
        "open /etc/hostname",
        "socket.connect",
        "os.system",
        "module stranger /tmp/stranger.py",
    ):
        assert any(line.startswith(act) for line in wrong), (act, wrong)


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
