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
from functools import partial
from typing import Any, TypeVar

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
    if files.is_local(path):
        _delete_local(path)
    elif files.is_object(path):
        _delete_objects(path)
    elif files.exists(path):
        with files.explained(path, "deleted"):
            FileSystems.delete([path])


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
    with files.explained(path, "deleted"):
        if files.exists(path):
            FileSystems.delete([_as_deleted(path)])
        FileSystems.delete([files.join(path, "")])
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


def version_of(path: str) -> str | None:
    """Returns a storage's checksum of a file; None without a file."""
    try:
        return str(FileSystems.checksum(path))
    except Exception:  # Beam wraps the storage's errors in several classes
        if files.exists(path):
            raise
        return None


def change_version(path: str, version: str, content: bytes | None = None) -> None:
    """Replaces or deletes a file, unless another has taken its place.

    S3, Google Cloud Storage and Azure tell the two apart, others do not.

    Args:
      path: of the file.
      version: what ``version_of`` returned, perhaps long ago.
      content: of the new file; None deletes it.

    Raises:
      DataError: it cannot be changed.
    """
    with files.explained(path, "deleted" if content is None else "written"):
        try:
            remove, write = _changes_of(path, version)
            if content is None:
                remove()
            else:
                write(content)
        except Exception:  # each store refuses by a class of its own
            if version_of(path) == version:
                raise


def _changes_of(path: str, version: str) -> tuple[Callable[[], object], Callable[[bytes], object]]:
    """Returns what deletes and what replaces a version.

    Beam takes no condition.
    """
    store: Any = FileSystems.get_filesystem(path)
    if path.startswith("s3:"):
        from apache_beam.io.aws import s3io

        bucket, name = s3io.parse_s3_path(path)
        client = s3io.S3IO(options=store._options).client.client  # noqa: SLF001 - within Beam's
        same: dict[str, Any] = {"Bucket": bucket, "Key": name, "IfMatch": version}
        put = partial(client.put_object, **same)
        return partial(client.delete_object, **same), lambda new: put(Body=new)
    if path.startswith("gs:"):
        blob = store._gcsIO()._gcs_object(path)  # noqa: SLF001 - within Beam's
        if blob.crc32c != version:
            raise DataError(f"{path}: found another file, expected that of checksum {version}.")
        same = {"if_generation_match": blob.generation}
        return partial(blob.delete, **same), partial(blob.upload_from_string, **same)
    if path.startswith("azfs:"):
        from apache_beam.io.azure import blobstorageio

        client = store._blobstorageIO().client  # noqa: SLF001 - within Beam's
        blob = client.get_blob_client(*blobstorageio.parse_azfs_path(path))
        same = {"headers": {"If-Match": version}}
        return partial(blob.delete_blob, **same), partial(blob.upload_blob, overwrite=True, **same)
    return partial(delete, path), partial(files.write_bytes, path)


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
    """Renames files of one filesystem; ignores those that do not exist.

    An earlier run of the same step may have renamed them.

    Raises:
      DataError: a target cannot be written.
    """
    if pairs and files.is_object(pairs[0][1]):
        _rename_objects(pairs)
        return
    for source, target in pairs:
        if not files.exists(source):
            continue
        with files.explained(target):
            if files.is_local(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(source, target)
            else:
                delete(target)
                FileSystems.rename([source], [target])


def _rename_objects(pairs: Sequence[tuple[str, str]]) -> None:
    """Renames existing objects: the store copies them, over existing ones, and deletes."""
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
