"""The files in a zip archive, read one after the other.

Nothing is written to disk. Source of the format:
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import contextlib
import stat
import zipfile
from collections.abc import Iterator
from lzma import LZMAError
from typing import Any, BinaryIO

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeded, exceeds_ratio, ratio_exceeded
from beam_pipelines.sources.archives.members import ArchiveMember, Names
from beam_pipelines.storage import files
from beam_pipelines.storage.zip_members import DAMAGE, IS_ENCRYPTED, damaged

# Size of an entry in the list of files: 46 bytes, a name, and some for times and sizes.
_ENTRY_BYTES = 256
_TOTAL, _LIST_BYTES = 4, 5  # indices into zipfile's record of an archive's end


def list_zip(path: str, limits: Limits) -> Iterator[zipfile.ZipInfo]:
    """Yields the files in an archive, in the order of its list.

    Raises:
      DataError: as ``read_zip``.
    """
    for info, _ in _files_in(path, limits):
        yield info


def read_zip(path: str, limits: Limits) -> Iterator[ArchiveMember]:
    """Yields an archive's files in the order of its list.

    Raises:
      DataError: the archive is damaged, has a link, an encrypted file or two files of one name, or
        is beyond a limit.
    """
    for info, archive in _files_in(path, limits):
        with explained(path), archive.open(info) as content:
            yield ArchiveMember(f"{path}/{info.filename}", info.file_size, content, path)


def _files_in(path: str, limits: Limits) -> Iterator[tuple[zipfile.ZipInfo, zipfile.ZipFile]]:
    """Yields each checked file with the open archive."""
    with files.open_read(path) as file, explained(path):
        _check_list(file, path, limits)
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            _check_ratio(file, path, limits, infos)
            names = Names(path, limits)
            for info in infos:
                _check_plain(info, names)
                yield info, archive


def _check_plain(info: zipfile.ZipInfo, names: Names) -> None:
    if info.flag_bits & IS_ENCRYPTED:
        raise names.refused(info.filename, "an encrypted file")
    if not _is_plain(info):
        raise names.refused(info.filename, "a link or a device")
    names.add(info.filename)


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """Whether a member is a file; only archives made on Unix tell."""
    mode = info.external_attr >> 16
    return stat.S_IFMT(mode) in (0, stat.S_IFREG)


def _check_list(file: BinaryIO, path: str, limits: Limits) -> None:
    """Raises ``DataError`` if the archive lists too many files.

    ``zipfile`` reads the whole list into memory.
    """
    end: Any = zipfile._EndRecData(file)  # type: ignore[attr-defined] # noqa: SLF001 - no public way before all is read
    if end is None:
        raise zipfile.BadZipFile("it has no end")
    if end[_TOTAL] > limits.archive_files or end[
        _LIST_BYTES
    ] > limits.archive_files * _ENTRY_BYTES + (64 << 10):
        found = f"a list of {end[_TOTAL]:,} files in {end[_LIST_BYTES]:,} bytes"
        raise DataError(f"{path}: {exceeded(limits, 'archive_files', found)}")


def _check_ratio(file: BinaryIO, path: str, limits: Limits, infos: list[zipfile.ZipInfo]) -> None:
    """Raises ``DataError`` if all members are too large for the archive's size.

    Bytes of a member beyond its listed size are not read.
    """
    size = file.seek(0, 2)
    total = sum(info.file_size for info in infos)
    if exceeds_ratio(limits, size, total):
        raise DataError(f"{path}: {ratio_exceeded(limits, size, total)}")


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Raises ``DataError`` for the errors of a damaged archive."""
    try:
        yield
    except (*DAMAGE, LZMAError, OSError, ValueError) as error:
        raise damaged(path, error) from error
