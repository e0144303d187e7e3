"""Hidden files and markers among data: rows of no format."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.sources.support import problems_of, read_rows
from tests.support.image_files import encode
from tests.support.image_sets import cifar10_batch, colour_digits, idx

CSV = b"n\n1\n2\n"
LABELS = colour_digits(2)[1]
# Format -> name and content of a file with two rows.
FORMATS: dict[str, tuple[str, bytes]] = {
    "csv": ("part-0.csv", CSV),
    "tsv": ("part-0.tsv", CSV),
    "json_lines": ("part-0.json", b'{"n": 1}\n{"n": 2}\n'),
    "libsvm": ("part-0.svm", b"1 1:1\n0 2:1\n"),
    "lines": ("part-0", b"a\nb\n"),
    "idx": ("part-0.idx", idx(np.zeros((2, 3), np.uint8))),
    "cifar": ("data_batch_1", cifar10_batch(*colour_digits(2))),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_a_folder_that_spark_wrote(tmp_path: Path, format_: str) -> None:
    """``folder/*`` reads only the parts of Spark's folder, in each format.

    Markers, checksums and metadata are left out.
    """
    name, content = FORMATS[format_]
    (tmp_path / name).write_bytes(content)
    for other in ("_SUCCESS", f".{name}.crc", "._SUCCESS.crc", f"_{name}", f"._{name}"):
        (tmp_path / other).write_bytes(b"\x00crc")
    options: dict[str, Any] = {"format": format_}
    assert len(read_rows(tmp_path / "*", **options)) == 2
    assert len(read_rows(tmp_path / "**", **options)) == 2


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
