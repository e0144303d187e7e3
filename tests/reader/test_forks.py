"""Forks, tested in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FORKS = Path(__file__).with_name("forks.py")


def test_readers_in_forks() -> None:
    """The tests of ``forks.py`` pass in a process of their own.

    Threads of Beam and TensorFlow break forks of a process that has run them.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FORKS)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
