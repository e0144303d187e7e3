"""Renames and deletes files and folders: on a disk by the system's own steps, in an object store by
copies and by the beginnings of names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core import files
from beam_pipelines.core.errors import DataError

T = TypeVar("T")

_CONNECTIONS = 16
# Files that one connection renames at a time: as many as Google's storage takes in one request.
_RENAMED_FILES = 100
_REMOVALS, _REMOVAL_SECS = 20, 0.05


def delete(path: str) -> None:
    """Deletes a file or a folder with all that is in it; nothing happens if it is not there.

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
    """Deletes as ``delete``. Beam would take the name as a pattern, and delete its namesakes
    too.
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
            "folder and its permissions, "
            "or choose another --output."
        ) from error


def _remove_folder(path: str) -> None:
    """Removes a folder in which threads of a run that was interrupted may still make and rename
    files, for some moments.
    """
    for _ in range(_REMOVALS):
        try:
            return shutil.rmtree(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
        shutil.rmtree(
            path, ignore_errors=True
        )  # what can go goes, whatever is no longer where it was listed
        if not os.path.lexists(path):
            return None
        time.sleep(_REMOVAL_SECS)
    return shutil.rmtree(path)


def _escaped(path: str) -> str:
    """Returns the pattern of Beam's that one path in an object store matches, whatever brackets and
    stars are in it.
    """
    return re.sub(r"([*?[])", r"[\1]", path)


def _delete_objects(path: str) -> None:
    """Deletes the object of a name, if there is one, and all that would lie in a folder of that
    name.
    """
    try:
        if files.exists(path):
            FileSystems.delete([_as_deleted(path)])
        FileSystems.delete([files.join(path, "")])
    except (
        Exception
    ) as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{path}: cannot be deleted: {files.reason(error)}") from error
    left = files.list_files(files.join(_escaped(path), "**"))
    if left:  # which Beam only logs
        raise DataError(
            f"{left[0].path}: cannot be deleted. Check your permissions, or choose another "
            "--output."
        )


def _as_deleted(path: str) -> str:
    """Returns a path as Beam takes it for deleting: a pattern on Google's storage, and a name on
    S3.
    """
    return path if path.startswith("s3:") else _escaped(path)


def _by_connections(work: Callable[[Sequence[T]], object], items: Sequence[T]) -> None:
    """Does work on all items, some of them at a time by each of several connections."""
    size = max(1, min(_RENAMED_FILES, len(items) // _CONNECTIONS))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(_CONNECTIONS) as executor:
        for _ in executor.map(work, parts):
            pass


def rename(pairs: list[tuple[str, str]]) -> None:
    """Renames files, over whatever was there; one that was renamed before, by a run of the same
    step, is left alone.

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
    """Renames what is there. Object stores copy, over whatever was there, and then delete."""
    if not pairs:
        return
    folder = os.path.commonprefix([source for source, _ in pairs])  # noqa: RUF071 - names begin with it, whole or not
    there = {listed.path for listed in files.list_files(f"{_escaped(folder)}**")}
    todo = [(source, target) for source, target in pairs if source in there]
    try:
        _by_connections(
            lambda some: FileSystems.rename(
                [source for source, _ in some], [target for _, target in some]
            ),
            todo,
        )
    except (
        Exception
    ) as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(
            f"{todo[0][1]} and {len(todo) - 1} more: cannot be written: {files.reason(error)}"
        ) from error
