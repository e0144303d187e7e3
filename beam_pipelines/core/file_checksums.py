"""What tells whether a file is still the same: when it was written, its size, and a checksum of
what is in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import google_crc32c
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core import files
from beam_pipelines.core.errors import DataError

_CONNECTIONS = 16
_READ_BYTES = 4 << 20


def modified_secs(paths: Iterable[str]) -> dict[str, float]:
    """Returns for each file when it was last written, in seconds since 1970. Raises DataError if
    one is gone.
    """
    paths = list(paths)
    with ThreadPoolExecutor(_CONNECTIONS) as executor:  # a storage takes its time for each
        return dict(zip(paths, executor.map(_modified_secs, paths), strict=True))


def _modified_secs(path: str) -> float:
    try:
        return (
            os.path.getmtime(path)
            if files.is_local(path)
            else float(FileSystems.last_updated(path))
        )
    except (
        Exception
    ) as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(
            f"{path}: the file was there when the run started, and is gone: {error}"
        ) from error


def size_and_crc32c(path: str) -> tuple[int, int]:
    """Reads a whole file and returns its size in bytes and its CRC-32C."""
    size = crc = 0
    with files.open_read(path) as file, files.reading(path):
        while data := file.read(_READ_BYTES):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc


def folder_fingerprint(folder: str) -> str:
    """Reads all files in a folder and below, and returns a fingerprint of their names and
    contents.
    """
    digest = hashlib.sha256()
    for file in files.list_files(files.join(folder, "**")):
        size, crc = size_and_crc32c(file.path)
        digest.update(f"{files.relative(file.path, folder)}:{size}:{crc:08x}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def content_checksum(path: str) -> str:
    """Returns what changes when the content of a file does, and not when the file is only written
    again.

    Of a local file that is its CRC-32C, for which it is read; of a remote one the checksum that the
    storage keeps.

    Raises:
      DataError: the file cannot be read.
    """
    kept = "" if files.is_local(path) else _kept_checksum(path)
    size, crc32c = (0, 0) if kept else size_and_crc32c(path)
    return kept or f"{size}-{crc32c:08x}"


def _kept_checksum(path: str) -> str:
    """Returns the checksum that a remote storage keeps of a file: a CRC-32C, an ETag or the like;
    empty if it keeps none.
    """
    try:
        return str(FileSystems.checksum(path) or "")
    except Exception:  # noqa: BLE001 - Beam wraps whatever the storage raised; reading the file will tell what is wrong
        return ""
