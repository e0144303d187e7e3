"""CIFAR and IDX files in their published layout, from small pictures.

The pictures are scikit-learn's digits.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FINE = tuple(f"fine_{number}" for number in range(100))
COARSE = tuple(f"coarse_{number}" for number in range(20))
# Members of the archive, in the order in which it is handed out.
CIFAR10_MEMBERS = [
    *(
        "data_batch_4",
        "readme.html",
        "test_batch",
        "data_batch_3",
        "batches.meta",
        "data_batch_2",
        "data_batch_5",
        "data_batch_1",
    )
]
IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def digits(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns scikit-learn's digits, repeated as needed, and their labels.

    The digits are uint8[count, side, side].
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    scale = side // 8
    border = (side - 8 * scale) // 2
    pictures = np.kron(
        (loaded.images * 255 / 16).astype(np.uint8), np.ones((1, scale, scale), np.uint8)
    )
    pictures = np.pad(
        pictures, ((0, 0), (border, side - 8 * scale - border), (border, side - 8 * scale - border))
    )
    rows = np.arange(count) % len(pictures)
    return pictures[rows], loaded.target[rows]


def colour_digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns digits in three colours, uint8[count, 32, 32, 3], and their labels."""
    pictures, labels = digits(count, 32)
    return np.stack(
        [
            pictures,
            255 - pictures,
            pictures // 2 + (np.arange(count) % 50)[:, None, None].astype(np.uint8),
        ],
        3,
    ), labels


def planes(pictures: np.ndarray) -> np.ndarray:
    """Returns pictures in CIFAR's layout: uint8[n, 3072], red, green, blue.

    The pictures are [n, 32, 32, 3].
    """
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).reshape(len(pictures), -1)


class _Python2Pickler(pickle._Pickler):
    """Writes protocol 2 like Python 2, which pickled the batches.

    All texts are byte strings, and numpy's core is ``numpy.core``.
    """

    dispatch: ClassVar[dict] = dict(pickle._Pickler.dispatch)

    def save_octets(self, value: bytes | str) -> None:
        data = value.encode("latin-1") if isinstance(value, str) else value
        head = (
            pickle.SHORT_BINSTRING + bytes([len(data)])
            if len(data) < 256
            else pickle.BINSTRING + struct.pack("<i", len(data))
        )
        self.write(head + data)
        self.memoize(value)

    def save_name(self, value: Any, name: str | None = None) -> None:
        module = value.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{name or value.__qualname__}\n".encode())
        self.memoize(value)

    dispatch[bytes] = save_octets
    dispatch[str] = save_octets
    save_global = save_name
    dispatch[type(digits)] = save_name
    dispatch[type] = save_name


def pickled(value: Any) -> bytes:
    """Pickles as Python 2 did."""
    file = io.BytesIO()
    _Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue()


def filenames(labels: Sequence[int], word: str = "digit") -> list[bytes]:
    """Returns a name for each picture."""
    return [f"{word}_{label}_s_{number:06}.png".encode() for number, label in enumerate(labels)]


def cifar10_batch(
    pictures: np.ndarray, labels: Sequence[int], title: str = "training batch 1 of 5"
) -> bytes:
    """Returns a pickled batch of CIFAR-10."""
    return pickled(
        {
            "batch_label": title,
            "labels": [int(label) for label in labels],
            "data": planes(pictures),
            "filenames": filenames(labels),
        }
    )


def cifar10_meta() -> bytes:
    """Returns ``batches.meta``."""
    return pickled({"num_cases_per_batch": 10000, "label_names": list(CIFAR10), "num_vis": 3072})


def cifar100_batch(
    pictures: np.ndarray, fine: Sequence[int], title: str = "training batch 1 of 1"
) -> bytes:
    """Returns a pickled batch of CIFAR-100.

    A picture of fine class n is of coarse class n % 20.
    """
    return pickled(
        {
            "filenames": filenames(fine),
            "batch_label": title,
            "fine_labels": [int(label) for label in fine],
            "coarse_labels": [int(label) % 20 for label in fine],
            "data": planes(pictures),
        }
    )


def cifar100_meta() -> bytes:
    """Returns ``meta``."""
    return pickled({"fine_label_names": list(FINE), "coarse_label_names": list(COARSE)})


def cifar10_files(rows: int, batches: int = 5) -> dict[str, bytes]:
    """Returns CIFAR-10's pickles by name, of as many rows each."""
    pictures, labels = colour_digits(rows * (batches + 1))
    parts = {
        f"data_batch_{number + 1}" if number < batches else "test_batch": slice(
            number * rows, (number + 1) * rows
        )
        for number in range(batches + 1)
    }
    found = {
        name: cifar10_batch(pictures[part], labels[part], name) for name, part in parts.items()
    }
    return {**found, "batches.meta": cifar10_meta(), "readme.html": b"<html></html>"}


def write_archive(
    path: Path,
    folder: str,
    members: Mapping[str, bytes],
    order: Sequence[str] = (),
    mode: str = "w:gz",
) -> Path:
    """Writes an archive with a folder in it, as ``tar`` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"compresslevel": 1} if mode == "w:gz" else {}
    with tarfile.open(path, mode, **options) as archive:
        entry = tarfile.TarInfo(folder)
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        for name in order or members:
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(members[name])
            archive.addfile(entry, io.BytesIO(members[name]))
    return path


def idx(values: Any, code: int = 0x08) -> bytes:
    """Returns an array as an IDX file."""
    array = np.asarray(values)
    sizes = b"".join(struct.pack(">I", size) for size in array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + array.astype(IDX_TYPES[code]).tobytes()


def write_mnist(
    folder: Path, train: int, test: int, compressed: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Writes MNIST's four files from scikit-learn's digits.

    Returns:
      All pictures and labels, those of ``train`` first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures, labels = digits(train + test, 28)
    for name, part in (("train", slice(0, train)), ("t10k", slice(train, None))):
        for kind, values in (("images-idx3", pictures[part]), ("labels-idx1", labels[part])):
            data = idx(values)
            path = folder / f"{name}-{kind}-ubyte{'.gz' if compressed else ''}"
            path.write_bytes(gzip.compress(data, 1, mtime=0) if compressed else data)
    return pictures, labels
