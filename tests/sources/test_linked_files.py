"""Tests of links among a source's files.

Each format follows them, and refuses a link to nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, read_rows
from tests.support.image_files import encode
from tests.support.image_sets import CIFAR10, cifar10_batch, cifar10_meta, colour_digits, idx

PICTURE = encode(np.zeros((2, 2), np.uint8), "png")


def write(path: Path, content: bytes) -> None:
    """Writes a file, and makes its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("path", ["photos", "photos/*/*"])
def test_a_linked_class_folder(tmp_path: Path, path: str) -> None:
    """A linked folder of images is a class with the link's name.

    A link to nothing is an error, as it may have led to a class.
    """
    write(tmp_path / "photos" / "cat" / "1.png", PICTURE)
    write(tmp_path / "wolves" / "1.png", PICTURE)
    (tmp_path / "photos" / "dog").symlink_to(tmp_path / "wolves")
    rows = read_rows(tmp_path / path, format="images")
    assert [row["image/class/text"] for row in rows] == ["cat", "dog"]
    assert [row["image/filename"] for row in rows] == ["cat/1.png", "dog/1.png"]
    (tmp_path / "photos" / "fox").symlink_to(tmp_path / "foxes")
    with pytest.raises(
        DataError, match=r"photos/fox: found a link to .*foxes, which leads to noth"
    ):
        plan_of(tmp_path / path, format="images")


def test_a_folder_of_images_with_brackets_in_its_name(tmp_path: Path) -> None:
    """The name of an existing folder is no pattern."""
    write(tmp_path / "photos [1]" / "cat" / "1.png", PICTURE)
    (row,) = read_rows(tmp_path / "photos [1]", format="images")
    assert row["image/class/text"] == "cat"


def test_linked_class_names(tmp_path: Path) -> None:
    """The file of class names may be a link to a file.

    A link to nothing is an error.
    """
    pictures, labels = colour_digits(3)
    write(tmp_path / "batches" / "data_batch_1", cifar10_batch(pictures, labels, b"one"))
    write(tmp_path / "names", cifar10_meta())
    link = tmp_path / "batches" / "batches.meta"
    link.symlink_to("../names")
    path = tmp_path / "batches" / "data_batch_1"
    rows = read_rows(path, format="cifar")
    assert [row["image/class/text"] for row in rows] == [CIFAR10[label] for label in labels]
    (tmp_path / "names").unlink()
    with pytest.raises(DataError, match=r"batches\.meta: found a link to \.\./names, which leads"):
        plan_of(path, format="cifar")


def test_linked_labels(tmp_path: Path) -> None:
    """The file of IDX labels may be a link to a file.

    A link to nothing is an error.
    """
    write(tmp_path / "x-images-idx3-ubyte", idx(np.zeros((2, 2, 2), np.uint8)))
    write(tmp_path / "labels", idx(np.array([4, 5], np.uint8)))
    (tmp_path / "x-labels-idx1-ubyte").symlink_to("labels")
    path = tmp_path / "x-images-idx3-ubyte"
    assert [row["image/class/label"] for row in read_rows(path)] == [4, 5]
    (tmp_path / "labels").unlink()
    with pytest.raises(
        DataError, match=r"x-labels-idx1-ubyte: found a link to labels, which leads"
    ):
        plan_of(path)


def test_a_link_to_no_manifest(tmp_path: Path) -> None:
    """Shards are refused if their ``dataset.json`` is a link to nothing.

    The error names ``dataset.json``.
    """
    write(tmp_path / "examples" / "Split-train" / "a.tfrecord", b"x")
    (tmp_path / "dataset.json").symlink_to("gone")
    with pytest.raises(DataError, match=r"dataset\.json: found a link to gone, which leads"):
        plan_of(tmp_path / "examples" / "Split-train" / "*")
