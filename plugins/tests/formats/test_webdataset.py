"""WebDataset: the rows of tar archives."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import webdataset

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources.images.options import ImageOptions
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of
from tests.support.image_files import encode

PICTURE = encode(np.arange(36, dtype=np.uint8).reshape(3, 4, 3), "png")
Members = Iterable[tuple[str, bytes]]


def tar(path: Path, members: Members, format_: int = tarfile.PAX_FORMAT, mode: str = "w") -> Path:
    """Writes an archive by ``tarfile``."""
    with tarfile.open(path, mode, format=format_) as archive:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def row(number: int, **more: bytes) -> list[tuple[str, bytes]]:
    """Returns the files of a row."""
    files = {"png": PICTURE, "cls": b"%d" % number, **more}
    return [(f"n01/{number:03}.{name}", data) for name, data in files.items()]


def rows(number: int) -> list[tuple[str, bytes]]:
    """Returns the files of some rows, of all kinds."""
    return [
        file
        for n in range(number)
        for file in row(
            n,
            json=b'{"a": %d,\n "b": {"c": [%d, 2]}}' % (n, n),
            txt=f"ç {n}".encode(),
            npy=b"\xff" * n,
        )
    ]


def of_webdataset(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of WebDataset's own reader, bytes as they are."""
    own = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
    left_out = ("__url__", "__local_path__")
    return [
        {name: value for name, value in sample.items() if name not in left_out} for sample in own
    ]


def as_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of ours as WebDataset's bytes."""
    image = {found["image/format"]: found["image/encoded"]} if "image/encoded" in found else {}
    return {
        "__key__": found["__key__"],
        **image,
        **({"cls": b"%d" % found["cls"]} if "cls" in found else {}),
        **{name: found[name].encode() for name in ("txt", "json") if name in found},
        **({"npy": found["npy"]} if "npy" in found else {}),
    }


def test_each_kind_of_file_is_a_column(tmp_path: Path) -> None:
    """Images, numbers, texts and bytes have their types."""
    path = tar(tmp_path / "a.tar", rows(3))
    assert types_of(path) == {
        "__key__": "string",
        "image/encoded": "binary",
        "image/format": "string",
        "image/height": "int64",
        "image/width": "int64",
        "image/channels": "int64",
        "cls": "int64",
        "txt": "string",
        "npy": "binary",
        "json": "string",
    }
    assert read_rows(path)[2] == {
        "__key__": "n01/002",
        "image/encoded": PICTURE,
        "image/format": "png",
        "image/height": 3,
        "image/width": 4,
        "image/channels": 3,
        "cls": 2,
        "txt": "ç 2",
        "npy": b"\xff\xff",
        "json": '{"a": 2,\n "b": {"c": [2, 2]}}',
    }


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_rows_are_those_of_webdataset(tmp_path: Path, format_: int) -> None:
    """Its own reader gives the same files to the same rows."""
    prefix = "d" * 60 + "/" + "e" * (60 if format_ == tarfile.USTAR_FORMAT else 90) + "/"
    members = [(prefix + name, data) for name, data in rows(20)]
    members[3:3] = [
        ("README", b"x"),
        (".DS_Store", b"x"),
        ("__meta__", b"{}"),
    ]
    path = tar(tmp_path / "a.tar", members, format_)
    expected = of_webdataset(path)
    found = read_rows(path)
    assert list(map(as_bytes, found)) == expected


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    """What macOS and WebDataset put next to data is of no row."""
    names = ["n01/._000.png", "__MACOSX/n01/000.png", "n01/.DS_Store", "__own__/x.cls", "LICENSE"]
    path = tar(tmp_path / "a.tar", [*((name, b"x") for name in names), *row(0)])
    assert [one["__key__"] for one in read_rows(path)] == ["n01/000"]


def test_archives_written_by_webdataset(tmp_path: Path) -> None:
    """What its writers write is read, one archive or several."""
    with webdataset.ShardWriter(str(tmp_path / "a-%03d.tar"), maxcount=7, verbose=0) as writer:
        for n in range(20):
            writer.write(
                {
                    "__key__": f"{n:04}",
                    "png": PICTURE,
                    "cls": n % 3,
                    "json": {"n": n},
                    "txt": f"t{n}",
                }
            )
    found = read_rows(tmp_path / "a-*.tar")
    assert [(one["__key__"], one["cls"], json.loads(one["json"]), one["txt"]) for one in found] == [
        (f"{n:04}", n % 3, {"n": n}, f"t{n}") for n in range(20)
    ]
    assert len(plan_of(tmp_path / "a-*.tar").ranges) == 3
    with webdataset.TarWriter(str(tmp_path / "b.tar.gz")) as one:
        one.write({"__key__": "x", "cls": 5})
    assert read_rows(tmp_path / "b.tar.gz") == [{"__key__": "x", "cls": 5}]


@pytest.mark.parametrize(
    ("suffix", "mode"), [(".tar.gz", "w:gz"), (".tgz", "w:gz"), (".tar.bz2", "w:bz2")]
)
def test_compressed_archives(tmp_path: Path, suffix: str, mode: str) -> None:
    """A compressed archive is one range with the same rows."""
    whole = read_rows(tar(tmp_path / "a.tar", rows(30)))
    path = tar(tmp_path / f"b{suffix}", rows(30), mode=mode)
    assert read_rows(path, range_bytes=500) == whole
    assert len(plan_of(path, range_bytes=500).ranges) == 1


def test_several_images_have_their_extensions(tmp_path: Path) -> None:
    """Two images of a row are two features."""
    path = tar(tmp_path / "a.tar", [("1.png", PICTURE), ("1.seg.PNG", PICTURE)])
    assert [name for name in types_of(path) if name.endswith("encoded")] == [
        "png/encoded",
        "seg.png/encoded",
    ]
    assert read_rows(path)[0]["seg.png/encoded"] == PICTURE
    jpeg = encode(np.zeros((2, 2, 3), np.uint8), "jpeg")
    path = tar(tmp_path / "b.tar", [("1.png", PICTURE), ("2.jpg", jpeg)])
    assert [one["image/format"] for one in read_rows(path)] == ["png", "jpeg"]
    resized = read_rows(path, image=ImageOptions(resize=(5, 6), format="png"))
    assert {(one["image/height"], one["image/width"], one["image/format"]) for one in resized} == {
        (5, 6, "png")
    }


GOOD = [*row(0), *row(1)]
# Name -> members, error, options of a source that is then read.
BAD: dict[str, tuple[list[tuple[str, bytes]], str, dict[str, Any] | None]] = {
    "missing": (
        [*GOOD, ("n01/002.png", PICTURE)],
        "n01/002.png: found the files .png in the row 'n01/002', expected an image, .cls, as",
        {"columns": ("image/encoded",)},
    ),
    "an image is missing": (
        [*GOOD, ("n01/002.cls", b"1")],
        "n01/002.cls: found the files .cls in the row 'n01/002', expected an image, .cls",
        {"columns": ("cls",)},
    ),
    "doubled": (
        [*GOOD, ("n01/001.CLS", b"1")],
        "n01/001.CLS: found a second file of that extension in the row 'n01/001'",
        None,
    ),
    "in two places": (
        [*GOOD, ("n01/000.txt", b"x")],
        "n01/000.txt: found the key 'n01/000' again, expected all files of a row",
        None,
    ),
    "no integer": (
        [*GOOD, *row(2, cls=b"cat")],
        "n01/002.png, column 'cls': found 'cat', expected an integer",
        {"types": {"cls": "text"}},
    ),
    "no UTF-8": (
        [*row(0, txt=b"a"), *row(1, txt=b"\xff")],
        "n01/001.png, column 'txt': found b'\\xff', expected text in UTF-8",
        {"types": {"txt": "bytes"}},
    ),
    "no image": (
        [*GOOD, *row(2, png=PICTURE[:50])],
        "n01/002.png, column 'image/encoded': found an image that does not decode",
        {"columns": ("cls",)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_have_their_places(tmp_path: Path, name: str) -> None:
    """An error names archive and file; its remedy works."""
    members, message, cure = BAD[name]
    path = tar(tmp_path / "a.tar", members)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"{path}, ")
    if cure is not None:
        assert len(read_rows(path, **cure)) == len({key.partition(".")[0] for key, _ in members})


def test_bad_rows_are_rejected(tmp_path: Path) -> None:
    """Good rows stay, in order, however ranges are cut."""
    members = [
        file for n in range(40) for file in row(n, id=b"x" if n % 7 == 3 else b"%d" % n)
        if n % 5 or not file[0].endswith("cls")
    ]  # fmt: skip
    path = tar(tmp_path / "a.tar", members)
    for size in (None, 3_000):
        plan = plan_of(path, range_bytes=size)
        table, counts, rejected = read.read_table(plan, reject=True)
        kept = [n for n in range(40) if n % 5 and n % 7 != 3]
        assert table.column("id").to_pylist() == kept
        assert counts == {"read": len(kept), "rejected": 40 - len(kept)}
        assert "found the files .png, .id in the row" in rejected[0].reason


def test_positions_of_rows(tmp_path: Path) -> None:
    """A row's place is its first file, bad rows not counted."""
    path = tar(tmp_path / "a.tar", [*GOOD, *row(2, cls=b"x"), *row(3)])
    plan = plan_of(path)
    _, _, rejected = read.read_table(plan, reject=True)
    found = read.format_of(plan).positions(plan, plan.ranges[0], {}, rejected, [0, 2])
    assert [one.place for one in found] == ["n01/000.png", "n01/003.png"]


def test_archives_that_are_refused(tmp_path: Path) -> None:
    """Links, tables, empty and damaged archives say what is wrong."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("a.cls")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match=r"a\.cls: found a link or a device"):
        plan_of(path)
    tar(path, [("x.csv", b"a\n1\n")])
    with pytest.raises(DataError, match=r"x\.csv: found a table .* make it a zip archive"):
        plan_of(path)
    assert read_rows(path, format="webdataset") == [{"__key__": "x", "csv": b"a\n1\n"}]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("x.csv", b"a\n1\n")
    assert read_rows(tmp_path / "a.zip") == [{"a": 1}]
    tar(path, [("README", b"x")])
    with pytest.raises(DataError, match=r"a\.tar: found no rows"):
        plan_of(path)
    data = tar(path, rows(9)).read_bytes()
    whole = bytearray(data)
    whole[700] ^= 1
    for damaged in (
        data[:5_000],
        data[: len(data) // 1024 * 1024 - 9_216],
        b"x" * 2_000,
        bytes(whole[512:]),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.tar: found a damaged archive"):
            read_rows(path)
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(data)[:-300])
    with pytest.raises(DataError, match=r"b\.tar\.gz: found a damaged archive"):
        read_rows(tmp_path / "b.tar.gz")


def test_limits(tmp_path: Path) -> None:
    """Files, their number, pixels and bombs are bounded; the remedies work."""
    path = tar(tmp_path / "a.tar", [*GOOD, *row(2, cls=b"1" + b" " * 3_000)])
    with pytest.raises(DataError, match=r"n01/002\.cls: found a file of 3,001 bytes.*cell_bytes"):
        read_rows(path, limits=Limits(cell_bytes=2_048))
    with pytest.raises(DataError, match=r"a\.tar: found 5 files, .*archive_files"):
        read_rows(path, limits=Limits(archive_files=4))
    assert len(read_rows(path, limits=Limits(archive_files=6))) == 3
    with pytest.raises(DataError, match="image_pixels"):
        read_rows(path, limits=Limits(image_pixels=11))
    bomb = tar(tmp_path / "b.tar.gz", [("a.npy", bytes(80 << 20))], mode="w:gz")
    with pytest.raises(DataError, match="decompression_ratio"):
        read_rows(bomb, limits=Limits(cell_bytes=1 << 30))


def test_classes_are_not_named_here(tmp_path: Path) -> None:
    """``classes`` of images is refused, as numbers have no names."""
    path = tar(tmp_path / "a.tar", GOOD)
    found = problems_of(path, image=ImageOptions(classes=("a",)))
    assert found == {
        ("sources", "s", "image"): "a WebDataset has numbers of classes. Leave 'classes' out."
    }


@pytest.mark.end_to_end
def test_a_dataset_of_images(tmp_path: Path) -> None:
    """A dataset has the images, and the label."""
    tar(tmp_path / "a.tar", rows(20))
    text = "name: a\nsources: {a: a.tar}\nlabel: cls\nencode: {__key__: drop}\n"
    recipe = parse_recipe(text, "recipe.yaml", str(tmp_path))
    convert(make_plan(recipe), str(tmp_path / "out"), quiet=True)
    shards = [str(shard) for shard in sorted((tmp_path / "out").glob("examples/*/*.gz"))]
    found = [
        tf.train.Example.FromString(one.numpy()).features.feature
        for one in tf.data.TFRecordDataset(shards, "GZIP")
    ]
    assert sorted(one["cls"].int64_list.value[0] for one in found) == list(range(20))
    assert {one["image/encoded"].bytes_list.value[0] for one in found} == {PICTURE}
