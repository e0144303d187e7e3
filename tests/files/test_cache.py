"""A cache is bounded, shared, and clean after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.cache import Cache


def parts(root: Path) -> list[Path]:
    """Returns the files of parts that are kept."""
    return [path for path in root.rglob("*@*") if path.parent.name != "unfinished"]


def size(root: Path) -> int:
    """Returns the bytes of all files that hold bytes of parts."""
    return sum(path.stat().st_size for path in root.rglob("*@*"))


def fill(cache: Cache, count: int, number_bytes: int = 1000) -> int:
    """Reads parts of a shard; returns how many were fetched."""
    fetched = []
    for number in range(count):
        content = bytes([number]) * number_bytes

        def fetch(content: bytes = content) -> bytes:
            fetched.append(content)
            return content

        found = cache.get("a/shard", number, number_bytes, fetch)
        assert (fetch() if found is None else found) == content
    return len(fetched)


def test_a_part_is_fetched_once(tmp_path):
    """A part that is kept is not fetched again."""
    cache = Cache(str(tmp_path), 1 << 20, "one")
    assert fill(cache, 10) == 10
    assert fill(cache, 10) == fill(Cache(str(tmp_path), 1 << 20, "one"), 10) == 0
    assert fill(Cache(str(tmp_path), 1 << 20, "two"), 10) == 10


def test_parts_that_do_not_fit_replace_none(tmp_path):
    """The cache is never larger than its bound; parts that fit stay."""
    cache = Cache(str(tmp_path), 5 * 1004 + 3, "one")
    assert [fill(cache, 20) for _ in range(3)] == [20, 15, 15]
    assert size(tmp_path) == 5 * 1004
    assert fill(Cache(str(tmp_path), 5 * 1004 + 3, "one"), 20) == 15
    assert list((tmp_path / "one" / "unfinished").iterdir()) == []


def test_datasets_that_were_opened_before_make_room(tmp_path):
    """The dataset that was opened earliest goes first, the later one stays."""
    caches = {}
    for time, name in enumerate(("a", "b", "c")):
        caches[name] = Cache(str(tmp_path), 10_040, name)
        os.utime(tmp_path / name / "opened", (time + 1, time + 1))
        if name != "c":
            assert fill(caches[name], 4) == 4
    assert fill(caches["c"], 6) == 6
    assert size(tmp_path) <= 10_040
    assert not (tmp_path / "a").exists()
    assert fill(caches["b"], 4) == 0
    assert fill(caches["a"], 4) == 4  # its folder is gone: nothing is kept, and nothing fails
    os.utime(tmp_path / "b" / "opened", (9, 9))
    assert fill(caches["b"], 9) == 5
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"\0" * len(data)])
def test_a_damaged_part_is_fetched_again(tmp_path, damage):
    """A part that lost bytes with the machine's power is not believed."""
    cache = Cache(str(tmp_path), 1 << 20, "one")
    fill(cache, 3)
    (path,) = (path for path in parts(tmp_path) if path.name.endswith("@1"))
    path.write_bytes(damage(path.read_bytes()))
    assert fill(cache, 3) == 1
    assert fill(cache, 3) == 0


def test_threads_fetch_a_part_once(tmp_path):
    """Threads that want the same part wait for the first one."""
    fetched, cache = [], Cache(str(tmp_path), 1 << 20, "one")
    is_waiting = threading.Event()

    def fetch() -> bytes:
        fetched.append(1)
        is_waiting.wait()
        return b"x" * 9

    def read() -> None:
        assert cache.get("shard", 0, 9, fetch) == b"x" * 9

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    is_waiting.set()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1


def test_a_failed_fetch_leaves_nothing(tmp_path):
    """A failure is the caller's; the next one fetches."""
    cache = Cache(str(tmp_path), 1 << 20, "one")

    def fail() -> bytes:
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        cache.get("shard", 0, 9, fail)
    assert list((tmp_path / "one" / "unfinished").iterdir()) == []
    assert cache.get("shard", 0, 9, lambda: b"x" * 9) == b"x" * 9


def test_a_kill_leaves_the_cache_clean(tmp_path):
    """A process that is killed within its work hinders no other one.

    It is killed while it holds the lock of a part, and twice while it holds that of the size.
    """
    code = """
import os, signal, sys, types
from beam_pipelines.files import cache
kept = cache.Cache(sys.argv[1], 1 << 20, "one")
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def fetch():
    if sys.argv[2] == "fetch":
        kill()
    return bytes(1000)
if sys.argv[2] == "write":
    cache.isal_zlib = types.SimpleNamespace(crc32=kill)
os.rename = kill
kept.get("a/shard", 0, 1000, fetch)
"""
    for moment in ("fetch", "write", "rename"):
        done = subprocess.run([sys.executable, "-c", code, tmp_path, moment], check=False)
        assert done.returncode == -signal.SIGKILL
        assert parts(tmp_path) == []
        assert len(list((tmp_path / "one" / "unfinished").iterdir())) == 1
    cache = Cache(str(tmp_path), 3 * 1004, "one")
    assert list((tmp_path / "one" / "unfinished").iterdir()) == []
    assert [fill(cache, 4), fill(cache, 4)] == [4, 1]
    assert size(tmp_path) == 3 * 1004


def test_a_folder_that_cannot_be_written_to(tmp_path):
    """A cache that cannot be made is an error with its folder."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"file: cannot be written to .* Give 'cache' another"):
        Cache(str(tmp_path / "file"), 1 << 20, "one")
