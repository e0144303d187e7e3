"""Datasets of lakehouses: their snapshot, and rows that were added since."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.types import StringType

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from tests.support import delta_tables as delta
from tests.support import iceberg_tables as iceberg

pytestmark = pytest.mark.end_to_end


def recipe_of(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns a recipe that appends."""
    return {
        "name": "trips",
        "sources": {"trips": source},
        "append": True,
        "output": {"num_shards": 2},
        **more,
    }


def numbers(output: Path) -> list[int]:
    """Returns the values of ``n`` in all rows of a dataset, ascending."""
    return sorted(
        value
        for batch in bp.open(str(output)).batches("train", batch_size=10_000, as_="numpy")
        for value in batch["n"].ravel().tolist()
    )


def snapshot(output: Path) -> dict[str, Any]:
    """Returns the snapshot in a dataset's manifest."""
    found: dict[str, Any] = read_manifest(str(output))["sources"]["trips"]["snapshot"]
    return found


def test_delta_appends_added_rows(tmp_path: Path) -> None:
    """Each run takes the rows since the manifest's version, once."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": list(range(100)), "day": ["a", "b"] * 50}, partition_by=["day"])
    recipe = recipe_of({"format": "delta", "path": str(path)})
    bp.convert(recipe, output)
    table = DeltaTable(str(path)).metadata().id
    assert snapshot(output) == {"id": "0", "rows": 100, "table": str(table)}
    bp.convert(recipe, output)
    assert numbers(output) == list(range(100))
    delta.write(path, {"n": list(range(100, 130)), "day": ["b", "c"] * 15})
    delta.write(path, {"n": list(range(130, 140)), "day": ["c"] * 10})
    # What OPTIMIZE gathers are no new rows, and what it gathered are.
    DeltaTable(str(path)).optimize.compact()
    delta.write(path, {"n": list(range(140, 150)), "day": ["d"] * 10, "new": [1.5] * 10},
                schema_mode="merge")  # fmt: skip
    bp.convert(recipe, output)
    assert numbers(output) == list(range(150))
    assert snapshot(output) == {"id": "4", "rows": 150, "table": str(table)}
    found = read_manifest(str(output))["sources"]["trips"]["decisions"]
    assert [line.partition(" of ")[0] for line in found] == [
        f"Delta table {path}, version 4",
        "left out, as the dataset has not: 'new'",
    ]
    generation = read_manifest(str(output))["generations"][1]["sources"]["trips"]
    assert generation["snapshot"] == {"id": "4", "rows": 50, "table": str(table)}
    verify_dataset(str(output))


def test_delta_refuses_removed_rows(tmp_path: Path) -> None:
    """A version that removes rows stops the run; an earlier one not."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": list(range(100))})
    source = {"format": "delta", "path": str(path)}
    bp.convert(recipe_of(source), output)
    delta.write(path, {"n": list(range(100, 110))})
    DeltaTable(str(path)).delete("n = 5")
    before = {file: file.read_bytes() for file in output.rglob("*") if file.is_file()}
    with pytest.raises(DataError, match=r"version 2 removed or changed rows .*'version: …'"):
        bp.convert(recipe_of(source), output)
    assert before == {file: file.read_bytes() for file in output.rglob("*") if file.is_file()}
    bp.convert(recipe_of({**source, "version": 1}), output)
    assert numbers(output) == list(range(110))
    with pytest.raises(DataError, match="found version 0, expected 1 or later"):
        bp.convert(recipe_of({**source, "version": 0}), output)
    bp.convert(recipe_of(source), output, overwrite=True)
    assert numbers(output) == [number for number in range(110) if number != 5]
    assert snapshot(output)["rows"] == 109


def test_delta_refuses_what_it_cannot_know(tmp_path: Path) -> None:
    """A cleaned log and another table stop an append."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": [1, 2]})
    recipe = recipe_of({"path": str(path)})
    bp.convert(recipe, output)
    for number in range(3, 6):
        delta.write(path, {"n": [number]})
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(DataError, match="The log was cleaned up"):
        bp.convert(recipe, output)
    shutil.rmtree(path)
    delta.write(path, {"n": [7]})
    with pytest.raises(DataError, match="found another table than the dataset was made of"):
        bp.convert(recipe, output)
    bp.convert(recipe, output, overwrite=True)
    assert numbers(output) == [7]


def test_iceberg_appends_added_rows(tmp_path: Path) -> None:
    """Each run takes the rows since the manifest's snapshot; deletes stop it."""
    output = tmp_path / "out"
    table = iceberg.create(tmp_path, pa.table({"n": list(range(100)), "x": ["a"] * 100}))
    recipe = recipe_of(iceberg.source_of(tmp_path))
    bp.convert(recipe, output)
    table.append(pa.table({"n": list(range(100, 110)), "x": ["b"] * 10}))
    with table.update_schema() as update:
        update.add_column("new", StringType())
        update.rename_column("x", "y")
    table.append(pa.table({"n": list(range(110, 120)), "y": ["c"] * 10, "new": ["z"] * 10}))
    with pytest.raises(RecipeError, match="there is no column 'x' in the source"):
        bp.convert(recipe, output)
    with table.update_schema() as update:
        update.rename_column("y", "x")
    table.append(pa.table({"n": list(range(120, 125)), "x": ["c"] * 5, "new": ["z"] * 5}))  # fmt: skip
    bp.convert(recipe, output)
    assert numbers(output) == list(range(125))
    last = table.refresh().current_snapshot()
    assert last is not None
    assert snapshot(output) == {
        "id": str(last.snapshot_id), "rows": 125, "table": str(table.metadata.table_uuid)
    }  # fmt: skip
    table.delete("n = 5")
    with pytest.raises(DataError, match=r"removed or changed rows .*'snapshot_id: …'"):
        bp.convert(recipe, output)
    pinned = iceberg.source_of(tmp_path, snapshot_id=last.snapshot_id)
    bp.convert(recipe_of(pinned), output)
    bp.convert(recipe, output, overwrite=True)
    assert numbers(output) == [number for number in range(125) if number != 5]


def test_iceberg_appends_from_merged_manifests(tmp_path: Path) -> None:
    """A manifest that keeps files of earlier snapshots adds none of them."""
    output = tmp_path / "out"
    merged = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
    table = iceberg.create(tmp_path, pa.table({"n": list(range(100))}), **merged)
    recipe = recipe_of(iceberg.source_of(tmp_path))
    bp.convert(recipe, output)
    for first in (100, 110, 120):
        table.append(pa.table({"n": list(range(first, first + 10))}))
    last = table.current_snapshot()
    assert last is not None
    assert len(last.manifests(table.io)) == 1
    bp.convert(recipe, output)
    assert numbers(output) == list(range(130))
    assert snapshot(output)["rows"] == 130


def test_deleted_rows_reach_the_workers(tmp_path: Path) -> None:
    """Deletion vectors hold in files that are read together, too."""
    path, output = tmp_path / "trips", tmp_path / "out"
    rows = pa.table({"n": list(range(300)), "part": [f"{number:03d}" for number in range(300)]})
    delta.write(path, rows, partition_by=["part"])
    actions = pa.table(DeltaTable(str(path)).get_add_actions()).to_pylist()
    for action in actions[:3]:
        delta.delete_rows(path, action["path"], [0])
    recipe = recipe_of({"path": str(path)}, append=False)
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
    sources = read_manifest(str(tmp_path / "out"))["sources"]
    assert (sources["trips"]["snapshot"]["rows"], sources["zones"]["snapshot"]["rows"]) == (3, 2)
    assert "catalog.db" in json.dumps(read_manifest(str(tmp_path / "out"))["recipe"]["sources"])
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


def test_limits_and_rejected_rows(tmp_path: Path) -> None:
    """A budget takes bad rows, and both kinds are counted."""
    path = tmp_path / "trips"
    delta.write(path, {"n": list(range(130))})
    source = {"path": str(path), "types": {"n": "int8"}}
    recipe = recipe_of(source, append=False, on_error={"reject": 2})
    bp.convert(recipe, tmp_path / "out")
    entry = read_manifest(str(tmp_path / "out"))["sources"]["trips"]
    assert (entry["read"], entry["rejected"], entry["snapshot"]["rows"]) == (128, 2, 130)
