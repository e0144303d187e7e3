"""CIFAR-10 and CIFAR-100: pictures, classes, splits, ranges, and wrong files."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.files import archives
from beam_pipelines.sources.images import cifar
from beam_pipelines.sources.images.pixel_rows import encode_pngs
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows
from tests.sources.test_safe_pickle import Exploit
from tests.support import image_sets
from tests.support.image_sets import CIFAR10, COARSE, FINE, colour_digits, pickled, write_archive

PNG = {"image/format": "png", "image/height": 32, "image/width": 32, "image/channels": 3}


def decoded(data: bytes) -> np.ndarray:
    """Returns the pixels of a picture, as Pillow reads them."""
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 as published, but with 20 pictures in a batch."""
    path = tmp_path_factory.mktemp("cifar") / "cifar-10-python.tar.gz"
    return write_archive(
        path, "cifar-10-batches-py", image_sets.cifar10_files(20), image_sets.CIFAR10_MEMBERS
    )


def check_rows(rows: list[dict], count: int) -> None:
    """Compares rows with the pictures that were written, from the first on."""
    pictures, labels = colour_digits(count)
    assert len(rows) == count
    for row, picture, label in zip(rows, pictures, labels, strict=True):
        np.testing.assert_array_equal(decoded(row.pop("image/encoded")), picture)
        row.pop("image/filename", None)
        assert row == {**PNG, "image/class/label": label, "image/class/text": CIFAR10[label]}


def test_cifar10_from_its_archive(archive: Path) -> None:
    """The published archive gives six batches in order.

    Every pixel, class and file name is right. Other files in it do not matter.
    """
    plan = plan_of(archive)
    assert [file.path for file in plan.files] == [
        f"{archive}/cifar-10-batches-py/{name}"
        for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")
    ]
    assert plan.labels == {"image/class/label": CIFAR10}
    rows = read_rows(archive)
    assert rows[21]["image/filename"] == image_sets.filenames([rows[21]["image/class/label"]])[
        0
    ].decode().replace("000000", "000001")
    check_rows(rows, 120)


@pytest.mark.parametrize("mode", ["w:bz2", "w"])
def test_an_archive_may_be_compressed_in_any_way(tmp_path: Path, archive: Path, mode: str) -> None:
    """The rows are the same."""
    path = tmp_path / f"cifar-10-python.tar{'.bz2' if mode == 'w:bz2' else ''}"
    write_archive(path, "cifar-10-batches-py", image_sets.cifar10_files(20), mode=mode)
    assert read_rows(path) == read_rows(archive)


def test_files_out_of_their_archive(tmp_path: Path, archive: Path) -> None:
    """The unpacked folder gives the same rows.

    It has all batches or some; the labels are in the same folder.
    """
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    folder = tmp_path / "cifar-10-batches-py"
    assert read_rows(folder / "*", format="cifar") == read_rows(archive)
    (row, *_) = read_rows(folder / "data_batch_3", format="cifar")
    assert row["image/class/text"] == CIFAR10[row["image/class/label"]]
    (folder / "batches.meta").unlink()
    assert "image/class/text" not in read_rows(folder / "data_batch_3", format="cifar")[0]


def test_cifar100_has_two_classes(tmp_path: Path) -> None:
    """CIFAR-100 has named fine and coarse classes."""
    pictures, _ = colour_digits(250)
    fine = np.arange(250) % 100
    members = {
        "file.txt~": b"",
        "train": image_sets.cifar100_batch(pictures[:200], fine[:200]),
        "test": image_sets.cifar100_batch(pictures[200:], fine[200:]),
        "meta": image_sets.cifar100_meta(),
    }
    path = write_archive(tmp_path / "cifar-100-python.tar.gz", "cifar-100-python", members)
    rows = sorted(read_rows(path), key=lambda row: row["image/class/label"])
    assert plan_of(path).labels == {"image/class/label": FINE, "image/class/coarse/label": COARSE}
    # By path, "test" comes before "train".
    np.testing.assert_array_equal(decoded(read_rows(path)[0]["image/encoded"]), pictures[200])
    assert [row["image/class/label"] for row in rows] == sorted(fine.tolist())
    for row in rows:
        assert row["image/class/text"] == FINE[row["image/class/label"]]
        assert row["image/class/coarse/label"] == row["image/class/label"] % 20
        assert row["image/class/coarse/text"] == COARSE[row["image/class/label"] % 20]


def test_a_batch_of_the_real_size(tmp_path: Path) -> None:
    """A batch of 10,000 pictures is read, in parts."""
    pictures, labels = colour_digits(10_000)
    (tmp_path / "data_batch_1").write_bytes(image_sets.cifar10_batch(pictures, labels))
    options = {"format": "cifar", "columns": ("image/class/label", "image/encoded")}
    rows = read_rows(tmp_path / "data_batch_1", **options)
    assert [row["image/class/label"] for row in rows] == labels.tolist()
    for number in (0, 4095, 4096, 9999):
        np.testing.assert_array_equal(decoded(rows[number]["image/encoded"]), pictures[number])


@given(
    st.integers(0, 3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([1, 2, 3, 4]),
    st.integers(0, 2**32 - 1),
)
def test_png_files_hold_the_pixels(count, height, width, channels, seed):
    """Pillow finds exactly the pixels in our PNG files, of all modes."""
    pixels = np.random.default_rng(seed).integers(
        0, 256, (count, height, width, channels), np.uint8
    )
    pixels[:1] //= 100
    for data, wanted in zip(encode_pngs(pixels).to_pylist(), pixels, strict=True):
        picture = Image.open(io.BytesIO(data))
        assert picture.mode == {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
        np.testing.assert_array_equal(np.asarray(picture).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("place", ["data_batch_1", "batches.meta"])
def test_a_crafted_pickle_is_refused(tmp_path: Path, place: str) -> None:
    """A batch, or labels, that would run a command are an error.

    It names the member and the command's function.
    """
    ran = tmp_path / "ran"
    members = {
        **image_sets.cifar10_files(5),
        place: pickle.dumps({b"data": Exploit(os.system, f"touch {ran}")}, 4),
    }
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", members)
    with pytest.raises(
        DataError,
        match=rf"{place}: found a pickle with the name 'posix\.system', .*with Python's pickle",
    ):
        read.read_table(plan_of(path), reject=True)
    assert not ran.exists()


def batch(**changes: object) -> bytes:
    """Returns a pickled batch of two pictures, changed; ``None`` removes a key."""
    whole = {
        "data": np.zeros((2, 3072), np.uint8),
        "labels": [0, 1],
        "filenames": [b"a", b"b"],
        **changes,
    }
    return pickled({key: value for key, value in whole.items() if value is not None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            batch(labels=None),
            "found no 'labels' among data, filenames, expected a batch of CIFAR-10",
        ),
        (batch(labels=[0, 1, 2]), "found 3 labels of 2 images"),
        (batch(labels=[0, b"1"]), "found labels that are no numbers"),
        (batch(labels={b"a": 1}), "found a pickle with a dict in the place of a number or a text"),
        (batch(labels=7), r"found labels that are no numbers \(a int or empty items\)"),
        (batch(labels=[0, 1 << 70]), "found labels that are no numbers"),
        (batch(filenames=[b"a"]), "found 1 filenames of 2 images"),
        (batch(filenames=[b"a", b"\xff"]), "found filenames that are no texts"),
        (batch(filenames=7), "found filenames that are no texts"),
        (batch(data=np.zeros((2, 3071), np.uint8)), r"found data of uint8\[2, 3071\]"),
        (batch(data=np.zeros((2, 3072), np.int16)), r"found data of int16\[2, 3072\]"),
        (batch(data=np.zeros(3072, np.uint8)), r"found data of uint8\[3072\]"),
        (batch(data=np.zeros((), np.uint8)), r"found data of uint8\[\]"),
        (batch(data=[1, 2]), "found data of list"),
        (pickled([1, 2]), "found a pickled list, expected a mapping"),
        (batch()[:-1000], "found a pickle with damaged data"),
        (b"not a pickle", "found a pickle with"),
    ],
)
def test_wrong_batches(tmp_path: Path, content: bytes, message: str) -> None:
    """A batch unlike CIFAR's is an error with file, finding and expectation."""
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"data_batch_1: {message}"):
        read.read_table(plan_of(path, format="cifar"), reject=True)


def test_classes_without_a_name_are_bad_rows(tmp_path: Path) -> None:
    """A class beyond the labels stops the run or is rejected.

    The error has the image's number.
    """
    (tmp_path / "batches.meta").write_bytes(image_sets.cifar10_meta())
    (tmp_path / "data_batch_1").write_bytes(batch(labels=[3, 10]))
    plan = plan_of(tmp_path / "data_batch_1", format="cifar")
    with pytest.raises(
        DataError,
        match="data_batch_1, image 1, column 'image/class/label': found class 10, expected 0 to 9",
    ):
        read.read_table(plan, reject=False)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 1, "rejected": 1}
    assert table["image/class/text"].to_pylist() == ["cat"]
    assert rejected[0].position == "image 1"


def test_wrong_files(tmp_path: Path, archive: Path) -> None:
    """Files and options that do not fit are reported at planning.

    They are no CIFAR, of two kinds, of the wrong size, or options without meaning.
    """
    (tmp_path / "readme.html").write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"found no batch of CIFAR in readme\.html"):
        plan_of(tmp_path / "*", format="cifar")
    (tmp_path / "data_batch_1").write_bytes(batch())
    (tmp_path / "train").write_bytes(batch())
    with pytest.raises(DataError, match="train: found CIFAR-100, expected CIFAR-10 as"):
        plan_of(tmp_path / "*", format="cifar")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match=r"no batch .*of the binary version, get cifar-10-python"):
        plan_of(tmp_path / "data_batch_1.bin", format="cifar")
    found = problems_of(
        archive, types={"image/class/label": "int8"}, schema="a", compression="zlib", delimiter=";"
    )
    assert {path[-1] for path in found} == {"types", "schema", "compression", "delimiter"}


def test_large_files_are_refused(tmp_path, archive, monkeypatch):
    """A batch, or labels, larger than any of CIFAR are not read."""
    monkeypatch.setattr(cifar, "MAX_BATCH_BYTES", 1000)
    with pytest.raises(
        DataError, match=r"data_batch_1: found [0-9,]+ bytes, expected at most 1,000"
    ):
        plan_of(archive)
    monkeypatch.setattr(cifar, "MAX_BATCH_BYTES", 10)
    with pytest.raises(DataError, match=r"batches\.meta: found [0-9,]+ bytes, expected at most 10"):
        plan_of(archive)


def member(name: str, content: bytes = b"", **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    """Returns an entry of an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


@pytest.mark.parametrize("end", [10, 600, 5000, -1100, -600, -20])
@pytest.mark.parametrize("compressed", [True, False])
def test_archives_that_are_cut_off(tmp_path: Path, end: int, compressed: bool) -> None:
    """An archive that ends too early is an error, not fewer rows.

    It ends in a member, between two, or before its end mark.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as opened:
        for info, content in (member("data_batch_1", batch()), member("data_batch_2", batch())):
            opened.addfile(info, io.BytesIO(content))
    whole = buffer.getvalue().rstrip(b"\0")
    whole += bytes(-len(whole) % 512)
    data = whole[: end if end > 0 else len(whole) + end + 600]
    path = tmp_path / ("a.tar.gz" if compressed else "a.tar")
    path.write_bytes(
        gzip.compress(data)[:-4]
        if compressed and end == -20
        else gzip.compress(data)
        if compressed
        else data
    )
    with pytest.raises(
        DataError, match=r"a\.tar(\.gz)?: found a damaged archive, expected a whole tar file"
    ):
        plan_of(path, format="cifar")


def test_headers_of_an_archive_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that claims too many bytes is refused unread."""
    monkeypatch.setattr(archives, "MAX_HEADER_BYTES", 1000)
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as opened:
        opened.addfile(
            member("data_batch_1", batch(), pax_headers={"comment": "x" * 2000})[0],
            io.BytesIO(batch()),
        )
    with pytest.raises(DataError, match=r"a\.tar: found a damaged archive.*a header of 2,"):
        plan_of(path, format="cifar")
