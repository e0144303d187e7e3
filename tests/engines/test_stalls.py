"""A job without progress says what it waits for; Ctrl-C cancels it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines import conversions
from tests.engines.engines import Engine

pytestmark = pytest.mark.runners

WAIT_SECS = 200


@pytest.mark.parametrize(
    "engine", [pytest.param("flink_cluster", marks=pytest.mark.flink_cluster)], indirect=True
)
def test_a_job_without_slots(engine: Engine, data: Path, tmp_path: Path) -> None:
    """A job with too few slots names the slots after a minute."""
    assert engine.cluster
    (tmp_path / "recipe.yaml").write_text(
        conversions.RAW.replace("visits.csv", str(data / "visits.csv"))
    )
    options = [option for option in engine.options if "parallelism" not in option]
    options += ["--parallelism=8", f"--flink_master=127.0.0.1:{engine.cluster.rest}"]
    command = [sys.executable, "-m", "beam_pipelines", "convert", str(tmp_path / "recipe.yaml")]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "out"), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({WAIT_SECS})"])
    assert process.stderr
    line = ""
    while (
        not line.startswith("no progress for")
        and watchdog.poll() is None
        and process.poll() is None
    ):
        line = process.stderr.readline()
    watchdog.kill()
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=WAIT_SECS)
    assert line.startswith("no progress for 1 min"), line
    assert "of 4 slots are free" in line
    assert (process.returncode, printed) == (130, "\nerror: interrupted; nothing was committed.\n")
