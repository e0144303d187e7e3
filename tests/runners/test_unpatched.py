"""Beam without the patches for speed writes the same datasets.

A new Beam may break the patches only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.contents import TIMED, contents

pytestmark = pytest.mark.end_to_end

ROWS = 20_000
RECIPE = """\
name: clicks
sources:
  clicks: {path: clicks.csv}
  users: {path: users.csv, key: [user]}
from: clicks
join:
  - {source: users, on: user, how: left}
split: {train: 0.8, eval: 0.2}
encode:
  price: z_score
  city: vocabulary
output: {num_shards: 2}
"""
# Prints which of Beam's functions are patched when the command is done.
COMMAND = """\
import sys
from beam_pipelines.cli import main
from beam_pipelines.runners.fork_server import allow_forks
allow_forks()
status = main.run(sys.argv[1:])
from apache_beam.io.filesystems import FileSystems
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import userstate
patched = [each.__module__ == "beam_pipelines.runners.beam_patches"
           for each in (FileSystems.get_filesystem, userstate.get_dofn_specs)]
print(*patched, StateSampler.__init__.__defaults__, "pandas" in sys.modules)
sys.exit(status)
"""


def convert(folder: Path, output: str, **environment: str) -> str:
    """Converts on two worker processes; returns what ``COMMAND`` prints."""
    arguments = ["convert", "recipe.yaml", "--output", output, "--quiet", "--direct_num_workers=2"]
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments, "--direct_running_mode=multi_processing"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_unpatched_beam_writes_the_same_bytes(tmp_path: Path) -> None:
    """Beam without the patches gives the same files.

    The recipe has a join, encodings and a shuffle.
    """
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "users.csv").write_text(
        "user,city\n" + "".join(f"{user},city{user % 7}\n" for user in range(500))
    )
    (tmp_path / "clicks.csv").write_text(
        "user,price\n" + "".join(f"{row % 600},{row * 37 % 1009}.5\n" for row in range(ROWS))
    )
    assert convert(tmp_path, "patched") == "True True (5,) False\n"
    unpatched = convert(tmp_path, "unpatched", BEAM_PIPELINES_UNPATCHED="1")
    assert unpatched == "False False (200,) True\n"
    found = contents(tmp_path / "patched", TIMED)
    assert sum(name.startswith("examples/") for name in found) >= 4
    assert found == contents(tmp_path / "unpatched", TIMED)
