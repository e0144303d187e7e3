"""Renames and deletes files and folders, on disks and in object stores.

In an object store a rename is a copy, and a folder is a common prefix of names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files, listing

T = TypeVar("T")

_CONNECTIONS = 16
# Files that one connection renames at a time; Google Cloud Storage takes 100 in a request.
_RENAMED_FILES = 100
_REMOVALS, _REMOVAL_SECS = 20, 0.05


def delete(path: str) -> None:
    """Deletes a file, or a folder with its contents, if it exists.

    Raises:
      DataError: it cannot be deleted.
    """
    if files.is_object(path):
        _delete_objects(path)
    elif not files.is_local(path):
        if files.exists(path):
            with files.explained(path, "deleted"):
                FileSystems.delete([path])
    else:
        _delete_local(path)


def _delete_local(path: str) -> None:
    """Deletes a local file or folder.

    Does not use Beam, which would take the path for a pattern.
    """
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            _remove_folder(path)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
    except OSError as error:
        raise DataError(
            f"{error.filename or path}: cannot be deleted: {error.strerror or error}. Check the "
            "folder and its permissions, or choose another --output."
        ) from error


def _remove_folder(path: str) -> None:
    """Removes a folder while threads may still create files in it.

    These are threads of an interrupted run.
    """
    for _ in range(_REMOVALS):
        try:
            return shutil.rmtree(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
        shutil.rmtree(path, ignore_errors=True)  # deletes all that it can
        if not os.path.lexists(path):
            return None
        time.sleep(_REMOVAL_SECS)
    return shutil.rmtree(path)


def _delete_objects(path: str) -> None:
    """Deletes an object and all objects in the folder of that name.

    The object need not exist.
    """
    try:
        if files.exists(path):
            FileSystems.delete([_as_deleted(path)])
        FileSystems.delete([files.join(path, "")])
    except Exception as error:  # Beam wraps the storage's errors in several classes
        raise DataError(f"{path}: cannot be deleted: {files.reason(error)}") from error
    left = listing.files_below(path)
    if left:  # which Beam only logs
        raise DataError(
            f"{left[0].path}: cannot be deleted. Check your permissions, or choose another "
            "--output."
        )


def _as_deleted(path: str) -> str:
    """Returns a path in the form that Beam's ``delete`` takes.

    This is a pattern, but a plain name on S3.
    """
    return path if path.startswith("s3:") else listing.escaped(path)


def delete_files(paths: Sequence[str]) -> None:
    """Deletes existing files of one filesystem, over several connections at once.

    Raises:
      DataError: one cannot be deleted.
    """
    if paths:
        escaped = _as_deleted if files.is_object(paths[0]) else str
        with files.explained(paths[0], "deleted"):
            _by_connections(lambda some: FileSystems.delete([*map(escaped, some)]), paths)


def _by_connections(work: Callable[[Sequence[T]], object], items: Sequence[T]) -> None:
    """Works on all items, in parts, over several connections at once."""
    size = max(1, min(_RENAMED_FILES, len(items) // _CONNECTIONS))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(_CONNECTIONS) as executor:
        for _ in executor.map(work, parts):
            pass


def rename(pairs: list[tuple[str, str]]) -> None:
    """Renames files, over existing ones; ignores sources that do not exist.

    An earlier run of the same step may have renamed them.

    Raises:
      DataError: a local target cannot be written.
    """
    objects = [pair for pair in pairs if files.is_object(pair[1])]
    _rename_objects(objects)
    todo = [
        (source, target)
        for source, target in pairs
        if not files.is_object(target) and files.exists(source)
    ]
    for source, target in todo:
        if files.is_local(target):
            with files.explained(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(source, target)
        else:
            delete(target)
    remote = [pair for pair in todo if not files.is_local(pair[1])]
    if remote:
        with files.explained(remote[0][1]):
            FileSystems.rename([source for source, _ in remote], [target for _, target in remote])


def _rename_objects(pairs: Sequence[tuple[str, str]]) -> None:
    """Renames existing objects: the store copies them, over existing ones, and deletes."""
    if not pairs:
        return
    todo = _existing(pairs)
    try:
        _by_connections(
            lambda some: FileSystems.rename(
                [source for source, _ in some], [target for _, target in some]
            ),
            todo,
        )
    except Exception as error:  # Beam wraps the storage's errors in several classes
        if not _existing(todo):  # another attempt has moved them meanwhile
            return
        raise DataError(
            f"{todo[0][1]} and {len(todo) - 1} more: cannot be written: {files.reason(error)}"
        ) from error


def _existing(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the pairs whose source exists."""
    prefix = os.path.commonprefix([source for source, _ in pairs])  # noqa: RUF071 - names begin with it, whole or not
    there = {
        listed.path
        for listed in listing.list_files(f"{listing.escaped(prefix)}**", with_hidden=True)
    }
    return [pair for pair in pairs if pair[0] in there]
