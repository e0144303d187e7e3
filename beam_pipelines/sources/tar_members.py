"""The files in a tar archive, read from front to back and never written to disk: their names are names, and lead nowhere."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa

from beam_pipelines import files
from beam_pipelines.errors import DataError
from beam_pipelines.recipe import MIB, Source
from beam_pipelines.sources.compression import COMPRESSION_FOR_SUFFIX, compression_of, decompressed

# Extended headers and long names are read into memory as a whole; real ones have some hundred bytes.
MAX_HEADER_BYTES = MIB
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class Member(NamedTuple):
    """A plain file in an archive, which can be read until the next one is asked for.

    Attributes:
      path: the archive's, ``/``, and the name as it stands in there.
      size_bytes: of its content.
      content: the open file; ``read_member`` reads it.
      archive: path of the archive.
    """

    path: str
    size_bytes: int
    content: IO[bytes]
    archive: str


def is_archive(path: str) -> bool:
    """Whether a file's name says that it is a tar archive, compressed or not."""
    path = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        path = path.removesuffix(suffix)
    return path.endswith((".tar", ".tgz"))


def read_members(source: Source, path: str) -> Iterator[Member]:
    """Yields the files in an archive, in order. Folders are passed over.

    Raises:
      DataError: the archive is damaged or cut off, or has a link, a device, or two files of one name in it.
    """
    compression = "gzip" if path.lower().endswith(".tgz") and not source.compression else compression_of(source, path)

    class Info(_Info):
        """One archive's headers: ``has_ended`` is kept by the class, because ``tarfile`` makes the instances."""

    names = set()
    with (
        files.open_read(path) as file,
        _explained(path),
        tarfile.open(
            fileobj=cast("Any", decompressed(file, compression)),
            mode="r|",
            tarinfo=Info,
            bufsize=MIB,
        ) as archive,
    ):
        for info in archive:
            if info.isdir():
                continue
            content = archive.extractfile(info) if info.isreg() and not info.issparse() else None
            if content is None or info.name in names:
                what = "a second file of that name" if info.name in names else "a link or a device"
                raise DataError(
                    f"{path}/{info.name}: found {what}, expected plain files of different names. Make the archive again."
                )
            names.add(info.name)
            yield Member(f"{path}/{info.name}", info.size, content, path)
        if not Info.has_ended:
            raise tarfile.ReadError("it has no end")


def read_member(member: Member) -> bytes:
    """Returns the content of a member. Raises DataError if the archive is damaged or cut off there."""
    with _explained(member.archive):
        return member.content.read()


class _Info(tarfile.TarInfo):
    """A header, and whether the archive's end was seen; ``tarfile`` takes an archive without one for whole."""

    has_ended = False

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> tarfile.TarInfo:  # type: ignore[override]
        """Parses a header.

        Raises:
          tarfile.HeaderError: it is damaged, or claims to go on for longer than any.
        """
        if buf.count(0) == tarfile.BLOCKSIZE:
            cls.has_ended = True
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADER_TYPES and info.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {info.size:,} bytes")
        return info


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, OSError, EOFError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path}: found a damaged archive, expected a whole tar file, compressed as its name says: {error}. "
            "Get the file again."
        ) from error
