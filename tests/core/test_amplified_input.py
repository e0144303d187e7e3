"""Memory and time of small patterns, repeated to megabytes."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.fuzz import amplified

NAMES = [what for what, _ in amplified.cases()]

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="the peak of memory is Linux's to tell"
)


@functools.cache
def measured(repository: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Reads all inputs in one process, and returns what each cost."""
    command = [sys.executable, "-m", "tests.fuzz.amplified"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return {line["what"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_repeated_patterns_cost_little(repository: pathlib.Path) -> None:
    """Each pattern costs little memory and time.

    The limits are ten times its size and a constant of memory, and some seconds.
    """
    found = measured(repository)
    assert list(found) == NAMES
    for what, cost in found.items():
        assert cost["rise"] <= 10 * cost["bytes"] + amplified.CONSTANT_BYTES, what
        assert cost["seconds"] <= amplified.MOST_SECONDS, what


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("json: brackets", "nesting_depth"),
        ("idx: a header that lies", "bytes"),
        ("tfrecord: a length that lies", "ends within a record"),
        ("cifar: a length that lies", "damaged data"),
        ("recipe: aliases", "aliases followed"),
        ("manifest: brackets", "is not a manifest"),
    ],
)
def test_what_cannot_be_read_is_explained(repository: pathlib.Path, what: str, words: str) -> None:
    """Input that cannot be read is refused with the reason.

    It claims to be larger than it is, or is nested without end.
    """
    assert words in measured(repository)[what]["why"]
