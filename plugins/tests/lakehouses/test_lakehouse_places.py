"""Logs of lakehouses start nothing and lead nowhere else."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import input_roots
from beam_pipelines.files.beam.input_roots import OutsideRootError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines_plugins.formats.avro_blocks import AvroFile
from beam_pipelines_plugins.lakehouses import iceberg as iceberg_logs
from plugins.tests.support import delta_tables as delta
from plugins.tests.support import iceberg_tables as iceberg
from plugins.tests.support.avro_files import container

CODE = "import pathlib\npathlib.Path('RAN').touch()\nclass Impl:\n    pass\n"


@pytest.fixture(autouse=True)
def _module_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that data could name.

    The test fails if it is imported.
    """
    (tmp_path / "evil_module.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "RAN").exists()


def table_of(folder: Path, **changes: Any) -> Path:
    """Makes a table; returns a metadata file with changed parts."""
    table = iceberg.create(folder, pa.table({"n": [1, 2]}))
    metadata = json.loads(table.metadata.model_dump_json())
    path = folder / "own.metadata.json"
    path.write_text(json.dumps(metadata | changes))
    return path


def plan_of(path: Path, format_: str = "iceberg") -> SourcePlan:
    """Plans a table without a catalog."""
    return plan_source(Source("s", (str(path),), format=format_), "")


def rows_of(plan: SourcePlan) -> int:
    """Returns the number of rows that are read."""
    return read.read_table(plan, reject=False)[0].num_rows


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("py-io-impl", "evil_module.Impl"),
        ("py-io-impl", "subprocess.Popen"),
        ("py-io-impl", "this.s"),
        ("py-catalog-impl", "evil_module.Impl"),
        ("write.py-location-provider.impl", "evil_module.Impl"),
        ("s3.retry-strategy-impl", "evil_module.Impl"),
        ("warehouse", "http://127.0.0.1:9/"),
        ("s3.signer.uri", "http://127.0.0.1:9/"),
    ],
)
@pytest.mark.parametrize("has_hint", [True, False])
def test_properties_start_nothing(tmp_path: Path, key: str, value: str, has_hint: bool) -> None:
    """Properties of a table load no class, and change no place."""
    path = table_of(tmp_path, properties={"touch": "x", key: value})
    if has_hint:
        (tmp_path / "metadata").mkdir()
        (tmp_path / "metadata" / "v3.metadata.json").write_bytes(path.read_bytes())
        (tmp_path / "metadata" / "version-hint.text").write_text("3\n")
        path = tmp_path
    assert rows_of(plan_of(path)) == 2


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("scheme", ["", "file://", "file:"])
def test_metadata_lead_nowhere_else(tmp_path: Path, is_there: bool, scheme: str) -> None:
    """Files outside of the root are refused, whether they exist or not."""
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / ("evil_module.py" if is_there else "nothing")
    path = table_of(root)
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["manifest-list"] = f"{scheme}{outside}"
    path.write_text(json.dumps(metadata))
    with input_roots.only_below([str(root)]):
        with pytest.raises(OutsideRootError) as error:
            plan_of(path)
        assert str(error.value).startswith(f"found {outside}, expected a path below --input_root ")
        (root / "metadata").mkdir()
        (root / "metadata" / "version-hint.text").write_text(f"../../{outside.name}.metadata.json")
        with pytest.raises(OutsideRootError):
            plan_of(root)


def test_manifests_and_files_outside(tmp_path: Path) -> None:
    """A table whose files are elsewhere is refused."""
    root = tmp_path / "root"
    root.mkdir()
    path = table_of(tmp_path)
    (root / path.name).write_bytes(path.read_bytes())
    with input_roots.only_below([str(root)]), pytest.raises(OutsideRootError, match="warehouse"):
        plan_of(root / path.name)
    # Manifests below the root, and the file with rows outside.
    inner = tmp_path / "warehouse" / "db" / "trips" / "metadata"
    with (
        input_roots.only_below([str(root), str(inner)]),
        pytest.raises(OutsideRootError, match=r"data/.*\.parquet"),
    ):
        plan_of(root / path.name)


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/a", "s3://other/a", "gs://other/a"])
def test_tables_ask_no_other_server(tmp_path: Path, place: str) -> None:
    """A table of this machine names files of it only."""
    path = table_of(tmp_path)
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["manifest-list"] = place
    path.write_text(json.dumps(metadata))
    with pytest.raises(OutsideRootError, match=place):
        plan_of(path)
    delta.write(tmp_path / "delta", {"n": [1]})
    added = {"path": f"{place}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    delta.commit(tmp_path / "delta", [{"add": added | {"dataChange": True}}])
    with pytest.raises(OutsideRootError, match=place):
        plan_of(tmp_path / "delta", "delta")


def test_delta_logs_are_not_opened_within_a_root(tmp_path: Path) -> None:
    """A log may lead anywhere, so a root takes no Delta table."""
    root = tmp_path / "root"
    delta.write(root, {"n": [1, 2]})
    assert rows_of(plan_of(root, "delta")) == 2
    with (
        input_roots.only_below([str(root)]),
        pytest.raises(DataError, match=r"Delta table with --input_root.*Parquet, or leave"),
    ):
        plan_of(root, "delta")


@pytest.mark.parametrize(
    ("codec", "rows", "size"),
    [("deflate", 1, 300 << 20), ("zstandard", 1, 300 << 20), ("null", 1 << 40, 0)],
)
def test_manifests_that_outgrow_the_memory(
    tmp_path: Path, codec: str, rows: int, size: int
) -> None:
    """A small manifest that states or becomes a huge one is refused."""
    plan_of(table_of(tmp_path))
    (manifest,) = (tmp_path / "warehouse").rglob("*-m0.avro")
    with manifest.open("rb") as file:
        header = AvroFile(file, str(manifest))
    content = bytes(size)
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-15)
        content = packer.compress(content) + packer.flush()
    elif codec == "zstandard":
        content = pa.compress(content, "zstd", asbytes=True)
    made = container(header.schema, codec, [(rows, content)], header.sync)
    assert len(made) < 1 << 20
    manifest.write_bytes(made)
    with pytest.raises(DataError, match=rf"{manifest.name}: found more than 268,435,456 bytes or"):
        plan_of(tmp_path / "own.metadata.json")


@pytest.mark.parametrize("packing", ["none", "gzip", "gzip in two parts"])
def test_metadata_that_outgrow_the_memory(
    tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large metadata are refused before parsing."""
    table_of(tmp_path)
    monkeypatch.setattr(iceberg_logs, "_MOST_METADATA_BYTES", 1 << 20)
    suffix = ".metadata.json" if packing == "none" else ".gz.metadata.json"
    path = tmp_path / f"large{suffix}"
    content = (tmp_path / "own.metadata.json").read_bytes()
    spaces = b" " * (2 << 20)
    parts = {
        "none": content + spaces,
        "gzip": gzip.compress(content + spaces),
        "gzip in two parts": gzip.compress(content) + gzip.compress(spaces),
    }
    path.write_bytes(parts[packing])
    assert (len(parts[packing]) < 1 << 20) == (packing != "none")
    with pytest.raises(DataError, match=rf"{path.name}: found more than 1,048,576 bytes of meta"):
        plan_of(path)
