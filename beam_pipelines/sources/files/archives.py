"""Tar and zip archives, read member by member; nothing is written.

So names cannot lead out of a folder. Source of the format of zip:
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from lzma import LZMAError
from typing import IO, Any, BinaryIO, NamedTuple, cast

from beam_pipelines.core import limits as size_limits
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files, zip_members
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.compression import (
    COMPRESSION_FOR_SUFFIX,
    compression_of,
    decompressed,
)

# Size of an entry in the list of files: 46 bytes, a name, and some for times and sizes.
_ENTRY_BYTES = 256
_TOTAL, _LIST_BYTES = 4, 5  # indices into zipfile's record of an archive's end


def list_zip(path: str, limits: size_limits.Limits) -> Iterator[zipfile.ZipInfo]:
    """Yields the files in an archive, in the order of its list.

    Raises:
      DataError: as ``read_zip``.
    """
    for info, _ in _files_in(path, limits):
        yield info


def read_zip(path: str, limits: size_limits.Limits) -> Iterator[ArchiveMember]:
    """Yields an archive's files in the order of its list.

    Raises:
      DataError: the archive is damaged, has a link, an encrypted file or two files of one name, or
        is beyond a limit.
    """
    for info, archive in _files_in(path, limits):
        with explained(path), archive.open(info) as content:
            yield ArchiveMember(f"{path}/{info.filename}", info.file_size, content, path)


def _files_in(
    path: str, limits: size_limits.Limits
) -> Iterator[tuple[zipfile.ZipInfo, zipfile.ZipFile]]:
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
    if info.flag_bits & zip_members.IS_ENCRYPTED:
        raise names.refused(info.filename, "an encrypted file")
    # Only archives made on Unix tell.
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        raise names.refused(info.filename, "a link or a device")
    names.add(info.filename)


def _check_list(file: BinaryIO, path: str, limits: size_limits.Limits) -> None:
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
        raise DataError(f"{path}: {size_limits.exceeded(limits, 'archive_files', found)}")


def _check_ratio(
    file: BinaryIO, path: str, limits: size_limits.Limits, infos: list[zipfile.ZipInfo]
) -> None:
    """Raises ``DataError`` if all members are too large for the archive's size.

    Bytes of a member beyond its listed size are not read.
    """
    size = file.seek(0, 2)
    total = sum(info.file_size for info in infos)
    if size_limits.exceeds_ratio(limits, size, total):
        raise DataError(f"{path}: {size_limits.ratio_exceeded(limits, size, total)}")


# Extended headers and long names are read into memory as a whole; real ones have some hundred
# bytes.
MAX_HEADER_BYTES = size_limits.MIB
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def read_tar(path: str, compression: str, limits: size_limits.Limits) -> Iterator[ArchiveMember]:
    """Yields the files in an archive, in order. Folders are passed over.

    Raises:
      DataError: the archive is damaged or cut off, has a link, a device, or two files of one name
        in it, or is beyond a limit.
    """

    class OwnTarInfo(_TarInfo):
        """One archive's headers.

        ``tarfile`` makes the instances, so the class keeps ``has_ended``.
        """

    names = Names(path, limits)
    with (
        files.open_read(path) as file,
        explained(path),
        tarfile.open(
            fileobj=cast("Any", decompressed(file, path, compression, limits)),
            mode="r|",
            tarinfo=OwnTarInfo,
            bufsize=size_limits.MIB,
        ) as archive,
    ):
        for info in archive:
            archive.members = []  # type: ignore[attr-defined] # tarfile keeps all headers, without need
            if info.isdir():
                continue
            content = archive.extractfile(info) if info.isreg() and not info.issparse() else None
            if content is None:
                raise names.refused(info.name, "a link or a device")
            names.add(info.name)
            yield ArchiveMember(f"{path}/{info.name}", info.size, content, path)
        if not OwnTarInfo.has_ended:
            raise tarfile.ReadError("it has no end")


class _TarInfo(tarfile.TarInfo):
    """A header; the class notes whether the archive's end was seen.

    ``tarfile`` takes an archive without an end for whole.
    """

    has_ended = False

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> tarfile.TarInfo:  # type: ignore[override]
        """Parses a header.

        Raises:
          tarfile.HeaderError: it is damaged, or states a size beyond ``MAX_HEADER_BYTES``.
        """
        if buf.count(0) == tarfile.BLOCKSIZE:
            cls.has_ended = True
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADER_TYPES and info.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {info.size:,} bytes")
        return info


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Raises ``DataError`` for the errors of a damaged archive."""
    try:
        yield
    except (
        *zip_members.DAMAGE,
        tarfile.TarError,
        LZMAError,
        OSError,
        EOFError,
        ValueError,
    ) as error:
        if zip_members.is_zip(path):
            raise zip_members.damaged(path, error) from error
        raise DataError(
            f"{path}: found a damaged archive, expected a whole tar file, compressed as its name "
            f"says: {error}. Get the file again."
        ) from error


class ArchiveMember(NamedTuple):
    """A plain file in an archive, valid until the next one.

    Attributes:
      path: the archive's path, ``/``, and the name in it.
      size_bytes: of its content.
      content: the open file; ``archives.read_member`` reads it.
      archive: path of the archive.
    """

    path: str
    size_bytes: int
    content: IO[bytes]
    archive: str


class Names:
    """Names of an archive's files; refuses repeated ones and too many.

    Attributes:
      archive: path of the archive.
      limits: of the recipe.
    """

    def __init__(self, archive: str, limits: size_limits.Limits) -> None:
        self.archive = archive
        self.limits = limits
        self._names: set[str] = set()

    def add(self, name: str) -> None:
        """Notes a name.

        Raises:
          DataError: it was there before, or it is one too many.
        """
        if name in self._names:
            raise self.refused(name, "a second file of that name")
        self._names.add(name)
        if len(self._names) > self.limits.archive_files:
            raise DataError(
                f"{self.archive}: "
                + size_limits.exceeded(self.limits, "archive_files", f"{len(self._names):,} files")
            )

    def refused(self, name: str, what: str) -> DataError:
        """Returns the error for an entry that is not allowed."""
        return DataError(
            f"{self.archive}/{name}: found {what}, expected plain files of different names. Make "
            "the archive again."
        )


def is_archive(path: str) -> bool:
    """Whether a file has the name of a zip or tar archive."""
    name = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        name = name.removesuffix(suffix)
    return zip_members.is_zip(path) or name.endswith((".tar", ".tgz"))


def read_members(source: Source, path: str) -> Iterator[ArchiveMember]:
    """Yields the files in an archive, in order. Folders are passed over.

    Raises:
      DataError: the archive is damaged or cut off, has a link, a device, or two files of one name
        in it, or is beyond a limit.
    """
    if zip_members.is_zip(path):
        return read_zip(path, source.limits)
    return read_tar(path, tar_compression(source, path), source.limits)


def tar_compression(source: Source, path: str) -> str:
    """Returns the compression of a tar archive; see ``compression_of``."""
    is_tgz = path.lower().endswith(".tgz") and not source.compression
    return "gzip" if is_tgz else compression_of(source, path)


def read_member(member: ArchiveMember) -> bytes:
    """Returns the content of a member.

    Raises:
      DataError: the archive is damaged or cut off there.
    """
    with explained(member.archive):
        return member.content.read()


# A file in an archive is decompressed from its beginning, so it is held in memory.
MOST_BYTES = 256 * size_limits.MIB


def open_whole(path: str) -> BinaryIO:
    """Opens a file for reading from any place.

    Raises:
      DataError: it cannot be opened, or is in an archive and too large to be held in memory.
    """
    if zip_members.member_path(path) is None:
        return files.open_read(path)
    data = files.read_at_most(path, MOST_BYTES)
    if data is None:
        raise DataError(
            f"{path}: found more than {MOST_BYTES:,} bytes in an archive, expected at most as many "
            "of a format that is read from several places. Unpack the archive."
        )
    return io.BytesIO(data)
