"""Shared parts of the tests with TFX.

They run the pipelines of docs/tfx.md with LocalDagRunner, and read TFX's metadata store.
"""

from __future__ import annotations

import csv
import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

# Reads "skipped: …" where TFX cannot be installed.
NEEDS_TFX = (
    "TFX is not installed here; `make test-tfx` makes an environment with it (glibc 2.39 or later)"
)
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
# TFX, its metadata store and TensorFlow print these on standard error in every pipeline, for any
# writer of the examples.
WARNING = re.compile(r"^(?:WARNING|ERROR|E\d{4})\b|Warning: |\bW\d{4} ")


class Artifact(NamedTuple):
    """An artifact of the metadata store: type, place, and its properties."""

    type: str
    uri: str
    properties: dict[str, Any]


def need_tfx() -> None:
    """Skips the calling module where there is no TFX."""
    pytest.importorskip("tfx", reason=NEEDS_TFX, exc_type=ImportError)


def write_documented(folder: pathlib.Path) -> None:
    """Writes the files of docs/tfx.md into a folder, and data for them."""
    text = (REPOSITORY / "docs" / "tfx.md").read_text()
    for name, body in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(body)
    recipes = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    # The blocks after these are parts of recipes.
    for name, recipe in zip(("recipe.yaml", "encoded.yaml"), recipes, strict=False):
        (folder / name).write_text(recipe)
    write_clicks(folder / "clicks.csv")


def write_clicks(path: pathlib.Path, rows: int = 600, seed: int = 1) -> None:
    """Writes a table of clicks, the same for the same seed."""
    chance = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "country", "spent", "clicked"])
        for _ in range(rows):
            row = [
                chance.randrange(18, 80),
                chance.choice(["DE", "FR", "IT"]),
                chance.randrange(900) / 100,
            ]
            writer.writerow([*row, chance.randrange(2)])


def run_script(folder: pathlib.Path, name: str) -> str:
    """Runs a script of a folder, and returns its standard error."""
    run = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-5000:]
    return run.stderr


def warnings_in(log: str) -> set[str]:
    """The warnings and errors of a log.

    Numbers, hashes and folders, which differ from run to run, are left out.
    """
    found = (line for line in log.splitlines() if WARNING.search(line))
    return {re.sub(r"[0-9a-f]{16,}|\d+|/\S+/", "#", line) for line in found}


def store_of(folder: pathlib.Path) -> Any:
    """The metadata store of the pipelines that were run in a folder."""
    from ml_metadata import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(folder / "metadata.db")
    return metadata_store.MetadataStore(config)


def states(folder: pathlib.Path) -> list[tuple[str, str]]:
    """Component and last state of every execution, in order."""
    from ml_metadata.proto import metadata_store_pb2

    name = metadata_store_pb2.Execution.State.Name
    return [
        (run.type.split(".")[-1], name(run.last_known_state))
        for run in store_of(folder).get_executions()
    ]


def artifacts(folder: pathlib.Path, part: str = "") -> Iterator[Artifact]:
    """The artifacts whose place has a text in it, in order."""
    for artifact in store_of(folder).get_artifacts():
        if part in artifact.uri:
            both = {**artifact.properties, **artifact.custom_properties}
            values = {
                name: getattr(value, value.WhichOneof("value")) for name, value in both.items()
            }
            yield Artifact(artifact.type, artifact.uri, values)
