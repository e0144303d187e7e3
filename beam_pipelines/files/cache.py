"""Reads ranges of remote shards, and keeps their extents on a disk.

All processes of a machine may share it, and its bytes are bounded. Each extent, which is
neighbouring parts, is a file. It is written under another name and renamed, so a reader finds all
of it or nothing, whatever is killed. A process that wants one waits for another one that fetches
it; the locks are the system's, which a kill releases.

Trainings read a dataset in cycles, in which the extent that was not used for longest is the next
one needed. So extents of a dataset never replace others of the same one: those that fit stay, and
the others are fetched in each epoch. They replace those of datasets that were opened earlier.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from isal import isal_zlib

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process import file_locks
from beam_pipelines.files import stores

# A folder of files that are written or waited for, in that of a dataset.
_UNFINISHED = "unfinished"
# A file whose time is that of the dataset's last opening.
_OPENED = "opened"
# The file with the number of bytes in the cache.
_SIZE, _DIGITS = "size", 20
# Behind each extent: its CRC-32, as a machine that lost its power may have lost the bytes before.
_CRC_BYTES = 4

Fetch = Callable[[], bytes]


class Cache:
    """The extents of one dataset in a cache."""

    def __init__(self, folder: str, most_bytes: int, dataset: str) -> None:
        """Makes the folder, and notes that the dataset is opened.

        Args:
          folder: of the cache, on this machine; several datasets may share it.
          most_bytes: of all extents in it.
          dataset: name of the dataset; other contents have another name.

        Raises:
          DataError: the folder cannot be written to.
        """
        self._root, self._most, self._name = os.path.abspath(folder), most_bytes, dataset
        self._folder = os.path.join(self._root, dataset)
        self._unfinished = os.path.join(self._folder, _UNFINISHED)
        try:
            os.makedirs(self._unfinished, exist_ok=True)
            with open(os.path.join(self._folder, _OPENED), "wb"):
                os.utime(os.path.join(self._folder, _OPENED))
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be written to ({error.strerror}). Give 'cache' another folder."
            ) from error
        self._is_full = False
        for name in os.listdir(self._unfinished):  # of killed processes
            with _locked(os.path.join(self._unfinished, name), waits=False) as file:
                if file is not None:
                    _remove(os.path.join(self._unfinished, name))

    def get(self, path: str, offset: int, size: int, fetch: Fetch) -> bytes | None:
        """Returns an extent, from the cache or fetched.

        ``None``: the cache is full without it.

        Args:
          path: of the shard in its dataset.
          offset, size: of the extent.
          fetch: reads the extent from the shard.
        """
        name = f"{urllib.parse.quote(path, safe='')}@{offset}"
        kept, unfinished = (os.path.join(one, name) for one in (self._folder, self._unfinished))
        found = _content(kept, size)
        if found is not None or self._is_full:
            return found
        with _locked(unfinished) as file:
            if file is None:
                return fetch()
            is_kept = False
            try:
                found = _content(kept, size)  # another process may have been first
                if found is None:
                    found = fetch()
                    is_kept = self._keep(file, found, unfinished, kept)
            finally:
                if not is_kept:
                    _remove(unfinished)
        return found

    def _keep(self, file: int, content: bytes, unfinished: str, kept: str) -> bool:
        """Stores an extent if there is room; returns whether it did."""
        stored = len(content) + _CRC_BYTES
        try:
            with _locked(os.path.join(self._root, _SIZE)) as counter:
                if counter is None:
                    return False
                text = os.pread(counter, _DIGITS, 0).strip()
                total = int(text) if text.isdigit() else sum(self._sizes().values())
                if total + stored > self._most:
                    total = self._make_room(stored)
                self._is_full = total + stored > self._most
                if not self._is_full:
                    with open(file, "wb", closefd=False) as whole:
                        whole.truncate(0)
                        whole.write(content)
                        whole.write(isal_zlib.crc32(content).to_bytes(_CRC_BYTES, "little"))
                    total += stored
                # Counted before: after a kill the number is too large, never too small.
                os.pwrite(counter, f"{total:{_DIGITS}}".encode(), 0)
                if not self._is_full:
                    os.rename(unfinished, kept)
        except OSError:  # such as a full disk: the batches do not depend on the cache
            return False
        return not self._is_full

    def _sizes(self) -> dict[str, int]:
        """Returns the bytes of each dataset's extents."""
        folders = [entry for entry in os.scandir(self._root) if entry.is_dir()]
        return {folder.name: _folder_size(folder.path) for folder in folders}

    def _make_room(self, wanted: int) -> int:
        """Removes datasets that were opened before this one, the earliest first.

        Returns the bytes that are left.
        """
        sizes = self._sizes()
        opened = {name: _opened(os.path.join(self._root, name)) for name in sizes}
        left = sum(sizes.values())
        for name in sorted(sizes, key=lambda name: opened[name]):
            if left + wanted <= self._most or opened[name] >= opened.get(self._name, 0):
                break
            shutil.rmtree(os.path.join(self._root, name), ignore_errors=True)
            left -= sizes[name]
        return left


@contextlib.contextmanager
def _locked(path: str, waits: bool = True) -> Iterator[int | None]:
    """Yields a file's descriptor, locked.

    Makes the file. Yields ``None`` if it cannot be made, or is locked and ``waits`` is false.
    """
    file = _lock(path, waits)
    try:
        yield file
    finally:
        if file is not None:
            file_locks.close(file)


def _lock(path: str, waits: bool) -> int | None:
    while True:
        try:
            file = file_locks.open_unshared(path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file_locks.close(file)
            return None
        if _is_at(file, path):
            return file
        file_locks.close(file)  # the process before renamed or removed it


def _is_at(file: int, path: str) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # another process may have been first
        os.unlink(path)


def _content(path: str, size: int) -> bytes | None:
    """Returns an extent that is kept, or ``None``."""
    try:
        with open(path, "rb", buffering=0) as file:
            found = os.pread(file.fileno(), size + _CRC_BYTES, 0)
    except OSError:
        return None
    content, crc = found[:size], found[size:]
    is_whole = isal_zlib.crc32(content).to_bytes(_CRC_BYTES, "little") == crc
    return content if is_whole else None


def _folder_size(folder: str) -> int:
    """Returns the bytes of a dataset's extents."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    except FileNotFoundError:  # another process removed it
        return 0


def _opened(folder: str) -> float:
    """Returns when a dataset was opened; 0 if it was removed."""
    try:
        return os.stat(os.path.join(folder, _OPENED)).st_mtime
    except OSError:
        return 0


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
