"""IDX files: types, ranks, labels, ranges, and wrong files."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.images.idx import Idx, IdxOptions
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows
from tests.support.image_sets import IDX_TYPES, digits, idx, write_mnist

LABEL = "image/class/label"
MNIST = "*-images-idx3-ubyte"


def options(**values: object) -> dict[str, IdxOptions]:
    """Returns the source's options of an ``idx`` section."""
    return {"idx": IdxOptions(**values)}


@pytest.mark.parametrize("compressed", [True, False])
def test_mnist(tmp_path: Path, compressed: bool) -> None:
    """The four published files, plain or compressed: every pixel and label.

    ``t10k`` comes before ``train``, by path.
    """
    pictures, labels = write_mnist(tmp_path, 50, 20, compressed)
    pattern = tmp_path / (MNIST + ".gz" * compressed)
    rows = read_rows(pattern)
    order = [*range(50, 70), *range(50)]
    assert [row[LABEL] for row in rows] == labels[order].tolist()
    for row, number in zip(rows, order, strict=True):
        assert {key: row[key] for key in row if key not in (LABEL, "image/encoded")} == {
            "image/format": "png",
            "image/height": 28,
            "image/width": 28,
            "image/channels": 1,
        }
        np.testing.assert_array_equal(
            np.asarray(Image.open(io.BytesIO(row["image/encoded"]))), pictures[number]
        )
    # A path that matches the labels too means the same.
    assert read_rows(tmp_path / ("*-ubyte" + ".gz" * compressed)) == rows


@given(st.data())
def test_any_size_and_channels(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Pictures of any size come back.

    Ranges are of any size, and files plain or compressed.
    """
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=4)))
    values = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(
        0, 256, shape, np.uint8
    )
    compressed = data.draw(st.booleans())
    path = tmp_path_factory.mktemp("idx") / ("a.idx" + ".gz" * compressed)
    path.write_bytes(gzip.compress(idx(values)) if compressed else idx(values))
    rows = read_rows(path, range_bytes=data.draw(st.integers(1, 200)))
    assert len(rows) == len(values)
    for row, item in zip(rows, values, strict=True):
        found = np.asarray(Image.open(io.BytesIO(row["image/encoded"])))
        np.testing.assert_array_equal(found.reshape(item.shape), item)
        size = row["image/height"], row["image/width"], row["image/channels"]
        assert size == (*shape[1:], 1)[:3]


@pytest.mark.parametrize("code", IDX_TYPES)
@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2), (3, 2, 2, 5), (3, 2, 2, 1, 1)])
def test_other_arrays_are_refused(tmp_path, monkeypatch, code, shape):
    """The error's line of NumPy makes an array of the file."""
    monkeypatch.chdir(tmp_path)
    values = np.arange(np.prod(shape)).reshape(shape)
    Path("a.idx").write_bytes(idx(values, code))
    if code == 0x08 and len(shape) == 3:
        return
    with pytest.raises(DataError, match=r"expected unsigned bytes of pictures") as caught:
        plan_of(tmp_path / "a.idx")
    line = str(caught.value).partition("decompressed: ")[2]
    exec(line, {"numpy": np})  # noqa: S102 - as a user runs it
    found = np.load("a.idx.npy")
    assert found.dtype == np.dtype(IDX_TYPES[code])
    np.testing.assert_array_equal(found, values)


@given(count=st.integers(1, 40), range_bytes=st.integers(1, 5000), compressed_labels=st.booleans())
def test_ranges_lose_nothing(tmp_path_factory, count, range_bytes, compressed_labels):
    """Each picture is read once with its label for every cut.

    The labels may be compressed.
    """
    pictures, labels = digits(count, 8)
    folder = tmp_path_factory.mktemp("idx")
    (folder / "a-images.idx3-ubyte").write_bytes(idx(pictures))
    name, data = ("a-labels.idx1-ubyte", idx(labels))
    (folder / (name + ".gz" * compressed_labels)).write_bytes(
        gzip.compress(data) if compressed_labels else data
    )
    rows = read_rows(folder / "a-images.idx3-ubyte", range_bytes=range_bytes)
    assert [row[LABEL] for row in rows] == labels.tolist()
    for row, picture in zip(rows, pictures, strict=True):
        np.testing.assert_array_equal(
            np.asarray(Image.open(io.BytesIO(row["image/encoded"]))), picture
        )


def test_chunks_of_a_compressed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading in many chunks gives the same rows and checksum.

    The checksum depends on pixels and labels alone.
    """
    write_mnist(tmp_path / "a", 50, 1)
    write_mnist(tmp_path / "b", 50, 1, compressed=False)
    rows = read_rows(tmp_path / "a" / "train-images-idx3-ubyte.gz")
    checksums = []
    for path in (
        tmp_path / "a" / "train-images-idx3-ubyte.gz",
        tmp_path / "b" / "train-images-idx3-ubyte",
    ):
        for chunk_bytes in (1 << 24, 8 * 784 * 7):
            monkeypatch.setattr("beam_pipelines.sources.source_format.CHUNK_BYTES", chunk_bytes)
            assert read_rows(path) == rows
            plan = plan_of(path)
            chunks = list(read.read_range(plan, plan.ranges[0], {}, reject=False))
            assert len(chunks) == (1 if chunk_bytes == 1 << 24 else 8)
            checksums.append(chunks[-1].crc32c)
    assert len(set(checksums)) == 1
    labels = tmp_path / "b" / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1] + b"\x05")
    assert list(read.read_range(plan, plan.ranges[0], {}, reject=False))[-1].crc32c != checksums[0]


def test_columns_without_classes_need_no_labels(tmp_path: Path) -> None:
    """Labels are read for columns of classes only."""
    write_mnist(tmp_path, 5, 5)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    rows = read_rows(images, columns=("image/encoded", "image/height"), **options(classes=("a",)))
    assert [sorted(row) for row in rows] == [["image/encoded", "image/height"]] * 5
    assert not list(Idx().companions(plan_of(images, columns=("image/encoded",))))


def test_classes_have_names(tmp_path: Path) -> None:
    """``classes`` names the labels, for the examples and the manifest.

    A label without a name is a bad row.
    """
    write_mnist(tmp_path, 30, 10)
    names = tuple("abcdefghij")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    assert plan_of(path, **options(classes=names)).labels == {LABEL: names}
    assert all(
        row["image/class/text"] == names[row[LABEL]]
        for row in read_rows(path, **options(classes=names))
    )
    plan = plan_of(path, **options(classes=names[:9]))
    with pytest.raises(
        DataError,
        match=r"idx3-ubyte\.gz, image 9, column 'image/class/label': found class 9, expected 0 to 8",
    ):
        read.read_table(plan, reject=False)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert (
        counts == {"read": 27, "rejected": 3} == {"read": table.num_rows, "rejected": len(rejected)}
    )
    assert [bad.position for bad in rejected] == ["image 9", "image 19", "image 29"]


WHOLE = idx(np.ones((3, 2, 2)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x01\x08\x03", "found 00 01 08 03 at the beginning, expected an IDX file"),
        (b"\x00\x00\x0a\x03", "found 00 00 0a 03 at the beginning"),
        (b"\x00\x00\x08\x00", "found 00 00 08 00 at the beginning"),
        (b"\x00\x00", "found 00 00 at the beginning"),
        (gzip.compress(WHOLE), "found 1f 8b .* set 'compression: gzip'"),
        (WHOLE[:12], "found a header that is cut off, expected 3 dimensions"),
        (WHOLE[:-1], "found 27 bytes, expected 28 of 3×2×2 as its header says"),
        (WHOLE + b"\0", "found 29 bytes, expected 28"),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x01" + b"\xff\xff\xff\xff" * 2, "found 1×4294967295×4294967295, .* bytes an item"),
        (b"\x00\x00\x08\x03" + b"\x00\x00\x00\x01" + bytes(8), "found 1×0×0, items without a number"),
        (idx(np.ones((0, 2, 2))), "found no rows"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path: Path, content: bytes, message: str) -> None:
    """Wrong magic numbers and sizes are reported at planning."""
    (tmp_path / "a.idx").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.idx: {message}"):
        plan_of(tmp_path / "a.idx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(WHOLE[:-1]), "found 2 items before the file ends, expected 3"),
        (gzip.compress(WHOLE + b"\0"), "found more than the 28 bytes of 3×2×2"),
        (gzip.compress(WHOLE)[:-9], "found damaged gzip data"),
    ],
)
def test_wrong_compressed_files(tmp_path: Path, content: bytes, message: str) -> None:
    """A compressed file of wrong length is found when it is read."""
    (tmp_path / "a.idx.gz").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.idx\.gz: {message}"):
        read.read_table(plan_of(tmp_path / "a.idx.gz"), reject=True)


def test_wrong_labels(tmp_path: Path) -> None:
    """Missing or wrong labels are an error with both files.

    They are too few, short of their header, of two dimensions, or no integers.
    """
    write_mnist(tmp_path, 30, 10)
    images, labels = (
        tmp_path / "train-images-idx3-ubyte.gz",
        tmp_path / "train-labels-idx1-ubyte.gz",
    )
    labels.write_bytes(gzip.compress(idx(np.zeros(29))))
    with pytest.raises(
        DataError,
        match=r"labels-idx1-ubyte\.gz: found 29 labels, expected 30, as many as .*images-idx3-ubyte\.gz",
    ):
        plan_of(images)
    labels.write_bytes(gzip.compress(idx(np.zeros(30))[:-2]))
    with pytest.raises(
        DataError, match=r"labels-idx1-ubyte\.gz: found 28 items before the file ends, expected 30"
    ):
        read.read_table(plan_of(images), reject=True)
    for values, code in ((np.zeros((30, 1)), 0x08), (np.zeros(30), 0x0D)):
        labels.write_bytes(gzip.compress(idx(values, code)))
        with pytest.raises(
            DataError, match=r"labels-idx1-ubyte\.gz: found .*, expected unsigned bytes of labels"
        ):
            plan_of(images)
    labels.unlink()
    with pytest.raises(
        DataError,
        match=r"labels-idx1-ubyte\.gz: found no such file, expected the labels of .*link to it",
    ):
        plan_of(images)


def test_wrong_options(tmp_path: Path) -> None:
    """Options that do not fit the files or the format are problems."""
    write_mnist(tmp_path, 5, 5)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    key = ("sources", "s", "idx")
    (tmp_path / "b.idx").write_bytes(idx(np.ones((3, 2, 2))))
    found = problems_of(tmp_path / "b.idx", **options(classes=("a",)))
    assert "found no file with labels for" in found[key]
    found = problems_of(
        images, types={LABEL: "int8"}, header=False, delimiter=";", compression="zlib"
    )
    assert {path[-1] for path in found} == {"types", "header", "delimiter", "compression"}
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert (
        "expected it with idx only"
        in problems_of(tmp_path / "a.csv", **options(classes=("a",)))[key]
    )


def test_files_of_one_source_agree(tmp_path: Path) -> None:
    """Files with items of another type or shape name both files."""
    (tmp_path / "a.idx").write_bytes(idx(np.ones((3, 2, 2))))
    (tmp_path / "b.idx").write_bytes(idx(np.ones((3, 2, 3))))
    with pytest.raises(
        DataError,
        match=r"b\.idx: found 3×2×3, expected items as those of .*a\.idx, which has 3×2×2",
    ):
        plan_of(tmp_path / "*.idx")
