"""Reads parts of remote shards, perhaps through a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from beam_pipelines.remote import stores
from beam_pipelines.remote.cache import Cache


class RemoteShards(NamedTuple):
    """The shards below a URL.

    Attributes:
      folder: URL of the dataset.
      cache: keeps parts; ``None``: none are.
    """

    folder: str
    cache: Cache | None

    def read(
        self, url: str, offset: int, size: int, check_size: Callable[[int | None], None]
    ) -> bytes:
        """Returns a part.

        Args:
          url: of its shard.
          offset, size: of the part.
          check_size: is called with the size of the shard, or ``None`` if there is no such file;
            not if the part is in the cache.

        Raises:
          DataError: the shard cannot be read.
        """

        def fetch() -> bytes:
            try:
                found = stores.read(url, offset, size)
            except FileNotFoundError:
                check_size(None)
                raise
            check_size(found.size)
            return found.content

        if self.cache is None:
            return fetch()
        return self.cache.get(url[len(self.folder) :].lstrip("/"), offset, size, fetch)
