"""A fork keeps no lock of the process that it comes from."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest

from beam_pipelines.core.process import file_locks
from beam_pipelines.files.cache import Cache

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")


def _fork_that_waits() -> tuple[int, int]:
    """Forks; returns the process, and a descriptor whose end lets it go."""
    goes, stays = os.pipe()
    is_there, says = os.pipe()
    process = os.fork()
    if not process:
        os.close(stays)
        os.write(says, b".")
        os.read(goes, 1)
        os._exit(0)
    os.read(is_there, 1)
    for each in (goes, is_there, says):
        os.close(each)
    return process, stays


def test_a_fork_does_not_keep_a_lock(tmp_path: Path) -> None:
    """A lock ends with its holder while a fork of it lives."""
    path = str(tmp_path / "file")
    held = file_locks.open_unshared(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    process, stays = _fork_that_waits()
    try:
        file_locks.close(held)
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
    finally:
        os.close(stays)
        os.waitpid(process, 0)


def test_a_fork_during_a_fetch_blocks_no_other_fetch(tmp_path: Path) -> None:
    """An extent fetched during a fork is there for others at once."""
    cache, other = (Cache(str(tmp_path), 1 << 20, "dataset") for _ in range(2))
    forks: list[tuple[int, int]] = []

    def fetch() -> bytes:
        forks.append(_fork_that_waits())
        return b"content"

    def get(of: Cache) -> None:
        found.append(of.get("shard", 0, 7, fetch))

    found: list[bytes | None] = []
    try:
        get(cache)
        thread = threading.Thread(target=get, args=(other,), daemon=True)
        thread.start()
        thread.join(30)
        assert found == [b"content", b"content"]
        assert other.get("shard", 7, 7, lambda: b"another") == b"another"
    finally:
        for process, stays in forks:
            os.close(stays)
            os.waitpid(process, 0)
    assert len(forks) == 1


def test_a_fork_closes_nothing_twice(tmp_path: Path) -> None:
    """A fork that leaves a lock closes no file of its own."""
    held = file_locks.open_unshared(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    process = os.fork()
    if not process:
        own = os.open(os.devnull, os.O_RDONLY)  # has the number of the closed one
        file_locks.close(held)
        os.fstat(own)
        os._exit(0 if own == held else 1)
    file_locks.close(held)
    assert os.waitpid(process, 0)[1] == 0
