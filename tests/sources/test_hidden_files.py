"""Hidden files and markers among data: rows of no format."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.sources.support import problems_of, read_rows
from tests.support.image_files import encode
from tests.support.image_sets import cifar10_batch, colour_digits

CSV = b"n\n1\n2\n"
LABELS = colour_digits(2)[1]


def test_partitions_as_pyarrow_and_spark(tmp_path: Path) -> None:
    """Rows of a Parquet dataset with metadata are those of pyarrow."""
    for number in range(3):
        (tmp_path / f"day={number}").mkdir()
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"day={number}" / "part-0.parquet")
        (tmp_path / f"day={number}" / "_SUCCESS").touch()
    (tmp_path / "_temporary").mkdir()
    pq.write_table(pa.table({"n": [9]}), tmp_path / "_temporary" / "part-0.parquet")
    pq.write_metadata(pa.schema([("n", pa.int64())]), tmp_path / "_metadata")
    expected = ds.dataset(tmp_path, format="parquet").to_table()["n"].to_pylist()
    for pattern in ("**", "*/*"):
        rows = read_rows(tmp_path / pattern, format="parquet")
        assert [row["n"] for row in rows] == expected == [0, 1, 2]


@pytest.mark.parametrize("path", ["photos", "photos/*/*"])
def test_images(tmp_path: Path, path: str) -> None:
    """Hidden images and folders of them are no rows and no classes."""
    picture = encode(np.zeros((2, 2), np.uint8), "png")
    for name in ("cat/1.png", "cat/_2.png", "cat/.3.png", "_dog/1.png", ".fox/1.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(picture)
    (row,) = read_rows(tmp_path / path, format="images")
    assert row["image/filename"] == "cat/1.png"
    (row,) = read_rows(tmp_path / "photos" / "_dog", format="images")
    assert row["image/filename"] == "1.png"
    (row,) = read_rows(tmp_path / "photos" / "cat" / "_2.png", format="images")
    assert row["image/filename"] == "_2.png"


def test_members_of_an_archive(tmp_path: Path) -> None:
    """Files that macOS adds to an archive are not read as batches.

    ``./`` before a name does not hide it.
    """
    batch = cifar10_batch(*colour_digits(2))
    with tarfile.open(tmp_path / "cifar-10-python.tar", "w") as archive:
        for name, data in (
            ("./c/data_batch_1", batch),
            ("./c/._data_batch_1", b"x"),
            ("__MACOSX/c/data_batch_1", b"x"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    rows = read_rows(tmp_path / "cifar-10-python.tar")
    assert [row["image/class/label"] for row in rows] == list(LABELS)


def test_a_hidden_file_by_name(tmp_path: Path) -> None:
    """A hidden file that the path names is read.

    A wildcard does not match it, and its error says so.
    """
    (tmp_path / "_x.csv").write_bytes(CSV)
    assert len(read_rows(tmp_path / "_x.csv")) == 2
    assert len(read_rows(tmp_path / "_*.csv")) == 2
    message = problems_of(tmp_path / "*.csv")["sources", "s", "path"]
    assert message.endswith(
        "_x.csv does, but a name that begins with '.' or '_' is no data, unless the pattern begins "
        "so in its place."
    )
