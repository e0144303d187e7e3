"""One run at a time writes to an output."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.pipeline import run_lock

HOLD = """
import sys, time
from beam_pipelines.pipeline import run_lock
with run_lock.locked(sys.argv[1], sys.argv[1] + "/_temporary"):
    run_lock.leave_mark(sys.argv[1] + "/_temporary")
    print("locked", flush=True)
    time.sleep(60)
"""


def test_another_process_is_told_which_one_writes(tmp_path: Path) -> None:
    """Another process gets the number of the locking one.

    A kill ends the lock.
    """
    output = str(tmp_path / "out")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), output], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(RecipeError) as raised, run_lock.locked(output, f"{output}/_temporary"):
            pass
        assert str(raised.value).startswith(f"{output}: another run (process {holder.pid} on ")
        assert str(raised.value).endswith("Wait for its end, or choose another --output.")
        holder.kill()
        holder.wait()
    with run_lock.locked(output, f"{output}/_temporary"):
        pass


def test_the_lock_leaves_nothing(tmp_path: Path) -> None:
    """The lock is no file."""
    output = tmp_path / "deep" / "out"
    with run_lock.locked(str(output), str(output / "_temporary")):
        assert list(output.iterdir()) == []
    with run_lock.locked(str(output), str(output / "_temporary")):
        pass


def test_a_lock_on_one_output_is_none_on_another(tmp_path: Path) -> None:
    """Runs with different outputs run at the same time."""
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    with (
        run_lock.locked(first, f"{first}/_temporary"),
        run_lock.locked(second, f"{second}/_temporary"),
    ):
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """An output below a file is an error."""
    (tmp_path / "file").write_text("")
    output = str(tmp_path / "file" / "out")
    with pytest.raises(DataError, match="file/out: cannot be written: Not a directory"):
        run_lock.locked(output, f"{output}/_temporary").__enter__()


def test_the_last_mark_counts(tmp_path: Path) -> None:
    """A run finds another run's mark.

    A missing or damaged mark is no run.
    """
    temporary = str(tmp_path)
    assert run_lock.mark_of(temporary) == ""
    first = run_lock.leave_mark(temporary)
    assert run_lock.mark_of(temporary) == first
    second = run_lock.leave_mark(temporary)
    assert first != second == run_lock.mark_of(temporary)
    assert f"another run (process {os.getpid()} on " in str(run_lock.other_run("out", temporary))
    (tmp_path / "run.json").write_text("{")
    assert run_lock.mark_of(temporary) == ""
