"""`verify` finds every bit of damage in written shards, and says where."""

from __future__ import annotations

import io
import json
import pathlib
import re
import shutil
import struct
import zlib

import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.manifest import add_files
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.tfrecord.part_index import PartIndex, make_index, parse_index, write_index

ROWS = 4


@pytest.fixture(scope="module", params=["none", "gzip", "zlib"])
def compression(request: pytest.FixtureRequest) -> str:
    """Compressions of the shards."""
    return str(request.param)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, compression: str) -> pathlib.Path:
    """A dataset of two tiny shards."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "t.csv").write_text(
        "a,b\n" + "".join(f"{row * 7},{'x' * (row % 3)}y\n" for row in range(ROWS))
    )
    recipe = parse_recipe(
        f"name: t\nsources: {{t: {{path: t.csv}}}}\noutput: {{num_shards: 2, compression: "
        f"{compression}}}",
        "recipe.yaml",
        str(folder),
    )
    convert.convert(
        make_plan(recipe), str(folder / "out"), beam_options=("--direct_num_workers=1",), quiet=True
    )
    return folder / "out"


def shards(dataset: pathlib.Path) -> list[pathlib.Path]:
    """The shards of a dataset, in order."""
    return sorted(path for path in dataset.joinpath("examples").rglob("*") if path.is_file())


def complaint(dataset: pathlib.Path) -> str:
    """Returns what `verify` has against a dataset."""
    with pytest.raises(DataError) as caught:
        verify_dataset(str(dataset))
    return str(caught.value)


def record_at(data: bytes, position: int) -> tuple[int, int]:
    """Returns number and offset of the record that holds a byte.

    It walks an undamaged file from length to length.
    """
    number = offset = 0
    while True:
        end = offset + 16 + struct.unpack_from("<Q", data, offset)[0]
        if position < end:
            return number, offset
        number, offset = number + 1, end


def test_every_bit_of_a_shard(dataset: pathlib.Path, compression: str) -> None:
    """Each flipped bit is found, and the file is named.

    Of files that are not compressed by gzip it is each third bit, and so each place in a byte.
    Without compression the error has the record and its offset, else one up to it.
    """
    path = shards(dataset)[0]
    good = path.read_bytes()
    plain = good if compression == "none" else zlib.decompress(good, 47)
    for bit in range(0, 8 * len(good), 1 if compression == "gzip" else 3):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        message = complaint(dataset)
        assert str(path) in message
        found = re.search(r"record (\d+), offset (\d+)", message)
        if compression == "none":
            assert found is not None
            assert (int(found[1]), int(found[2])) == record_at(good, bit // 8)
        elif found is not None:
            assert int(found[2]) <= len(plain)
    path.write_bytes(good)
    verify_dataset(str(dataset))


def test_a_shard_that_ends_early(dataset: pathlib.Path, compression: str) -> None:
    """A truncated or extended shard is found and named."""
    path = shards(dataset)[0]
    good = path.read_bytes()
    cuts = [good[:size] for size in range(len(good))]
    for bad in [*cuts, good + b"\0", good + good, good + b"\x1f\x8b"]:
        path.write_bytes(bad)
        assert str(path) in complaint(dataset)
    path.write_bytes(good)
    verify_dataset(str(dataset))


@pytest.mark.parametrize("damage", ["swapped", "missing", "too many", "renamed", "empty"])
def test_shards_that_are_not_where_they_belong(dataset, tmp_path, damage):
    """Swapped or misplaced files are found and named.

    Both files are named if there are two.
    """
    copy = tmp_path / "out"
    shutil.copytree(dataset, copy)
    first, second = shards(copy)
    expected = [first]
    if damage == "swapped":
        (bytes_of_first, bytes_of_second) = first.read_bytes(), second.read_bytes()
        first.write_bytes(bytes_of_second)
        second.write_bytes(bytes_of_first)
        expected = [first, second]
    elif damage == "missing":
        first.unlink()
    elif damage == "too many":
        expected = [first.with_name("more.tfrecord")]
        expected[0].write_bytes(first.read_bytes())
    elif damage == "renamed":
        expected = [first, first.rename(first.with_name("another"))]
    else:
        first.write_bytes(b"")
    message = complaint(copy)
    assert all(f"{path}" in message for path in expected)


def test_a_damaged_manifest(dataset, tmp_path, compression):
    """A damaged manifest is refused.

    It is cut anywhere, or has a number or checksum that differs from the files.
    """
    copy = tmp_path / "out"
    shutil.copytree(dataset, copy)
    path = copy / "dataset.json"
    good = path.read_bytes()
    for size in range(0, len(good) - 1, 37):
        path.write_bytes(good[:size])
        assert "dataset.json" in complaint(copy)
    counted = json.loads(good)
    for change in ("rows", "bytes", "crc32c", "path"):
        manifest = json.loads(good)
        shard = manifest["splits"]["train"]["shards"][1]
        shard[change] = (
            shard[change] + 1 if isinstance(shard[change], int) else shard[change][:-1] + "!"
        )
        path.write_text(json.dumps(manifest))
        assert str(shards(copy)[1]) in complaint(copy)
    for change in ("rows", "bytes"):
        manifest = json.loads(good)
        manifest["splits"]["train"][change] += 1
        path.write_text(json.dumps(manifest))
        assert f"{counted['splits']['train'][change]:,}" in complaint(copy)


def index_of(dataset: pathlib.Path) -> PartIndex:
    """Reads the index of a dataset, of whatever shards."""
    manifest = json.loads((dataset / "dataset.json").read_text())
    data = pa.py_buffer((dataset / "index" / "Split-train.arrow").read_bytes())
    return parse_index(data, "index", manifest["compression"])


@pytest.fixture
def copy(dataset: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the dataset."""
    return pathlib.Path(shutil.copytree(dataset, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("column", "part", "value"),
    [("offset", 0, -1), ("crc32", 1, 5), ("rows", 0, -1), ("framed_bytes", 1, 1)],
)
def test_an_index_that_is_wrong(copy: pathlib.Path, column: str, part: int, value: int) -> None:
    """An index with a wrong number is found and named."""
    index = index_of(copy)
    changed = getattr(index.columns, column).copy()
    changed[part] += value
    columns = index.columns._replace(**{column: changed})
    path = copy / "index" / "Split-train.arrow"
    changed_file = io.BytesIO()
    write_index(changed_file, make_index(index.compression, index.shards, columns))
    path.write_bytes(changed_file.getvalue())
    add_files(str(copy), ["index/Split-train.arrow"])
    message = complaint(copy)
    assert str(path) in message
    assert "convert again" in message


def test_every_damage_of_an_index(copy: pathlib.Path) -> None:
    """A damaged, truncated, missing or foreign index is found and named."""
    path = copy / "index" / "Split-train.arrow"
    good, index = path.read_bytes(), index_of(copy)
    other = [shard._replace(crc32c="00000000") for shard in index.shards]
    foreign = io.BytesIO()
    write_index(foreign, make_index(index.compression, other, index.columns))
    place = good.index(index.columns.crc32.tobytes())
    flipped = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    for bad in (b"", good[: len(good) // 2], flipped, foreign.getvalue()):
        path.write_bytes(bad)
        assert str(path) in complaint(copy)
        add_files(str(copy), ["index/Split-train.arrow"])
        assert str(path) in complaint(copy)
    path.unlink()
    assert f"{path}: found no file" in complaint(copy)


def test_a_dataset_without_an_index_is_whole(copy: pathlib.Path) -> None:
    """A dataset whose manifest lists no index needs none."""
    manifest = json.loads((copy / "dataset.json").read_text())
    del manifest["files"]["index/Split-train.arrow"]
    (copy / "dataset.json").write_text(json.dumps(manifest))
    shutil.rmtree(copy / "index")
    assert verify_dataset(str(copy)).rows == ROWS
