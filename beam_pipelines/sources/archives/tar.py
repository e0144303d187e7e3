"""The files in a tar archive, read from front to back.

Nothing is written to disk, so names cannot lead out of a folder.
"""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits
from beam_pipelines.sources.archives.members import ArchiveMember, Names
from beam_pipelines.sources.files.compression import decompressed
from beam_pipelines.storage import files

# Extended headers and long names are read into memory as a whole; real ones have some hundred
# bytes.
MAX_HEADER_BYTES = MIB
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def read_tar(path: str, compression: str, limits: Limits) -> Iterator[ArchiveMember]:
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
            bufsize=MIB,
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
    except (tarfile.TarError, OSError, EOFError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path}: found a damaged archive, expected a whole tar file, compressed as its name "
            f"says: {error}. "
            "Get the file again."
        ) from error
