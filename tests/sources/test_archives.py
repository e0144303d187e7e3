"""Malicious archives: names, links and devices that lead elsewhere, and bombs."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from beam_pipelines.core import limits
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.images import cifar
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows
from tests.support.image_sets import (
    CIFAR10_MEMBERS,
    cifar10_batch,
    cifar10_files,
    colour_digits,
    write_archive,
)

RECORD = cifar10_batch(*colour_digits(1))


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    mode = {".gz": "w:gz", ".tgz": "w:gz"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as opened:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
    return path


def zip_of(
    path: Path,
    *members: tuple[zipfile.ZipInfo | str, bytes],
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as opened:
        for info, content in members:
            opened.writestr(info, content, compression)
    return path


def archive_of(path: Path, *names: str) -> Path:
    """Writes an archive, tar or zip by its name, of one-image batches."""
    if path.suffix == ".zip":
        return zip_of(path, *((name, RECORD) for name in names))
    return tar_of(path, *((tarfile.TarInfo(name), RECORD) for name in names))


def everything(folder: Path) -> list[tuple[str, int, int]]:
    """Returns all files in a folder and below, with sizes and dates."""
    return sorted(
        (str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")
    )


KINDS = ("a.tar", "a.tar.gz", "a.tgz", "a.zip")


@pytest.mark.parametrize("kind", KINDS)
def test_names_lead_nowhere(tmp_path: Path, kind: str) -> None:
    """Absolute and odd names in an archive are only names.

    Nothing is written or read there.
    """
    (tmp_path / "data_batch_9").write_bytes(b"not an image")
    names = (
        "../data_batch_9",
        "../../../../../../etc/data_batch_8",
        f"{tmp_path}/outside/data_batch_1",
        "C:/data_batch_2",
        "./x/../data_batch_3",
        "~/data_batch_4",
        "$HOME/data_batch_5",
    )
    inside = tmp_path / "inside"
    inside.mkdir()
    path = archive_of(inside / kind, *names)
    before = everything(tmp_path)
    plan = plan_of(path, format="cifar")
    assert len(plan.files) == len(names)
    assert read.read_table(plan, reject=False)[1] == {"read": len(names), "rejected": 0}
    assert everything(tmp_path) == before


TAR_TYPES = {
    "symlink": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "pipe": tarfile.FIFOTYPE,
}


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "data_batch_1"])
@pytest.mark.parametrize("kind", TAR_TYPES)
def test_links_and_devices_in_tar(tmp_path: Path, kind: str, target: str) -> None:
    """Each is refused with its name, be it a batch or not."""
    (tmp_path / "secret").write_bytes(RECORD)
    for name in ("data_batch_2", "readme.html"):
        link = tarfile.TarInfo(name)
        link.type, link.linkname = TAR_TYPES[kind], target
        path = tar_of(tmp_path / "a.tar", (tarfile.TarInfo("data_batch_1"), RECORD), (link, b""))
        with pytest.raises(
            DataError, match=rf"a\.tar/{name}: found a link or a device, expected plain files"
        ):
            plan_of(path, format="cifar")


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o060666, 0o010644])
def test_links_and_devices_in_zip(tmp_path: Path, mode: int) -> None:
    """An entry that is no file by its Unix mode is refused."""
    link = zipfile.ZipInfo("data_batch_2")
    link.external_attr = mode << 16
    path = zip_of(tmp_path / "a.zip", ("data_batch_1", RECORD), (link, b"/etc/passwd"))
    with pytest.raises(DataError, match=r"a\.zip/data_batch_2: found a link or a device"):
        plan_of(path, format="cifar")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path: Path, kind: str) -> None:
    """Two files of one name are refused: readers disagree on which counts."""
    path = archive_of(tmp_path / kind, "data_batch_1", "data_batch_1")
    with pytest.raises(DataError, match=r"data_batch_1: found a second file of that name"):
        plan_of(path, format="cifar")


@pytest.mark.parametrize("kind", KINDS)
def test_archive_files(tmp_path: Path, kind: str) -> None:
    """The limit's number of files is read; one more is an error."""
    names = [f"data_batch_{number}" for number in range(6)]
    bounds = Limits(archive_files=5)
    assert (
        len(plan_of(archive_of(tmp_path / kind, *names[:5]), format="cifar", limits=bounds).files)
        == 5
    )
    with pytest.raises(
        DataError,
        match=rf"{kind}: found .*6 files.*expected at most 5 \(the limit 'archive_files'\)",
    ):
        plan_of(archive_of(tmp_path / kind, *names), format="cifar", limits=bounds)


def test_a_list_that_lies_about_its_length(tmp_path: Path) -> None:
    """The list of a zip archive is bounded in bytes."""
    path = archive_of(tmp_path / "a.zip", *(f"{number:0200}" for number in range(1000)))
    data = bytearray(path.read_bytes())
    data[-12:-8] = struct.pack("<HH", 2, 2)
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"a list of 2 files in [0-9,]+ bytes, expected at most 10"):
        plan_of(path, format="cifar", limits=Limits(archive_files=10))


def zeros(path: Path, size: int) -> Path:
    """Writes an archive of one batch of so many zeros."""
    if path.suffix == ".zip":
        return zip_of(path, ("data_batch_1", bytes(size)))
    return tar_of(path, (tarfile.TarInfo("data_batch_1"), bytes(size)))


@pytest.mark.parametrize("kind", ["a.tar.gz", "a.tgz", "a.zip"])
def test_bombs_are_stopped_before_they_are_in_memory(tmp_path, monkeypatch, kind):
    """An archive that grows a thousandfold is an error, in little memory.

    It is found while the archive is read, or by its list.
    """
    monkeypatch.setattr(limits, "FREE_BYTES", 2 << 20)
    path = zeros(tmp_path / kind, 3073 * 8_000)
    tracemalloc.start()
    try:
        with pytest.raises(
            DataError,
            match=rf"{kind}: found [0-9,]+ bytes decompressed from .*'decompression_ratio'",
        ):
            plan_of(path, format="cifar")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert len(plan_of(path, format="cifar", limits=Limits(decompression_ratio=2000)).files) == 1


def test_members_that_share_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries with shared data are refused by the sum of sizes."""
    monkeypatch.setattr(limits, "FREE_BYTES", 1 << 20)
    path = zip_of(tmp_path / "a.zip", ("data_batch_1", bytes(3073 * 100)))
    data = path.read_bytes()
    start, length = data.rfind(b"PK\x01\x02"), data.rfind(b"PK\x05\x06") - data.rfind(b"PK\x01\x02")
    entry = data[start : start + length]
    entries = (
        b"".join(entry.replace(b"data_batch_1", f"data_batch_{n:x}".encode()) for n in range(16))
        * 1
    )
    end = bytearray(data[start + length :])
    end[8:16] = struct.pack("<HHI", 16, 16, len(entries))
    path.write_bytes(data[:start] + entries + bytes(end))
    with pytest.raises(DataError, match="decompressed from"):
        plan_of(path, format="cifar")


def test_a_member_in_an_archive_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch larger than any of CIFAR's is not read into memory.

    That holds in an archive without compression, too.
    """
    monkeypatch.setattr(cifar, "MAX_BATCH_BYTES", 1_000_000)
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("data_batch_1")
    info.size = 3073 * 1000
    with path.open("wb") as file:
        file.write(info.tobuf())
        file.truncate(512 + info.size + 512 - info.size % 512 + 1024)
    with pytest.raises(
        DataError, match=r"data_batch_1: found 3,073,000 bytes, expected at most 1,000,000"
    ):
        plan_of(path, format="cifar")


def encrypted(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for sign, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(sign) + flag] |= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60] ^= 0x55
    path.write_bytes(bytes(data))


def strange(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for sign, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = data.find(sign) + place
        data[start : start + 2] = struct.pack("<H", 97)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (encrypted, "found an encrypted file"),
        (cut, "found a damaged archive, expected a whole zip file"),
        (flipped, "found a damaged archive, expected a whole zip file"),
        (strange, "found a damaged archive, expected a whole zip file"),
    ],
)
def test_zip_archives_that_cannot_be_read(tmp_path, damage, message):
    """An unreadable archive is an error with its path.

    The error comes at planning or at reading.
    """
    path = zip_of(tmp_path / "a.zip", ("data_batch_1", os.urandom(3073)))
    damage(path)
    with pytest.raises(DataError, match=message):
        read.read_table(plan_of(path, format="cifar"), reject=False)


def test_cifar_in_a_zip_is_cifar_in_a_tar(tmp_path: Path) -> None:
    """Both give the same rows, from any order and compression of members."""
    members = cifar10_files(5)
    tar = write_archive(
        tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", members, CIFAR10_MEMBERS
    )
    contents = [(f"cifar-10-batches-py/{name}", content) for name, content in members.items()]
    expected = read_rows(tar)
    assert len(expected) == 30
    for number, compression in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_LZMA)):
        order = np.random.default_rng(number).permutation(len(contents))
        path = zip_of(
            tmp_path / "cifar-10-python.zip",
            *(contents[place] for place in order),
            compression=compression,
        )
        assert read_rows(path) == expected
