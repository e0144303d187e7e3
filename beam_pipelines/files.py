"""Files by path or URL, through Beam's filesystems: the only module that opens, renames or deletes one."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.errors import DataError


def join(folder: str, *names: str) -> str:
    """Joins path components as the folder's filesystem does."""
    return str(FileSystems.join(folder, *names))


def list_files(pattern: str) -> list[tuple[str, int]]:
    """Returns (path, bytes) of the files that match a pattern, ordered by path; empty if none does."""
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{pattern}: cannot list files: {error}") from error
    return sorted((metadata.path, metadata.size_in_bytes) for metadata in found)


def open_read(path: str) -> BinaryIO:
    """Opens a file for reading, seekable, without decompressing it."""
    try:
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened: {error}") from error


def open_write(path: str) -> BinaryIO:
    """Opens a file for writing, without compressing; local parent folders are made."""
    if is_local(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def read_bytes(path: str) -> bytes:
    """Returns a whole file."""
    with open_read(path) as file:
        return file.read()


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file."""
    with open_write(path) as file:
        file.write(data)


def exists(path: str) -> bool:
    """Whether a file, or a local folder, is there."""
    return bool(FileSystems.exists(path))


def delete(path: str) -> None:
    """Deletes a file or a folder with all that is in it; nothing happens if it is not there."""
    if exists(path) or list_files(join(path, "**")):
        FileSystems.delete([path])


def is_local(path: str) -> bool:
    """Whether a path lies on this machine's own filesystem."""
    return FileSystems.get_scheme(path) is None


@contextlib.contextmanager
def replace(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing that appears under its name only when it is complete, over whatever was there."""
    if not is_local(path):
        with open_write(path) as file:  # object stores show an object when it is closed
            yield file
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def is_absolute(path: str) -> bool:
    """Whether a path needs no folder before it: a URL, or a local path from the root."""
    return not is_local(path) or os.path.isabs(path)


def rename(pairs: list[tuple[str, str]]) -> None:
    """Renames files, over whatever was there; one that was renamed before, by a run of the same step, is left alone."""
    todo = [(source, target) for source, target in pairs if exists(source)]
    for _, target in todo:
        if is_local(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
        delete(target)
    if todo:
        FileSystems.rename([source for source, _ in todo], [target for _, target in todo])


def name_of(path: str) -> str:
    """Returns the last component of a path."""
    return str(FileSystems.split(path.rstrip("/"))[1])


def is_file(path: str) -> bool:
    """Whether a local path is a file."""
    return os.path.isfile(path)
