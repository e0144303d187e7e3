"""Modification times, sizes, checksums and digests of files, to detect changes."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import google_crc32c
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import CheckedFile, InnerPath
from beam_pipelines.files.beam import files, listing

_CONNECTIONS = 16
_READ_BYTES = 4 << 20


def modified_secs(paths: Iterable[str]) -> dict[str, float]:
    """Returns when each file was last written, in seconds since 1970.

    Raises:
      DataError: a file does not exist.
    """
    paths = list(paths)
    with ThreadPoolExecutor(_CONNECTIONS) as executor:  # each is a request to the storage
        return dict(zip(paths, executor.map(_modified_secs, paths), strict=True))


def _modified_secs(path: str) -> float:
    try:
        return float(FileSystems.last_updated(path))
    except Exception as error:  # Beam wraps the storage's errors in several classes
        raise DataError(
            f"{path}: the file was there when the run started, and is gone: {error}"
        ) from error


def size_and_crc32c(path: str) -> tuple[int, int]:
    """Reads a whole file and returns its size and CRC-32C.

    The size is in bytes.
    """
    size = crc = 0
    with files.open_read(path) as file, files.reading(path):
        while data := file.read(_READ_BYTES):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc


def entries_of(paths: Mapping[InnerPath, str]) -> dict[InnerPath, CheckedFile]:
    """Returns the checksums of files, sorted by name.

    Args:
      paths: name -> path.
    """
    with ThreadPoolExecutor(_CONNECTIONS) as executor:
        found = dict(zip(paths, executor.map(size_and_crc32c, paths.values()), strict=True))
    return {
        name: CheckedFile(bytes=size, crc32c=f"{crc:08x}")
        for name, (size, crc) in sorted(found.items())
    }


def folder_fingerprint(folder: str) -> str:
    """Returns a fingerprint of the names and contents of a folder's files.

    Files in subfolders count too.
    """
    digest = hashlib.sha256()
    for file in listing.files_below(folder):
        size, crc = size_and_crc32c(file.path)
        digest.update(f"{files.relative(file.path, folder)}:{size}:{crc:08x}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def content_checksum(path: str) -> str:
    """Returns a checksum of a file's content.

    It is the CRC-32C of a local file, which is read, or the stored checksum of a remote one.

    Raises:
      DataError: the file cannot be read.
    """
    if not files.is_local(path):
        # Beam wraps the storage's error; reading the file will show it.
        with contextlib.suppress(Exception):
            if kept := FileSystems.checksum(path):  # a CRC-32C or an ETag
                return str(kept)
    size, crc32c = size_and_crc32c(path)
    return f"{size}-{crc32c:08x}"


class RunFile(NamedTuple):
    """The address of a file, as it travels in the job.

    Others who can write to the run's folder cannot exchange the content. So what the job has
    pickled may be unpickled.

    Attributes:
      path: of the file.
      digest: SHA-256 of its content, in hex.
    """

    path: str
    digest: str

    @classmethod
    def write(cls, path: str, data: bytes) -> RunFile:
        """Writes a file, and returns its address."""
        files.write_bytes(path, data)
        return cls(path, hashlib.sha256(data).hexdigest())

    @classmethod
    def keep(cls, value: Any, path: str) -> RunFile:
        """Writes a value to a file, and returns its address."""
        return cls.write(path, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def load(self) -> Any:
        """Returns what ``keep`` was given; raises as ``read``."""
        return pickle.loads(self.read())  # noqa: S301 - as the job has written it

    def read(self) -> bytes:
        """Returns the content.

        Raises:
          DataError: it is not what was written.
        """
        data = files.read_bytes(self.path)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise DataError(
                f"{self.path}: found other content than this run has written. Stop others from "
                "writing to this folder, and run again."
            )
        return data
