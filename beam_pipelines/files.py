"""Files by path or URL, through Beam's filesystems: the only module that opens, renames or deletes one."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import shutil
import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import google_crc32c
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.errors import DataError

_BEFORE_WILDCARD = re.compile(r"[^[*?]*")
_READ_BYTES = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def join(folder: str, *names: str) -> str:
    """Joins path components as the folder's filesystem does."""
    return str(FileSystems.join(folder, *names))


class Listed(NamedTuple):
    """A file as it was listed: path, size in bytes, and when it was last written, in seconds since 1970."""

    path: str
    size_bytes: int
    modified_secs: float


def list_files(pattern: str) -> list[Listed]:
    """Returns the files that match a pattern, ordered by path; none if none does.

    A local file, or a folder before the last component, that is called just as the pattern is written is meant itself,
    whatever brackets and stars are in its name.
    """
    if is_local(pattern) and os.path.isfile(pattern):
        return [Listed(pattern, os.path.getsize(pattern), os.path.getmtime(pattern))]
    here, matched = _matched(pattern)
    try:
        found = FileSystems.match([matched])[0].metadata_list
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{pattern}: cannot list files: {error}") from error
    return sorted(
        Listed(metadata.path[len(here) :], metadata.size_in_bytes, metadata.last_updated_in_seconds)
        for metadata in found
    )


def has_wildcard(path: str) -> bool:
    """Whether a path may be the pattern of several files."""
    return _BEFORE_WILDCARD.fullmatch(path) is None


def _matched(pattern: str) -> tuple[str, str]:
    """Returns the pattern that Beam understands, and what it has more at its beginning than the user's.

    Of a local pattern Beam lists the folder before the first wildcard, and an empty name is no folder to it.
    """
    if not is_local(pattern):
        return "", pattern
    folder, name = os.path.split(pattern)
    if os.path.isdir(folder):
        pattern = os.path.join(glob.escape(folder), name)
    here = "" if os.path.dirname(_BEFORE_WILDCARD.match(pattern)[0]) else os.path.join(os.curdir, "")  # type: ignore[index]
    return here, here + pattern


def open_read(path: str) -> BinaryIO:
    """Opens a file for reading, seekable, without decompressing it."""
    try:
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened: {error}") from error


@contextlib.contextmanager
def open_write(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing, without compressing; local parent folders are made.

    Raises:
      DataError: the file cannot be written, because of the path, a permission, or a full disk.
    """
    with _explained(path):
        if is_local(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turns what an operating system says of a file that cannot be written into an error that helps."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in _FULL
        cure = "Make room on the disk" if is_full else "Check the folder and its permissions"
        raise DataError(
            f"{path}: cannot be written: {error.strerror or error}. {cure}, or choose another --output."
        ) from error


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
    if not is_local(path):
        if exists(path) or list_files(join(path, "**")):
            FileSystems.delete([path])
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)  # Beam would take the name as a pattern, and delete its namesakes too
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)


def is_local(path: str) -> bool:
    """Whether a path lies on this machine's own filesystem."""
    return FileSystems.get_scheme(path) is None


@contextlib.contextmanager
def replace(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing that appears under its name only when it is complete, over whatever was there.

    Raises:
      DataError: as ``open_write``.
    """
    if not is_local(path):
        with open_write(path) as file:  # object stores show an object when it is closed
            yield file
        return
    part = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        with _explained(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(part, "wb") as file:
                yield file
            os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def resolve(path: str, directory: str) -> str:
    """Returns a path as seen from a directory: URLs and local paths from the root stay what they are."""
    return path if is_absolute(path) or not directory else join(directory, path)


def is_absolute(path: str) -> bool:
    """Whether a path needs no folder before it: a URL, or a local path from the root."""
    return not is_local(path) or os.path.isabs(path)


def relative(path: str, folder: str) -> str:
    """Returns the path of a file that lies somewhere under a folder as seen from there, with ``/`` between names."""
    return path[len(folder.rstrip("/")) :].replace(os.sep, "/").lstrip("/")


def absolute(path: str) -> str:
    """Returns a path as seen from everywhere: URLs stay what they are."""
    return os.path.abspath(path) if is_local(path) else path


def rename(pairs: list[tuple[str, str]]) -> None:
    """Renames files, over whatever was there; one that was renamed before, by a run of the same step, is left alone.

    Raises:
      DataError: a local target cannot be written.
    """
    todo = [(source, target) for source, target in pairs if exists(source)]
    remote = [pair for pair in todo if not is_local(pair[1])]
    for source, target in todo:
        if is_local(target):
            with _explained(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(source, target)
        else:
            delete(target)
    if remote:
        FileSystems.rename([source for source, _ in remote], [target for _, target in remote])


def name_of(path: str) -> str:
    """Returns the last component of a path."""
    return str(FileSystems.split(path.rstrip("/"))[1])


def is_file(path: str) -> bool:
    """Whether a local path is a file."""
    return os.path.isfile(path)


def modified_secs(path: str) -> float:
    """Returns when a file was last written, in seconds since 1970. Raises DataError if it is gone."""
    try:
        return os.path.getmtime(path) if is_local(path) else float(FileSystems.last_updated(path))
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{path}: the file was there when the run started, and is gone: {error}") from error


def size_and_crc32c(path: str) -> tuple[int, int]:
    """Reads a whole file and returns its size in bytes and its CRC-32C."""
    size = crc = 0
    with open_read(path) as file:
        while data := file.read(_READ_BYTES):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc
