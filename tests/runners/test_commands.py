"""The commands that docs/runners.md shows for engines that Beam starts itself: one line, no server to start before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runners import conversions, engines
from tests.runners.conftest import LOCAL

pytestmark = pytest.mark.runners

COMMANDS = {
    "prism": (engines.PRISM, ("--runner=PrismRunner", f"--prism_location={engines.PRISM}")),
    "flink": (
        engines.FLINK_JOB_SERVER,
        ("--runner=FlinkRunner", f"--flink_job_server_jar={engines.FLINK_JOB_SERVER}", "--parallelism=2"),
    ),
    "spark": (engines.SPARK_JOB_SERVER, ("--runner=SparkRunner", f"--spark_job_server_jar={engines.SPARK_JOB_SERVER}")),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in COMMANDS])
def test_one_command(name: str, data: Path, tmp_path: Path) -> None:
    """Beam starts the engine, the dataset is as ever, and the engine is gone with the command."""
    needed, options = COMMANDS[name]
    if not needed.exists():
        pytest.skip(f"{name}: {needed.name} is not there.")
    recipe = conversions.SOURCE_ORDER
    for table in ("visits.csv", "users.jsonl", "shops.parquet"):
        recipe = recipe.replace(f"path: {table}", f"path: {data / table}")
    (tmp_path / "recipe.yaml").write_text(recipe)
    command = [sys.executable, "-m", "beam_pipelines.cli", "convert", tmp_path / "recipe.yaml", "--quiet"]
    for output, chosen in ((tmp_path / "expected", LOCAL), (tmp_path / "found", options)):
        ended = subprocess.run([*command, "--output", output, *chosen], capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
    conversions.assert_same(tmp_path / "found", tmp_path / "expected")
