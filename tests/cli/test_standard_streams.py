"""cli/streams.py: missing, full or closed standard streams of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.dataset.verify import verify_dataset

pytestmark = pytest.mark.end_to_end

COMMAND = Path(sys.executable).with_name("beam-pipelines")
MANY = "--direct_num_workers=2 --direct_running_mode=multi_processing"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table."""
    (tmp_path / "data.csv").write_text("id,x\n1,2\n3,4\n")
    return tmp_path


def shell(folder: Path, text: str) -> tuple[int, str, str]:
    """Runs shell commands, with ``run`` as the command.

    Returns:
      Their exit status, standard output and standard error.
    """
    script = f'run() {{ "{COMMAND}" "$@"; }}; {text}'
    ended = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=1200
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("closed", "options"), [(">&-", ""), ("2>&-", ""), ("<&-", ""), ("<&- >&- 2>&-", MANY)]
)
def test_streams_that_are_not_there(folder: Path, closed: str, options: str) -> None:
    """A command works without standard streams.

    The dataset is complete, and the status says so.
    """
    status, _, error = shell(folder, f"run convert data.csv --output out {options} {closed}")
    assert status == 0
    assert "Traceback" not in error
    verify_dataset(str(folder / "out"))


@pytest.mark.parametrize("command", ["verify out", "--help"])
def test_an_output_that_is_not_there(folder: Path, command: str) -> None:
    """A missing standard output is no failure."""
    bp.convert(folder / "data.csv", folder / "out")
    assert shell(folder, f"run {command} >&-") == (0, "", "")


def test_an_output_that_nobody_reads(folder: Path) -> None:
    """A complete dataset is a success without a reader of the summary."""
    for command in ("convert data.csv --output out", "inspect out"):
        status, _, error = shell(
            folder, f"set -o pipefail; run {command} --verbose 2>/dev/null | true"
        )
        assert (status, error) == (0, "")
    verify_dataset(str(folder / "out"))


def test_an_output_that_is_full(folder: Path) -> None:
    """The error of a full standard output names it.

    Users could otherwise take it for the dataset's disk.
    """
    for command in ("convert data.csv --output out", "verify out"):
        status, _, error = shell(folder, f"run {command} >/dev/full")
        assert status == 1
        assert error.splitlines()[-1].startswith(
            "error: standard output: cannot be written: No space left on device."
        )
    verify_dataset(str(folder / "out"))


def test_a_current_folder_that_is_gone(folder: Path) -> None:
    """A command whose paths are absolute needs none."""
    script = (
        f"mkdir gone; cd gone; rmdir ../gone; run convert {folder}/data.csv --output "
        f"{folder}/out --quiet"
    )
    assert shell(folder, script) == (0, "", "")
