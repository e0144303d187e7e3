"""Reads ranges of remote shards, perhaps through a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from beam_pipelines.remote import stores
from beam_pipelines.remote.cache import Cache


class RemoteShards(NamedTuple):
    """The shards below a URL.

    Attributes:
      folder: URL of the dataset.
      cache: keeps extents; ``None``: none are.
    """

    folder: str
    cache: Cache | None

    def read(
        self, url: str, wanted: range, extent: range, check_size: Callable[[int | None], None]
    ) -> bytes:
        """Returns neighbouring bytes of a shard.

        Args:
          url: of the shard.
          wanted: the bytes.
          extent: the bytes around them that a cache keeps together.
          check_size: is called with the size of the shard, or ``None`` if there is no such file;
            not if the extent is in the cache.

        Raises:
          DataError: the shard cannot be read.
        """

        def fetch(place: range) -> bytes:
            try:
                found = stores.read(url, place.start, len(place))
            except FileNotFoundError:
                check_size(None)
                raise
            check_size(found.size)
            return found.content

        if self.cache is not None:
            path = url[len(self.folder) :].lstrip("/")
            kept = self.cache.get(path, extent.start, len(extent), lambda: fetch(extent))
            if kept is not None:
                return kept[wanted.start - extent.start : wanted.stop - extent.start]
        return fetch(wanted)
