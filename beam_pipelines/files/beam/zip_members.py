"""Opens files inside zip archives by path: ``data.zip/a.csv``.

Nothing is written to disk.
"""

from __future__ import annotations

import functools
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple, cast

from beam_pipelines.core.errors import DataError

_SUFFIX = ".zip/"
# Signature, and the lengths of name and extra field.
_LOCAL_HEADER, _SIGNATURE = struct.Struct("<4s22xHH"), b"PK\x03\x04"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error)
# As ``zipfile`` tells encrypted members.
IS_ENCRYPTED = 1


class MemberPath(NamedTuple):
    """An archive's path, and the name of a file in it."""

    archive: str
    name: str


def member_path(path: str) -> MemberPath | None:
    """Returns the parts of a path into a zip archive, else ``None``.

    A local folder may be called ``x.zip``.
    """
    place = path.lower().find(_SUFFIX)
    if place < 0:
        return None
    archive, name = path[: place + len(_SUFFIX) - 1], path[place + len(_SUFFIX) :]
    return MemberPath(archive, name) if name and not os.path.isdir(archive) else None


def open_member(path: str, member: MemberPath, open_read: Callable[[str], BinaryIO]) -> BinaryIO:
    """Opens a file in an archive as a stream.

    Args:
      path: of the file, for messages.
      member: its parts.
      open_read: opens the archive.

    Raises:
      DataError: the archive is damaged, or has no such file.
    """
    file = open_read(member.archive)
    try:
        return _open(path, member, file)
    except DAMAGE as error:
        file.close()
        raise damaged(member.archive, error) from error
    except BaseException:
        file.close()
        raise


def _open(path: str, member: MemberPath, file: BinaryIO) -> BinaryIO:
    info = _infos_of(member.archive, file).get(member.name)
    if info is None or info.flag_bits & IS_ENCRYPTED:
        raise DataError(f"{path}: found no such file in the archive, or an encrypted one.")
    file.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != _SIGNATURE:
        raise zipfile.BadZipFile("a file's header is not where the list says")
    file.seek(info.header_offset + _LOCAL_HEADER.size + name + extra)
    return cast("BinaryIO", _Member(path, file, info))


def damaged(archive: str, error: Exception) -> DataError:
    """Returns the error for an archive that cannot be read."""
    return DataError(
        f"{archive}: found a damaged archive, expected a whole zip file: {error}. Get the file "
        "again."
    )


def is_zip(path: str) -> bool:
    """Whether a path is called a zip archive."""
    return path.lower().endswith(_SUFFIX.rstrip("/"))


class _Member(zipfile.ZipExtFile):
    """A file in an archive; damage is a ``DataError``."""

    def __init__(self, path: str, file: BinaryIO, info: zipfile.ZipInfo) -> None:
        # The list of files is not read again, as ``zipfile.ZipFile`` would.
        super().__init__(file, "r", info, close_fileobj=True)
        self._path = path

    def _read1(self, size: int) -> bytes:
        """Reads bytes for all other methods."""
        try:
            return super()._read1(size)  # type: ignore[misc,no-any-return]
        except DAMAGE as error:
            raise damaged(self._path, error) from error


def _infos_of(archive: str, file: BinaryIO) -> Mapping[str, zipfile.ZipInfo]:
    """Returns the list of an archive's files; keeps local ones."""
    try:
        status = os.stat(archive)
    except OSError:  # not local
        return _infos(file)
    return _local_infos(archive, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _local_infos(archive: str, _size: int, _modified: int) -> Mapping[str, zipfile.ZipInfo]:
    with open(archive, "rb") as file:
        return _infos(file)


def _infos(file: BinaryIO) -> Mapping[str, zipfile.ZipInfo]:
    with zipfile.ZipFile(file) as archive:
        return {info.filename: info for info in archive.infolist()}
