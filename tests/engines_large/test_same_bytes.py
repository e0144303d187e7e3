"""At real sizes every engine writes the bytes of Beam's local runner.

The commands are those of docs/runners.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import conversions
from tests.engines.engines import Engine
from tests.engines.test_same_bytes import shards_in
from tests.engines_large import cases

Make = Callable[[str], cases.Made]

pytestmark = pytest.mark.engines_large


@pytest.mark.parametrize("name", cases.WRITERS)
def test_conversions(name: str, engine: Engine, made: Make, tmp_path: Path) -> None:
    """Every engine writes the local bytes at a million rows.

    The cases are tables, joins, groups, encodings and images.
    """
    case = made(name)
    cases.run(case.recipe, tmp_path / "out", engine.options)
    conversions.assert_same(tmp_path / "out", case.expected)


def test_resume(engine: Engine, made: Make, tmp_path: Path) -> None:
    """An engine resumes a run that was killed on one machine.

    It writes the missing shards only.
    """
    case, output = made("clicks_csv"), tmp_path / "out"
    command = [*cases.CONVERT, str(case.recipe), "--output", str(output), "--quiet"]
    process = subprocess.Popen(command, start_new_session=True)
    end = time.monotonic() + cases.LONGEST_SECS
    while len(list((output / "_temporary" / "finished").glob("*.json"))) < 2:
        assert process.poll() is None, "the run was over before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    notes = list((output / "_temporary" / "finished").glob("*.json"))
    left = shards_in(output)
    cases.run(case.recipe, output, [*engine.options, "--resume"])
    conversions.assert_same(output, case.expected)
    assert len(left & shards_in(output)) >= len(notes) > 0
