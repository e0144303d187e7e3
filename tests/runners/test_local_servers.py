"""A local run listens on Unix sockets of its user alone."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import apache_beam as beam
import pytest

from beam_pipelines.runners import run

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def _note_sockets(path: str) -> None:
    """Notes the addresses that a run's processes listen on.

    The modes of their folders.
    """
    inodes = set()
    for process in {os.getpid(), os.getppid()}:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
            except OSError:
                continue
    found = []
    for name in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        found += [f"{row[1]}" for row in rows if row[3] == "0A" and row[9] in inodes]
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        row = line.split(maxsplit=7)
        if len(row) == 8 and row[6] in inodes and row[7].endswith(("/control", "/data", "/state")):
            mode = stat.S_IMODE(os.stat(os.path.dirname(row[7])).st_mode)
            found.append(f"{os.path.basename(row[7])} {mode:o}")
    Path(path).write_text("\n".join(sorted(set(found))))


@pytest.mark.parametrize("mode", ["multi_threading", "multi_processing"])
def test_workers_are_reached_by_sockets_of_the_user(tmp_path, monkeypatch, mode):
    """No port is open.

    Only the user may enter the folder of the sockets.

    Its name may hold anything.
    """
    folder = tmp_path.parent / "t%41 ?#"
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    path = str(tmp_path / "sockets")
    options = ["--direct_num_workers=2", f"--direct_running_mode={mode}"]
    run.run(
        lambda pipeline: pipeline | beam.Create([path]) | beam.Map(_note_sockets),
        run.pipeline_options(options, 1),
    )
    assert Path(path).read_text().split("\n") == ["control 700", "data 700", "state 700"]
    assert not list(folder.iterdir())
