"""Runs that write Parquet shards: appended, resumed, replaced, through an engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline.convert import convert
from tests.support.runs import plan_in, touched

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: visits
sources: {visits: "*.csv"}
split: {train: 0.75, eval: 0.25}
output: {num_shards: 3, KEYS}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a table."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_rows(folder / "a.csv", 0, 900)
    return folder


def write_rows(path: Path, first: int, end: int) -> None:
    """Writes a table of numbers and places."""
    lines = [f"{number},p{number % 13}" for number in range(first, end)]
    path.write_text("\n".join(["number,place", *lines]) + "\n")


def converted(data: Path, output: Path, keys: str, **options: Any) -> Manifest:
    """Converts the tables."""
    text = RECIPE.replace("KEYS", keys)
    return convert(plan_in(data, text), str(output), quiet=True, **options)


def files_of(output: Path) -> dict[str, bytes]:
    """Returns path -> content of shards and indexes."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for part in ("examples", "parquet", "index")
        for path in sorted(output.glob(f"{part}/**/*.*"))
    }


def test_another_dataset_replaces_all_files(data: Path, tmp_path: Path) -> None:
    """No file of the old formats stays."""
    output = tmp_path / "out"
    for keys, parts in (("format: parquet", {"parquet"}), ("shuffle: true", {"examples"})):
        converted(data, output, keys, overwrite=True)
        assert {path.name for path in output.iterdir()} & {"examples", "parquet"} == parts
        verify_dataset(str(output))


def test_lost_shards_are_written_again(data: Path, tmp_path: Path) -> None:
    """A shard is finished when its file is whole."""
    converted(data, tmp_path / "whole", "format: parquet")
    output = tmp_path / "out"
    with touched(data / "a.csv", output), pytest.raises(DataError, match="6 shards are finished"):
        converted(data, output, "format: parquet")
    assert {path.name for path in output.iterdir()} == {"_temporary"}
    first, second, *_ = sorted(output.glob("_temporary/parquet/*/*"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    manifest = converted(data, output, "format: parquet", resume=True)
    assert manifest.timings["resumed_shards"] == 4
    assert files_of(output) == files_of(tmp_path / "whole")


def test_unknown_rows_are_found(data: Path, tmp_path: Path) -> None:
    """A file that no manifest lists is an error of verify."""
    converted(data, tmp_path / "out", "format: parquet")
    extra = tmp_path / "out" / "parquet" / "Split-train" / "more.parquet"
    shutil.copy(next(extra.parent.iterdir()), extra)
    with pytest.raises(DataError, match=r"more\.parquet: is not in the manifest"):
        verify_dataset(str(tmp_path / "out"))


def test_shards_without_rows_have_the_columns(data: Path, tmp_path: Path) -> None:
    """An empty shard has the types of the others."""
    write_rows(data / "a.csv", 0, 2)
    converted(data, tmp_path / "out", "format: parquet, shuffle: false")
    tables = [pq.read_table(path) for path in sorted(tmp_path.glob("out/parquet/*/*"))]
    assert {str(table.schema) for table in tables} == {"number: int64\nplace: string"}
    assert sorted(table.num_rows for table in tables) == [0, 0, 0, 0, 1, 1]
    assert read_manifest(str(tmp_path / "out")).counts.written == 2
