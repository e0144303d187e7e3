"""Converts a tenth of the flights, for tests of the trainers."""

from __future__ import annotations

import csv
import pathlib
import subprocess
import sys

EVERY = 10


def write_fewer_flights(data: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the tables, of the flights only every tenth row."""
    folder.mkdir()
    for table in data.glob("*.csv"):
        with (
            table.open(newline="") as source,
            (folder / table.name).open("w", newline="") as target,
        ):
            rows = list(csv.reader(source))
            csv.writer(target).writerows(
                rows[:1] + rows[1 :: EVERY if table.stem == "flights" else 1]
            )


def convert(repository: pathlib.Path, folder: pathlib.Path, recipe: str, name: str) -> None:
    """Converts with one of the example's recipes, on the copied tables."""
    text = (repository / "examples" / "flights" / recipe).read_text()
    text = text.replace("../../.demo/flights-data", str(folder / "data")).replace(
        "../../schemas", str(repository / "schemas")
    )
    (folder / recipe).write_text(text)
    command = pathlib.Path(sys.executable).with_name("beam-pipelines")
    run = subprocess.run(
        [command, "convert", folder / recipe, "--output", folder / name],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
