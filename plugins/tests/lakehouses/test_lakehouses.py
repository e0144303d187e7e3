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
from tests.support import delta_tables as delta
from tests.support import iceberg_tables as iceberg

pytestmark = pytest.mark.end_to_end

# The numbers go on, and so they drift.
ANY = bp.PolicyOptions(allow_anomalies=("COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH",))


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


def grown(output: Path, number: int) -> Path:
    """Makes one more dataset of the rows that were added."""
    more = output.with_name(f"more-{number}")
    bp.transform(output, [], more, grow=True, overwrite=True, policy=ANY)
    return more


def snapshot(output: Path) -> dict[str, Any]:
    """Returns the snapshot in a dataset's manifest."""
    found: dict[str, Any] = read_manifest(str(output))["sources"]["trips"]["snapshot"]
    return found


def test_delta_grows_by_added_rows(tmp_path: Path) -> None:
    """Each dataset has the rows since the snapshot before, once."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": list(range(100)), "day": ["a", "b"] * 50}, partition_by=["day"])
    bp.convert(recipe_of({"format": "delta", "path": str(path)}), output)
    table = DeltaTable(str(path)).metadata().id
    assert snapshot(output) == {"id": "0", "rows": 100, "table": str(table)}
    with pytest.raises(RecipeError, match="found no rows that were added to 'trips' since"):
        grown(output, 1)
    delta.write(path, {"n": list(range(100, 130)), "day": ["b", "c"] * 15})
    delta.write(path, {"n": list(range(130, 140)), "day": ["c"] * 10})
    # What OPTIMIZE gathers are no new rows, and what it gathered are.
    DeltaTable(str(path)).optimize.compact()
    delta.write(path, {"n": list(range(140, 150)), "day": ["d"] * 10, "new": [1.5] * 10},
                schema_mode="merge")  # fmt: skip
    more = grown(output, 1)
    assert numbers(output, more) == list(range(150))
    assert snapshot(more) == {"id": "4", "rows": 50, "table": str(table)}
    found = read_manifest(str(more))["sources"]["trips"]["decisions"]
    assert [line.partition(" of ")[0] for line in found] == [
        f"Delta table {path}, version 4",
        "left out, as the dataset has not: 'new'",
    ]
    delta.write(path, {"n": [150], "day": ["d"], "new": [2.5]})
    assert numbers(output, more, grown(more, 2)) == list(range(151))


def test_delta_refuses_removed_rows(tmp_path: Path) -> None:
    """A version that removes rows stops the run."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": list(range(100))})
    bp.convert(recipe_of({"format": "delta", "path": str(path)}), output)
    delta.write(path, {"n": list(range(100, 110))})
    DeltaTable(str(path)).delete("n = 5")
    with pytest.raises(DataError, match=r"version 2 removed or changed rows .* Convert everything"):
        grown(output, 1)
    bp.convert(recipe_of({"format": "delta", "path": str(path)}), output, overwrite=True)
    assert numbers(output) == [number for number in range(110) if number != 5]
    assert snapshot(output)["rows"] == 109


def test_delta_refuses_what_it_cannot_know(tmp_path: Path) -> None:
    """A cleaned log and another table stop growth."""
    path, output = tmp_path / "trips", tmp_path / "out"
    delta.write(path, {"n": [1, 2]})
    bp.convert(recipe_of({"path": str(path)}), output)
    for number in range(3, 6):
        delta.write(path, {"n": [number]})
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(DataError, match="The log was cleaned up"):
        grown(output, 1)
    shutil.rmtree(path)
    delta.write(path, {"n": [7]})
    with pytest.raises(DataError, match="found another table than the dataset was made of"):
        grown(output, 1)


def test_iceberg_grows_by_added_rows(tmp_path: Path) -> None:
    """A dataset has the rows since a snapshot; deletes stop it."""
    output = tmp_path / "out"
    table = iceberg.create(tmp_path, pa.table({"n": list(range(100)), "x": ["a"] * 100}))
    bp.convert(recipe_of(iceberg.source_of(tmp_path)), output)
    table.append(pa.table({"n": list(range(100, 110)), "x": ["b"] * 10}))
    with table.update_schema() as update:
        update.add_column("new", StringType())
        update.rename_column("x", "y")
    table.append(pa.table({"n": list(range(110, 120)), "y": ["c"] * 10, "new": ["z"] * 10}))
    with pytest.raises(RecipeError, match="there is no column 'x' in the source"):
        grown(output, 1)
    with table.update_schema() as update:
        update.rename_column("y", "x")
    table.append(pa.table({"n": list(range(120, 125)), "x": ["c"] * 5, "new": ["z"] * 5}))  # fmt: skip
    more = grown(output, 1)
    assert numbers(output, more) == list(range(125))
    last = table.refresh().current_snapshot()
    assert last is not None
    assert snapshot(more) == {
        "id": str(last.snapshot_id), "rows": 25, "table": str(table.metadata.table_uuid)
    }  # fmt: skip
    table.delete("n = 5")
    with pytest.raises(DataError, match=r"removed or changed rows .* Convert everything anew"):
        grown(output, 2)


def test_iceberg_grows_from_merged_manifests(tmp_path: Path) -> None:
    """A manifest that keeps files of earlier snapshots adds none of them."""
    output = tmp_path / "out"
    merged = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
    table = iceberg.create(tmp_path, pa.table({"n": list(range(100))}), **merged)
    bp.convert(recipe_of(iceberg.source_of(tmp_path)), output)
    for first in (100, 110, 120):
        table.append(pa.table({"n": list(range(first, first + 10))}))
    last = table.current_snapshot()
    assert last is not None
    assert len(last.manifests(table.io)) == 1
    more = grown(output, 1)
    assert numbers(output, more) == list(range(130))
    assert snapshot(more)["rows"] == 30


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
    recipe = recipe_of(source, on_error={"reject": 2})
    bp.convert(recipe, tmp_path / "out")
    entry = read_manifest(str(tmp_path / "out"))["sources"]["trips"]
    assert (entry["read"], entry["rejected"], entry["snapshot"]["rows"]) == (128, 2, 130)
