"""Files by path or URL, through Beam's filesystems: the only module that opens, renames or deletes one."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import posixpath
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, NamedTuple, TypeVar

import google_crc32c
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, S3Options

from beam_pipelines import input_roots, object_stores, s3_client
from beam_pipelines.errors import DataError, PipelineError, keep_secret

T = TypeVar("T")

_BEFORE_WILDCARD = re.compile(r"[^[*?]*")
_READ_BYTES = 4 << 20
_CONNECTIONS = 16
# Files that one connection renames at a time: as many as Google's storage takes in one request.
_RENAMED_FILES = 100
_REMOVALS, _REMOVAL_SECS = 20, 0.05
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


object_stores.import_when_asked()


def use_options(arguments: Sequence[str]) -> None:
    """Lets Beam's options, such as ``--s3_endpoint_url``, hold for files that are opened without a pipeline, or before one runs.

    Workers never call this: there, the options of the job hold.

    Raises:
      RecipeError: nobody answers at the address of a storage. Beam would try for eight minutes.
    """
    options = PipelineOptions(list(arguments))
    s3 = options.view_as(S3Options)
    for secret in (s3.s3_secret_access_key, s3.s3_session_token):
        keep_secret(secret or "")
    s3_client.check_endpoint(s3.s3_endpoint_url)
    FileSystems.set_options(options)


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

    Raises:
      DataError: the files cannot be listed, or one of them lies outside of ``--input_root``.
    """
    fixed = _BEFORE_WILDCARD.match(pattern)[0]  # type: ignore[index]
    input_roots.check(pattern if fixed == pattern else fixed.rpartition("/")[0] or os.curdir)
    found = _list_files(pattern)
    for listed in found:
        input_roots.check(listed.path)
    return found


def _list_files(pattern: str) -> list[Listed]:
    if is_local(pattern) and os.path.isfile(pattern):
        return [Listed(pattern, os.path.getsize(pattern), os.path.getmtime(pattern))]
    here, matched = _matched(pattern)
    try:
        found = FileSystems.match([matched])[0].metadata_list
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{pattern}: cannot list files: {_reason(error)}") from error
    return sorted(
        Listed(metadata.path[len(here) :], metadata.size_in_bytes, metadata.last_updated_in_seconds)
        for metadata in found
    )


def names_in(folder: str) -> list[str]:
    """Returns the names of the files and folders in a folder, sorted; on an object store of folders with files in them only."""
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return sorted({relative(listed.path, folder).split("/")[0] for listed in list_files(join(folder, "**"))})


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
    input_roots.check(path)
    try:
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]
    except Exception as error:
        if is_local(path) and not isinstance(error, (OSError, ValueError)):
            raise
        raise DataError(f"{path}: cannot be opened: {_reason(error)}") from error


def make_folder(path: str) -> None:
    """Makes a local folder, and those above it; nothing happens if it is there.

    Raises:
      DataError: it cannot be made.
    """
    with _explained(path):
        os.makedirs(path, exist_ok=True)


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


def _reason(error: Exception) -> str:
    """Returns what a storage said, without the wrappings of Beam, and what to install where it is a missing package."""
    details = getattr(error, "exception_details", None)
    if isinstance(details, dict) and details:
        return _reason(next(iter(details.values())))
    if isinstance(getattr(error, "message", None), str):
        return str(error.message)  # type: ignore[attr-defined]
    if "AWS dependencies are not installed" in str(error):
        return "paths on S3 need another package. Install it: pip install 'beam-pipelines[s3]'"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _explained(path: str, done: str = "written") -> Iterator[None]:
    """Turns what a system says of a file that cannot be written, or whatever is to be done with it, into an error that helps."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in _FULL
        cure = "Make room on the disk" if is_full else "Check the folder and its permissions"
        raise DataError(
            f"{path}: cannot be {done}: {error.strerror or _reason(error)}{_free_space(path, error)}. {cure}, or choose another --output."
        ) from error
    except Exception as error:
        if is_local(path) or isinstance(error, PipelineError):
            raise
        raise DataError(
            f"{path}: cannot be {done}: {_reason(error)}. Check the bucket and your permissions, or choose another --output."
        ) from error


def _free_space(path: str, error: OSError) -> str:
    """Returns how much room there is on a disk that is called full: little, or none for a file of this size."""
    if error.errno != errno.ENOSPC or not is_local(path):
        return ""
    return f", with {free_bytes(path):,} bytes free"


def free_bytes(path: str) -> int:
    """Returns how much room there is on the disk of a local path, whether or not that is there."""
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return shutil.disk_usage(folder).free


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Names the file in what a system says when it gives no more of it."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error.strerror or error}. Check the storage, and run again."
        ) from error


def read_bytes(path: str) -> bytes:
    """Returns a whole file."""
    with open_read(path) as file, reading(path):
        return file.read()


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file."""
    with open_write(path) as file:
        file.write(data)


def exists(path: str) -> bool:
    """Whether a file, or a local folder, is there."""
    input_roots.check(path)
    try:
        return bool(FileSystems.exists(path))
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{path}: cannot be looked for: {_reason(error)}") from error


def delete(path: str) -> None:
    """Deletes a file or a folder with all that is in it; nothing happens if it is not there.

    Raises:
      DataError: it cannot be deleted.
    """
    if is_object(path):
        _delete_objects(path)
    elif not is_local(path):
        if exists(path):
            with _explained(path, "deleted"):
                FileSystems.delete([path])
    else:
        _delete_local(path)


def _delete_local(path: str) -> None:
    """Deletes as ``delete``. Beam would take the name as a pattern, and delete its namesakes too."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            _remove_folder(path)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
    except OSError as error:
        raise DataError(
            f"{error.filename or path}: cannot be deleted: {error.strerror or error}. Check the folder and its permissions, "
            "or choose another --output."
        ) from error


def _remove_folder(path: str) -> None:
    """Removes a folder in which threads of a run that was interrupted may still make and rename files, for some moments."""
    for _ in range(_REMOVALS):
        try:
            return shutil.rmtree(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
        shutil.rmtree(path, ignore_errors=True)  # what can go goes, whatever is no longer where it was listed
        if not os.path.lexists(path):
            return None
        time.sleep(_REMOVAL_SECS)
    return shutil.rmtree(path)


def is_object(path: str) -> bool:
    """Whether a path lies in an object store, which knows no folders: what looks like one is the beginning of names."""
    return not is_local(path) and not FileSystems.get_filesystem(path).has_dirs()


def _escaped(path: str) -> str:
    """Returns the pattern of Beam's that one path in an object store matches, whatever brackets and stars are in it."""
    return re.sub(r"([*?[])", r"[\1]", path)


def _delete_objects(path: str) -> None:
    """Deletes the object of a name, if there is one, and all that would lie in a folder of that name."""
    try:
        if exists(path):
            FileSystems.delete([_as_deleted(path)])
        FileSystems.delete([join(path, "")])
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{path}: cannot be deleted: {_reason(error)}") from error
    left = list_files(join(_escaped(path), "**"))
    if left:  # which Beam only logs
        raise DataError(f"{left[0].path}: cannot be deleted. Check your permissions, or choose another --output.")


def _as_deleted(path: str) -> str:
    """Returns a path as Beam takes it for deleting: a pattern on Google's storage, and a name on S3."""
    return path if path.startswith("s3:") else _escaped(path)


def _by_connections(work: Callable[[Sequence[T]], object], items: Sequence[T]) -> None:
    """Does work on all items, some of them at a time by each of several connections."""
    size = max(1, min(_RENAMED_FILES, len(items) // _CONNECTIONS))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(_CONNECTIONS) as executor:
        for _ in executor.map(work, parts):
            pass


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
        # What an object store is given appears when it is closed, complete or not: so it gets nothing before it is complete.
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with open_write(path) as remote:
                shutil.copyfileobj(file, remote, _READ_BYTES)
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
    """Returns a path as seen from a directory: URLs and local paths from the root stay what they are.

    A storage takes ``..`` for a name like any other, so it is resolved here.
    """
    if is_absolute(path) or not directory:
        return path
    if is_local(directory):
        return join(directory, path)
    scheme, _, folder = directory.partition("://")
    return f"{scheme}://{posixpath.normpath(posixpath.join(folder, path))}"


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
    objects = [pair for pair in pairs if is_object(pair[1])]
    _rename_objects(objects)
    todo = [(source, target) for source, target in pairs if not is_object(target) and exists(source)]
    for source, target in todo:
        if is_local(target):
            with _explained(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(source, target)
        else:
            delete(target)
    remote = [pair for pair in todo if not is_local(pair[1])]
    if remote:
        with _explained(remote[0][1]):
            FileSystems.rename([source for source, _ in remote], [target for _, target in remote])


def _rename_objects(pairs: Sequence[tuple[str, str]]) -> None:
    """Renames what is there. Object stores copy, over whatever was there, and then delete."""
    if not pairs:
        return
    folder = os.path.commonprefix([source for source, _ in pairs])  # noqa: RUF071 - names begin with it, whole or not
    there = {listed.path for listed in list_files(f"{_escaped(folder)}**")}
    todo = [(source, target) for source, target in pairs if source in there]
    try:
        _by_connections(
            lambda some: FileSystems.rename([source for source, _ in some], [target for _, target in some]), todo
        )
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{todo[0][1]} and {len(todo) - 1} more: cannot be written: {_reason(error)}") from error


def name_of(path: str) -> str:
    """Returns the last component of a path."""
    return str(FileSystems.split(path.rstrip("/"))[1])


def is_file(path: str) -> bool:
    """Whether a local path is a file."""
    return os.path.isfile(path)


def modified_secs(paths: Iterable[str]) -> dict[str, float]:
    """Returns for each file when it was last written, in seconds since 1970. Raises DataError if one is gone."""
    paths = list(paths)
    with ThreadPoolExecutor(_CONNECTIONS) as executor:  # a storage takes its time for each
        return dict(zip(paths, executor.map(_modified_secs, paths), strict=True))


def _modified_secs(path: str) -> float:
    try:
        return os.path.getmtime(path) if is_local(path) else float(FileSystems.last_updated(path))
    except Exception as error:  # Beam wraps whatever the storage raised in exceptions of several kinds
        raise DataError(f"{path}: the file was there when the run started, and is gone: {error}") from error


def size_and_crc32c(path: str) -> tuple[int, int]:
    """Reads a whole file and returns its size in bytes and its CRC-32C."""
    size = crc = 0
    with open_read(path) as file, reading(path):
        while data := file.read(_READ_BYTES):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc


def folder_fingerprint(folder: str) -> str:
    """Reads all files in a folder and below, and returns a fingerprint of their names and contents."""
    digest = hashlib.sha256()
    for file in list_files(join(folder, "**")):
        size, crc = size_and_crc32c(file.path)
        digest.update(f"{relative(file.path, folder)}:{size}:{crc:08x}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def content_checksum(path: str) -> str:
    """Returns what changes when the content of a file does, and not when the file is only written again.

    Of a local file that is its CRC-32C, for which it is read; of a remote one the checksum that the storage keeps.

    Raises:
      DataError: the file cannot be read.
    """
    kept = "" if is_local(path) else _kept_checksum(path)
    size, crc32c = (0, 0) if kept else size_and_crc32c(path)
    return kept or f"{size}-{crc32c:08x}"


def _kept_checksum(path: str) -> str:
    """Returns the checksum that a remote storage keeps of a file: a CRC-32C, an ETag or the like; empty if it keeps none."""
    try:
        return str(FileSystems.checksum(path) or "")
    except Exception:  # noqa: BLE001 - Beam wraps whatever the storage raised; reading the file will tell what is wrong
        return ""
