"""Files of a dataset have checksums.

A changed bit is found or harmless.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.manifest import add_files, changed_files, check_files, read_manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline.planning.transform import plan_transform

ROWS = 24
RECIPE = """
name: t
sources: {t: t.csv}
encode: {town: {vocabulary: {}}, kind: {vocabulary: {}}}
label: kind
output: {num_shards: 1}
"""
RAW = "schema/schema.pbtxt"
ENCODED = "transform_graph/transformed_metadata/schema.pbtxt"
INDEX = "index/Split-train.arrow"
STATISTICS = "statistics/Split-train/FeatureStats.pb"
ENCODINGS = "transform_graph/encodings/"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with an optional column, encodings and labels."""
    folder = tmp_path_factory.mktemp("checked")
    lines = [
        f"{row},{'' if row % 3 else row},{'ab'[row % 2]}x,{'uv'[row % 2]}" for row in range(ROWS)
    ]
    (folder / "t.csv").write_text("\n".join(["id,opt,town,kind", *lines, ""]))
    (folder / "r.yaml").write_text(RECIPE)
    bp.convert(folder / "r.yaml", folder / "out", quiet=True)
    return folder / "out"


@pytest.fixture
def copy(converted: Path, tmp_path: Path) -> Path:
    """A copy of the dataset, to damage."""
    shutil.copytree(converted, tmp_path / "out")
    return tmp_path / "out"


def rows_of(folder: Path) -> dict[str, Any]:
    """Returns feature -> values of all rows."""
    found: dict[str, Any] = bp.open(folder).head(ROWS).to_pydict()
    return found


def reader_of(path: str) -> Callable[[Path], object] | None:
    """Returns what reads a file, if a reader does."""
    if path == ENCODED:
        return lambda folder: bp.open(folder).schema
    if path == RAW or path.startswith(ENCODINGS):
        return lambda folder: bp.open(folder).encoder()
    if path == STATISTICS:
        return lambda folder: bp.open(folder).statistics
    return rows_of if path == INDEX else None


def test_all_files_have_checksums(converted: Path) -> None:
    """All files but manifest, shards and report are in the table."""
    files = {
        str(path.relative_to(converted)) for path in converted.rglob("*") if path.is_file()
    } - {"dataset.json", "report.html"}
    files = {path for path in files if not path.startswith("examples/")}
    assert read_manifest(str(converted)).files.keys() == files
    assert verify_dataset(str(converted)).files == len(files)


def test_each_bit_of_the_files(copy: Path) -> None:
    """A flipped bit of any file is found, by its reader too."""
    manifest = read_manifest(str(copy))
    for path in manifest.files:
        full, read = copy / path, reader_of(path)
        good = full.read_bytes()
        is_whole = path.endswith((".pbtxt", ".txt")) or path.startswith(ENCODINGS)
        for place in range(0, len(good), 1 if is_whole else 41):
            bad = bytearray(good)
            bad[place] ^= 1 << place % 8
            full.write_bytes(bad)
            assert dict(changed_files(str(copy), manifest, path)).keys() == {path}
            if read is not None and not place % 13:
                with pytest.raises(DataError, match=f"{path}: found .* with CRC-32C"):
                    read(copy)
        with pytest.raises(DataError, match=f"{path}: found "):
            verify_dataset(str(copy))
        full.unlink()
        with pytest.raises(DataError, match=f"{path}: found no file, expected"):
            verify_dataset(str(copy))
        full.write_bytes(good)
    assert rows_of(copy)


def test_bits_of_the_manifest(copy: Path) -> None:
    """A flipped bit of the manifest is found.

    Rows and features stay.
    """
    good, rows = (copy / "dataset.json").read_bytes(), rows_of(copy)
    for place in range(0, len(good), 11):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 7
        (copy / "dataset.json").write_bytes(bad)
        try:
            found = rows_of(copy)
        except DataError:
            continue
        if found != rows:
            with pytest.raises(DataError):
                verify_dataset(str(copy))


def test_the_loader_of_tensorflow_reads_checked_files(copy: Path) -> None:
    """A feature renamed in the schema is no feature."""
    assert "opt" in bp.open(copy).feature_spec()
    path = copy / ENCODED
    path.write_bytes(path.read_bytes().replace(b'"opt"', b'"opp"'))
    with pytest.raises(DataError, match="CRC-32C"):
        bp.open(copy).feature_spec()


def test_a_corrected_schema_has_a_place(copy: Path) -> None:
    """The error of a changed schema names the recipe's 'schema'."""
    path = copy / RAW
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(DataError, match="which the recipe's 'schema' names"):
        bp.make_graph(copy)


def test_a_manifest_without_checksums(copy: Path) -> None:
    """A dataset of an early version is read; new files get checksums."""
    path, rows = copy / "dataset.json", rows_of(copy)
    manifest = json.loads(path.read_text())
    del manifest["files"]
    path.write_text(json.dumps(manifest))
    (copy / RAW).write_bytes((copy / RAW).read_bytes() + b"\n")
    assert rows_of(copy) == rows
    assert verify_dataset(str(copy)).files == 0
    add_files(str(copy), [INDEX])
    assert list(read_manifest(str(copy)).files) == [INDEX]


def test_a_reader_that_is_open_while_files_are_replaced(copy: Path) -> None:
    """A command replaces a schema under an open reader, which takes it."""
    reader = bp.open(copy)
    other = bp.open(copy)
    path = copy / ENCODED
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(DataError, match="CRC-32C"):
        _ = reader.schema
    add_files(str(copy), [ENCODED])
    assert reader.schema == bp.open(copy).schema
    manifest = json.loads((copy / "dataset.json").read_text())
    manifest["splits"]["train"]["bytes"] += 1
    (copy / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="CRC-32C"):
        _ = other.schema


@pytest.mark.parametrize("path", ["/etc/passwd", "../t.csv", "a/../../t.csv", ""])
def test_a_path_outside_the_dataset(copy: Path, path: str) -> None:
    """A manifest may not name files outside the dataset."""
    manifest = json.loads((copy / "dataset.json").read_text())
    manifest["files"][path] = {"bytes": 1, "crc32c": "00000000"}
    (copy / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="a path within the dataset"):
        verify_dataset(str(copy))


def test_links_out_of_a_dataset(copy: Path) -> None:
    """A link leads out of the dataset only to a known file."""
    manifest = read_manifest(str(copy))
    parts = ("schema", "transform_graph")
    path = next(copy / name for name in manifest.files if name.startswith("transform_graph/"))
    kept = path.rename(copy.parent / "kept")
    path.symlink_to(kept)  # as caches of downloads do
    (path.parent / "inside").symlink_to(copy / "dataset.json")
    check_files(str(copy), manifest, *parts)
    secret = copy.parent / "secret"
    secret.write_text("a password")
    (path.parent / "more").symlink_to(secret)
    with pytest.raises(DataError, match=r"found a link to .* without a checksum in the manifest"):
        check_files(str(copy), manifest, *parts)
    with pytest.raises(DataError, match="found a link to "):
        plan_transform(str(copy), ["new.csv"], {}, "test")
