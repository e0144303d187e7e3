"""Tests of compressions and archives that are not read.

Each format names them in its error.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, read_rows
from tests.support.image_files import encode
from tests.support.image_sets import cifar10_files, idx


def tar(mode: str) -> bytes:
    """Returns CIFAR-10 in a tar archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in cifar10_files(3).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def zipped() -> bytes:
    """Returns CIFAR-10 in a zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in cifar10_files(3).items():
            archive.writestr(name, content)
    return data.getvalue()


def zstd(data: bytes) -> bytes:
    """Returns compressed bytes."""
    return pa.Codec("zstd").compress(data, asbytes=True)


UNREAD = r"found a file compressed with xz, which is not read, expected gzip \(\.gz\), bzip2"
CASES: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "cifar": ("cifar-10-python.tar.xz", tar("w:xz"), {}, UNREAD),
    "cifar by format": ("cifar-10-python.tar.xz", tar("w:xz"), {"format": "cifar"}, UNREAD),
    "cifar as .txz": ("cifar.txz", tar("w:xz"), {"format": "cifar"}, UNREAD),
    "cifar by content": ("data_batch_1", tar("w:xz"), {"format": "cifar"}, UNREAD),
    "cifar, a tar.gz by content": ("cifar.tar.gzip", tar("w:gz"), {"format": "cifar"},
        r"found a file compressed with gzip, expected a pickle\. If it is an archive of CIFAR, name"),
    "cifar, a zip by content": ("cifar", zipped(), {"format": "cifar"}, r"compressed with zip, expe"),
    "csv": ("a.csv.xz", lzma.compress(b"a\n1\n"), {}, UNREAD),
    "csv by format": ("a.CSV.XZ", lzma.compress(b"a\n1\n"), {"format": "csv"}, UNREAD),
    "rar": ("a.csv.rar", b"Rar!", {}, "found a file compressed with rar, which is not read"),
    "idx": ("a-idx3-ubyte.xz", lzma.compress(idx(np.zeros((2, 2, 2)))), {}, UNREAD),
    "idx by content": ("a-idx3-ubyte", lzma.compress(idx(np.zeros((2, 2, 2)))), {},
                       r"found fd 37 7a 58 at the beginning, .* It is a file of xz: decompress it\."),
    "idx, bzip2 by content": ("a-idx3-ubyte", bz2.compress(idx(np.zeros((2, 2, 2)))), {}, r"It is compressed: set 'compression: bzip2'\."),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_unread(tmp_path: Path, case: str) -> None:
    """A file of an unsupported compression is refused.

    The error names the supported ones.
    """
    name, content, options, message = CASES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        plan_of(tmp_path / name, **options)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.tar", tar("w")), ("c.tar.gz", tar("w:gz")), ("c.tgz", tar("w:gz")),
        ("c.tar.bz2", tar("w:bz2")), ("c.tar.zst", zstd(tar("w"))), ("c.zip", zipped()),
    ],
)  # fmt: skip
def test_those_that_are_read(tmp_path: Path, name: str, content: bytes) -> None:
    """The archives that the message names are read."""
    (tmp_path / name).write_bytes(content)
    assert len(read_rows(tmp_path / name, format="cifar")) == 18


def test_a_compression_by_option(tmp_path: Path) -> None:
    """The recipe's ``compression`` overrides the suffix.

    Images are recognized by their content, whatever their suffix.
    """
    (tmp_path / "a.csv.xz").write_bytes(gzip.compress(b"a\n1\n"))
    assert read_rows(tmp_path / "a.csv.xz", format="csv", compression="gzip") == [{"a": 1}]
    (tmp_path / "b.xz").write_bytes(encode(np.zeros((2, 2), np.uint8), "png"))
    assert len(read_rows(tmp_path / "b*.xz", format="images")) == 1


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("of_labels", COMPRESSIONS)
@pytest.mark.parametrize("of_images", COMPRESSIONS)
def test_labels_of_arrays(tmp_path: Path, of_images: str, of_labels: str) -> None:
    """Labels are found by name whatever compression either file has."""
    images, labels = idx(np.zeros((3, 2, 2))), idx(np.array([3, 1, 2]))
    path = tmp_path / f"train-images-idx3-ubyte{of_images}"
    path.write_bytes(COMPRESSIONS[of_images](images))
    (tmp_path / f"train-labels-idx1-ubyte{of_labels}").write_bytes(COMPRESSIONS[of_labels](labels))
    assert [row["image/class/label"] for row in read_rows(path)] == [3, 1, 2]
    rows = read_rows(tmp_path / "*ubyte*")
    assert [row["image/class/label"] for row in rows] == [3, 1, 2]
