"""The folder of a dataset, also of a remote one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.process import full_package, regular_files

if TYPE_CHECKING:
    from beam_pipelines.remote.shards import RemoteShards

# Bytes of a cache, unless others are asked for.
CACHE_BYTES = 16 << 30
# Hexadecimal digits of a dataset's name in a cache.
_NAME_DIGITS = 32


class Folder(NamedTuple):
    """A dataset's folder, and where parts of a remote one are kept.

    Attributes:
      path: of the folder, or its URL.
      cache: a folder on this machine, or ``None``.
      cache_bytes: of all parts in the cache.
    """

    path: str
    cache: str | None = None
    cache_bytes: int = 0

    def __repr__(self) -> str:
        return f"Folder({mask(self.path)!r}, {self.cache!r}, {self.cache_bytes})"

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL."""
        return "://" in self.path

    def join(self, path: str) -> str:
        """Returns the path or URL of a file in it."""
        if self.is_remote:
            return f"{self.path.rstrip('/')}/{path}"
        return os.path.join(self.path, *path.split("/"))

    def find(self, path: str) -> bytes | None:
        """Returns a file, or ``None`` if there is none.

        Raises:
          DataError: it cannot be read.
        """
        full = self.join(path)
        try:
            if self.is_remote:
                return _get(full)
            with regular_files.open_read(full) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataError(f"{full}: cannot be read ({error.strerror}).") from error

    def read(self, path: str) -> bytes:
        """Returns a file.

        Raises:
          DataError: it is not there, or cannot be read.
        """
        found = self.find(path)
        if found is not None:
            return found
        if path != MANIFEST:
            raise DataError(f"{self.join(path)}: found no file. Copy the dataset again.")
        raise DataError(
            f"{self.path}: found no {MANIFEST}, so there is no dataset, or none that was finished."
        )

    def shards(self, manifest: bytes) -> RemoteShards | None:
        """Returns the reader of remote shards; ``None``: they are on this machine.

        Args:
          manifest: the content of ``dataset.json``, which another dataset at the URL has not.
        """
        if not self.is_remote:
            return None
        import hashlib

        from beam_pipelines.remote.cache import Cache
        from beam_pipelines.remote.shards import RemoteShards

        if self.cache is None:
            return RemoteShards(self.path, None)
        name = hashlib.sha256(self.path.encode() + b"\0" + manifest).hexdigest()[:_NAME_DIGITS]
        return RemoteShards(self.path, Cache(self.cache, self.cache_bytes, name))


def _get(url: str) -> bytes:
    """Returns a remote file: of other schemes, such as ``hdfs://``, by Beam.

    Raises:
      FileNotFoundError: there is none.
      DataError: it cannot be read.
      ImportError: the full package is not installed.
    """
    from beam_pipelines.remote import stores  # takes 5 ms, which local readers spare

    if url.partition("://")[0] in stores.SCHEMES:
        return stores.get(url)
    files = full_package.import_module("storage.files", "bp.open of such a URL")
    if not files.exists(url):
        raise FileNotFoundError(url)
    content: bytes = files.read_bytes(url)
    return content
