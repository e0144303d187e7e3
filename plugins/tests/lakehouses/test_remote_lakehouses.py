"""Tables of Delta Lake and Iceberg in an object store."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import beam_pipelines as bp
from tests.support.remote_stores import s3_store

pytestmark = pytest.mark.remote


def test_tables_in_a_store(tmp_path, monkeypatch):
    """Deleted rows are left out, and the others are read."""
    rows = pa.table({"id": range(2_000), "kind": [f"k{number % 3}" for number in range(2_000)]})
    with s3_store() as store:
        url = store.options[0].partition("=")[2]
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        write_deltalake(f"{store.url}/trips", rows, partition_by=["kind"])
        DeltaTable(f"{store.url}/trips").delete("id < 100")
        uri = f"sqlite:///{tmp_path}/catalog.db"
        places = {"uri": uri, "warehouse": f"{store.url}/ice", "s3.endpoint": url}
        catalog = SqlCatalog("default", **places)
        catalog.create_namespace("db")
        table = catalog.create_table("db.trips", schema=rows.schema)
        table.append(rows)
        table.delete("id < 100")
        for name, source in (
            ("delta", f"path: {store.url}/trips, format: delta"),
            ("iceberg", f"format: iceberg, path: '{table.metadata_location}'"),
        ):
            recipe = tmp_path / f"{name}.yaml"
            recipe.write_text(f"name: trips\nsources: {{trips: {{{source}}}}}\n")
            output = str(tmp_path / name)
            command = [sys.executable, "-m", "beam_pipelines", "convert", str(recipe), "--output"]
            subprocess.run([*command, output, *store.options], check=True)
            with bp.open(output).batches("train", 100, shuffle=False) as reader:
                found = [number for batch in reader for number in batch["id"].tolist()]
            assert sorted(found) == list(range(100, 2_000))
