"""A Beam filesystem that fails, or stalls, at the n-th operation.

Operations are open, read, write, close, rename, delete and listing. ``faulty:///some/path`` is the
local ``/some/path``. Operations are counted over all processes of a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

SCHEME = "faulty"
_BEGIN = f"{SCHEME}://"
OPERATIONS = ("open", "read", "create", "write", "close", "rename", "delete", "list")
SAID = "the storage has a bad day"

_faults: list[dict[str, Any]] = []


def use(faults: list[dict[str, Any]]) -> None:
    """Installs faults in this process and its forks.

    The keys of a fault are: ``operation``; ``number`` of the first that is hit, from 0; ``times``,
    how many are hit; ``stall_secs``, for how long they stall (0: they fail); ``counter``, a file.
    """
    _faults[:] = faults


def _meet(operation: str, path: str) -> None:
    """Fails or stalls, if it is this operation's turn."""
    from tests.faults.injected import count

    for fault in _faults:
        if fault["operation"] == operation:
            number = count(fault["counter"]) - fault["number"]
            if 0 <= number < fault["times"]:
                if not fault["stall_secs"]:
                    raise OSError(f"{SAID} ({operation})")
                time.sleep(fault["stall_secs"])


class _File:
    """A local file whose reads, writes and closing are counted.

    It forwards everything else to the file.
    """

    def __init__(self, file: Any, path: str) -> None:
        self._file, self._path = file, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)

    def read(self, size: int = -1) -> bytes:
        """Reads, or fails."""
        _meet("read", self._path)
        return self._file.read(size)

    def write(self, data: Any) -> int:
        """Writes, or fails."""
        _meet("write", self._path)
        return self._file.write(data)

    def close(self) -> None:
        """Closes; a storage may say only then that it has not written."""
        if self._file.closed:
            return
        writes = self._file.writable()
        self._file.close()
        if writes:
            _meet("close", self._path)


def _local(path: str) -> str:
    return path.removeprefix(_BEGIN)


def _remote(path: str) -> str:
    return _BEGIN + path


class FaultyFileSystem(LocalFileSystem):
    """See the module."""

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def _url_dirname(self, url_or_path: str) -> str:
        return _remote(os.path.dirname(_local(url_or_path)))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        _meet("list", dir_or_prefix)
        for found in super()._list(_local(dir_or_prefix)):
            yield FileMetadata(
                _remote(found.path), found.size_in_bytes, found.last_updated_in_seconds
            )

    def mkdirs(self, path: str) -> None:
        super().mkdirs(_local(path))

    def create(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,  # noqa: ARG002 - ours are never compressed by Beam
    ) -> Any:
        _meet("create", path)
        return _File(super().create(_local(path), mime_type, CompressionTypes.UNCOMPRESSED), path)

    def open(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,  # noqa: ARG002 - ours are never compressed by Beam
    ) -> Any:
        _meet("open", path)
        return _File(super().open(_local(path), mime_type, CompressionTypes.UNCOMPRESSED), path)

    def exists(self, path: str) -> bool:
        return os.path.exists(_local(path))

    def size(self, path: str) -> int:
        return _asked(lambda: os.path.getsize(_local(path)), path)

    def last_updated(self, path: str) -> float:
        return _asked(lambda: os.path.getmtime(_local(path)), path)

    def checksum(self, path: str) -> str:
        return str(self.size(path))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        super().copy([*map(_local, source_file_names)], [*map(_local, destination_file_names)])

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        failed = {}
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            try:
                _meet("rename", source)
                os.makedirs(os.path.dirname(_local(target)), exist_ok=True)
                os.replace(_local(source), _local(target))
            except OSError as error:
                failed[source, target] = error
        if failed:
            raise BeamIOError("Rename operation failed", failed)

    def delete(self, paths: list[str]) -> None:
        failed = {}
        for path in paths:
            try:
                _meet("delete", path)
                super().delete([_local(path)])
            except (OSError, BeamIOError) as error:
                failed[path] = error
        if failed:
            raise BeamIOError("Delete operation failed", failed)


def _asked(ask: Callable[[], Any], path: str) -> Any:
    try:
        return ask()
    except OSError as error:
        raise BeamIOError("Metadata operation failed", {path: error}) from error
