"""Datasets of lakehouses, with their snapshot."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import beam_pipelines as bp
from beam_pipelines.core.layout.manifest import to_json
from beam_pipelines.dataset.manifest import read_manifest
from plugins.tests.support import delta_tables as delta
from plugins.tests.support import iceberg_tables as iceberg

pytestmark = pytest.mark.end_to_end
ROOT = Path(__file__).resolve().parents[3]


def recipe_of(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns a recipe of one source."""
    return {
        "name": "trips",
        "sources": {"trips": source},
        "output": {"num_shards": 2},
        **more,
    }


def numbers(*outputs: Path) -> list[int]:
    """Returns the values of ``n`` in all rows of datasets, ascending."""
    return sorted(
        value
        for batch in bp.open(outputs).batches("train", batch_size=10_000, as_="numpy")
        for value in batch["n"].ravel().tolist()
    )


def snapshot(output: Path) -> dict[str, Any]:
    """Returns the snapshot in a dataset's manifest."""
    found: dict[str, Any] = to_json(read_manifest(str(output)).sources["trips"].snapshot)
    return found


def test_deleted_rows_reach_the_workers(tmp_path: Path) -> None:
    """Deletion vectors hold in files that are read together, too."""
    path, output = tmp_path / "trips", tmp_path / "out"
    rows = pa.table({"n": list(range(300)), "part": [f"{number:03d}" for number in range(300)]})
    delta.write(path, rows, partition_by=["part"])
    actions = pa.table(DeltaTable(str(path)).get_add_actions()).to_pylist()
    for action in actions[:3]:
        delta.delete_rows(path, action["path"], [0])
    recipe = recipe_of({"path": str(path)})
    bp.convert(recipe, output)
    assert numbers(output) == sorted(row["n"] for row in delta.scanned(path))
    assert snapshot(output)["rows"] == 297
    assert not list(output.rglob("deletes-*"))


def test_a_joined_table_and_new_data(tmp_path: Path) -> None:
    """A table is joined, and new data of another format are transformed."""
    delta.write(tmp_path / "trips", {"n": [1, 2, 3], "zone": ["a", "b", "a"]})
    iceberg.create(tmp_path, pa.table({"zone": ["a", "b"], "fee": [0.5, 1.5]}))
    recipe = {
        "name": "trips",
        "sources": {
            "trips": {"path": str(tmp_path / "trips")},
            "zones": iceberg.source_of(tmp_path, key="zone"),
        },
        "from": "trips",
        "join": [{"source": "zones", "on": "zone"}],
        "encode": {"zone": "vocabulary"},
        "output": {"num_shards": 1},
    }
    bp.convert(recipe, tmp_path / "out")
    sources = read_manifest(str(tmp_path / "out")).sources
    assert [sources[name].snapshot.rows for name in ("trips", "zones")] == [3, 2]
    assert "metadata.json" in json.dumps(read_manifest(str(tmp_path / "out")).recipe["sources"])
    (tmp_path / "new.csv").write_text("n,zone\n7,b\n8,a\n")
    delta.write(tmp_path / "new", {"n": [9], "zone": ["b"]})
    for name, expected in (("new.csv", [7, 8]), ("new", [9])):
        output = tmp_path / f"{name}-out"
        bp.transform(tmp_path / "out", str(tmp_path / name), output)
        assert sorted(
            value
            for split in bp.open(str(output)).splits
            for batch in bp.open(str(output)).batches(split, batch_size=10, as_="numpy")
            for value in batch["n"].ravel().tolist()
        ) == expected  # fmt: skip


def test_a_catalog_prints_the_path_of_its_metadata(tmp_path: Path) -> None:
    """The command of the page names a table of a catalog."""
    iceberg.create(tmp_path, pa.table({"n": [1, 2], "zone": ["a", "b"]}))
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET catalog_name = 'prod'")
    (tmp_path / "trips.yaml").write_text(
        "name: zones\nsources: {zones: {format: iceberg, path: ''}}\n"
    )
    page = (ROOT / "docs" / "lakehouses.md").read_text()
    (command,) = re.findall(r"```sh\n(beam-pipelines convert .*?)```", page, re.DOTALL)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": programs,
        "PYICEBERG_CATALOG__PROD__URI": f"sqlite:///{tmp_path}/catalog.db",
    }
    command = command.replace("db.zones", iceberg.NAME)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert numbers(tmp_path / "out") == [1, 2]


def test_limits_and_rejected_rows(tmp_path: Path) -> None:
    """A budget takes bad rows, and both kinds are counted."""
    path = tmp_path / "trips"
    delta.write(path, {"n": list(range(130))})
    source = {"path": str(path), "types": {"n": "int8"}}
    recipe = recipe_of(source, on_error={"reject": 2})
    bp.convert(recipe, tmp_path / "out")
    entry = read_manifest(str(tmp_path / "out")).sources["trips"]
    assert (entry.read, entry.rejected, entry.snapshot.rows) == (128, 2, 130)
