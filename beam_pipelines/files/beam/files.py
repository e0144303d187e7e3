"""Finds, reads and writes files by path or URL, through Beam's filesystems."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, S3Options

from beam_pipelines.core import events
from beam_pipelines.core.errors import DataError, PipelineError, keep_secret
from beam_pipelines.core.limits import MIB
from beam_pipelines.core.process import regular_files
from beam_pipelines.core.process.signals import has_raised
from beam_pipelines.files import stores
from beam_pipelines.files.beam import (
    cloud_access,
    http_files,  # noqa: F401 - a filesystem of Beam, which finds it as a subclass
    input_roots,
    zip_members,
)
from beam_pipelines.files.beam.path_patterns import nearest_file

_READ_BYTES = 4 << 20
# A recipe, a schema or a module is read whole. The largest real schemas have a few megabytes.
MAX_DOCUMENT_BYTES = 64 * MIB
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


cloud_access.share_s3_clients()
events.log_retries()


def use_options(arguments: Sequence[str]) -> None:
    """Applies Beam's options, such as ``--s3_endpoint_url``, outside of a pipeline.

    Workers use the options of their job and never call this.
    """
    options = PipelineOptions(list(arguments))
    s3 = options.view_as(S3Options)
    for secret in (s3.s3_secret_access_key, s3.s3_session_token):
        keep_secret(secret or "")
    FileSystems.set_options(options)
    # For datasets, which are opened without Beam.
    stores.use(cloud_access.access_of(options))


def join(folder: str, *names: str) -> str:
    """Joins path components with the separator of the folder's filesystem.

    Raises:
      DataError: there is no such filesystem.
    """
    try:
        return str(FileSystems.join(folder, *names))
    except Exception as error:
        if is_local(folder):
            raise
        raise DataError(f"{folder}: {reason(error)}") from error


def within(folder: str, path: str) -> str:
    """Joins a folder and a relative path with ``/`` between its names."""
    return join(folder, *path.split("/"))


def open_read(path: str) -> BinaryIO:
    """Opens a file for reading, seekable, without decompressing it.

    A path such as ``data.zip/a.csv`` opens a file in an archive.

    Raises:
      DataError: it cannot be opened, or is no regular file.
    """
    input_roots.check(path)
    if member := zip_members.member_path(path):
        return zip_members.open_member(path, member, open_read)
    try:
        if is_local(path):
            return regular_files.open_read(path)
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]
    except Exception as error:
        if is_local(path) and not isinstance(error, (OSError, ValueError)):
            raise
        if isinstance(error, FileNotFoundError):
            raise DataError(f"{path}: there is no such file.{nearest_file(path)}") from error
        why = getattr(error, "strerror", None) or reason(error)
        raise DataError(f"{path}: cannot be opened: {why}") from error


def make_folder(path: str) -> None:
    """Makes a local folder and its parents, if they do not exist.

    Raises:
      DataError: it cannot be made.
    """
    with explained(path):
        _make_folder(path)


def _make_folder(path: str) -> None:
    """Makes a folder, but not for a thread of an interrupted run.

    The thread would make it again after the removal of temporary files.
    """
    if has_raised() and threading.current_thread() is not threading.main_thread():
        raise DataError(f"{path}: not made, as the run was interrupted.")
    os.makedirs(path, exist_ok=True)


@contextlib.contextmanager
def open_write(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing, without compression; makes local parent folders.

    Raises:
      DataError: the file cannot be written, because of the path, a permission, or a full disk.
    """
    with explained(path):
        if is_local(path):
            _make_folder(os.path.dirname(path) or ".")
        with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file


def reason(error: Exception) -> str:
    """Returns a storage's message without Beam's wrapping, or the package to install."""
    details = getattr(error, "exception_details", None)
    if isinstance(details, dict) and details:
        return reason(next(iter(details.values())))
    if isinstance(getattr(error, "message", None), str):
        return str(error.message)  # type: ignore[attr-defined]
    if "AWS dependencies are not installed" in str(error):
        return "paths on S3 need another package. Install it: pip install '.[s3]' in a clone"
    if str(error).startswith("Unable to get filesystem"):
        return (
            "found an address of a kind that is not known here, expected a path, gs://, s3:// or "
            "https://; or azfs:// and hdfs:// with apache-beam[azure] and apache-beam[hadoop]"
        )
    return str(error) or type(error).__name__


@contextlib.contextmanager
def explained(path: str, done: str = "written") -> Iterator[None]:
    """Turns system and storage errors into a ``DataError`` with a cure."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in _FULL
        cure = "Make room on the disk" if is_full else "Check the folder and its permissions"
        raise DataError(
            f"{path}: cannot be {done}: "
            f"{error.strerror or reason(error)}{_free_space(path, error)}. {cure}, or choose "
            "another --output."
        ) from error
    except Exception as error:
        if is_local(path) or isinstance(error, PipelineError):
            raise
        raise DataError(
            f"{path}: cannot be {done}: {reason(error)}. Check the bucket and your permissions, or "
            "choose another --output."
        ) from error


def _free_space(path: str, error: OSError) -> str:
    """Returns the free space of a full disk, for a message.

    Returns ``""`` otherwise.
    """
    if error.errno != errno.ENOSPC or not is_local(path):
        return ""
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return f", with {shutil.disk_usage(folder).free:,} bytes free"


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns read errors into a ``DataError`` that names the file."""
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


def read_at_most(path: str, most_bytes: int) -> bytes | None:
    """Returns a whole file, or ``None`` if it is too large.

    The size that a file was listed with may be another than that of its content.
    """
    pieces, size = [], 0
    with open_read(path) as file, reading(path):
        while piece := file.read(MIB):
            size += len(piece)
            if size > most_bytes:
                return None
            pieces.append(piece)
    return b"".join(pieces)


def read_document(path: str) -> bytes:
    """Returns a recipe, a schema or a module.

    Raises:
      DataError: it cannot be read, or has more than ``MAX_DOCUMENT_BYTES``.
    """
    data = read_at_most(path, MAX_DOCUMENT_BYTES)
    if data is None:
        raise DataError(
            f"{path}: found more than {MAX_DOCUMENT_BYTES:,} bytes, expected at most as many of a "
            "recipe, a schema or a module. Check the path."
        )
    return data


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file, which replaces another once it is complete."""
    with replace(path) as file:
        file.write(data)


def exists(path: str) -> bool:
    """Whether a file, or a local folder, exists."""
    input_roots.check(path)
    try:
        return bool(FileSystems.exists(path))
    except Exception as error:  # Beam wraps the storage's errors in several classes
        details: dict[str, Exception] = getattr(error, "exception_details", {})
        if getattr(details.get(path), "code", 0) == 404:  # of Azure (Beam 2.77)
            return False
        raise DataError(f"{path}: cannot be looked for: {reason(error)}") from error


def is_local(path: str) -> bool:
    """Whether a path is on this machine's filesystem."""
    return FileSystems.get_scheme(path) is None


def is_object(path: str) -> bool:
    """Whether a path is in an object store.

    A folder there is only a prefix of names.
    """
    return not is_local(path) and not FileSystems.get_filesystem(path).has_dirs()


@contextlib.contextmanager
def replace(path: str) -> Iterator[BinaryIO]:
    """Opens a file that replaces ``path`` only once it is complete.

    The file is opened for writing.

    Raises:
      DataError: as ``open_write``.
    """
    if not is_local(path):
        # An object appears when its file is closed, complete or not, so it is written at the end.
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with open_write(path) as remote:
                shutil.copyfileobj(file, remote, _READ_BYTES)
        return
    part = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        with explained(path):
            _make_folder(os.path.dirname(path) or ".")
            with open(part, "wb") as file:
                yield file
            os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def resolve(path: str, directory: str) -> str:
    """Returns a path relative to a directory as one that opens.

    Absolute paths stay. A storage takes ``..`` for an ordinary name, so it is resolved here.
    """
    if is_absolute(path) or not directory:
        return path
    if is_local(directory):
        return join(directory, path)
    scheme, _, folder = directory.partition("://")
    return f"{scheme}://{posixpath.normpath(posixpath.join(folder, path))}"


def is_absolute(path: str) -> bool:
    """Whether a path is a URL or an absolute local path."""
    return not is_local(path) or os.path.isabs(path)


def relative(path: str, folder: str) -> str:
    """Returns a file's path relative to a folder above it.

    Names are separated by ``/``.
    """
    return path[len(folder.rstrip("/")) :].replace(os.sep, "/").lstrip("/")


def absolute(path: str) -> str:
    """Returns the absolute path; URLs stay."""
    return os.path.abspath(path) if is_local(path) else path


def shown(path: str) -> str:
    """Returns a path from the working directory if that is shorter."""
    if not is_local(path) or not os.path.isabs(path):
        return path
    return min(path, os.path.relpath(path), key=len)


def name_of(path: str) -> str:
    """Returns the last component of a path."""
    return posixpath.basename(path.rstrip("/"))
