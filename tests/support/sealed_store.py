"""A storage whose URLs carry credentials and that opens nothing without them.

A URL is ``sealed://user:password@host/path?token=…``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from apache_beam.io.filesystem import FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems

SCHEME = "sealed"
PASSWORD = "sentinel-pass-55d1"  # noqa: S105
TOKEN = "sentinel-token-8a3e"  # noqa: S105
URL = f"{SCHEME}://reader:{PASSWORD}@host"
# The folder of the files.
folder = ""


class SealedFileSystem(FileSystem):
    """Files of a local folder that open with credentials only.

    A URL needs the password in front and the token at the end.
    """

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        os.makedirs(self._local(path), exist_ok=True)

    def has_dirs(self) -> bool:
        return True

    def _local(self, url: str) -> str:
        path, _, query = url.partition("?")
        if not path.startswith(f"{URL}/") or query != f"token={TOKEN}":
            raise PermissionError(f"{url}: who are you?")
        return os.path.join(folder, path[len(URL) + 1 :])

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        raise NotImplementedError

    def match(self, patterns: list[str], limits: Any = None) -> list[Any]:  # noqa: ARG002
        found = []
        for pattern in patterns:
            # A question mark is a wildcard to Beam, and the beginning of the token here.
            paths = [pattern] if os.path.exists(self._local(pattern)) else []
            files = [FileMetadata(path, self.size(path), self.last_updated(path)) for path in paths]
            found.append(type("MatchResult", (), {"pattern": pattern, "metadata_list": files})())
        return found

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> BinaryIO:  # noqa: ARG002
        return open(self._local(path), "wb")

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> BinaryIO:  # noqa: ARG002
        return open(self._local(path), "rb")

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        return os.path.exists(self._local(path))

    def size(self, path: str) -> int:
        return os.path.getsize(self._local(path))

    def last_updated(self, path: str) -> float:
        return os.path.getmtime(self._local(path))

    def checksum(self, path: str) -> str:  # noqa: ARG002
        return ""

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            os.unlink(self._local(path))


def url(name: str) -> str:
    """Returns the URL that opens a file."""
    return f"{URL}/{name}?token={TOKEN}"


def is_known() -> bool:
    """Whether Beam knows the storage.

    Beam knows it once this module is imported.
    """
    return isinstance(FileSystems.get_filesystem(f"{URL}/a"), SealedFileSystem)
