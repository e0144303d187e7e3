"""Readers, encoders and caches are used on in forks; ``test_forks.py`` runs it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.reader.reader import Reader
from tests.reader.indexed import finish
from tests.support.small_dataset import write_dataset
from tests.support.web_server import served

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")

FORKS = multiprocessing.get_context("fork") if sys.platform != "win32" else None
SHARDS = [90, 0, 110, 1, 99, 100]
WAIT_SECS = 120


def _answer(call: Callable[[], Any], connection: Connection) -> None:
    try:
        connection.send(call())
    except Exception as error:  # noqa: BLE001 - the test compares it
        connection.send(repr(error))


def in_fork(call: Callable[[], Any]) -> Any:
    """Returns what a function returns in a fork, or its error."""
    assert FORKS is not None
    ours, theirs = FORKS.Pipe(duplex=False)
    fork = FORKS.Process(target=_answer, args=(call, theirs))
    fork.start()
    try:
        assert ours.poll(WAIT_SECS), "the fork hangs"
        found = ours.recv()
        fork.join(WAIT_SECS)
        assert fork.exitcode == 0, "the fork does not end"
    finally:
        fork.kill()
        fork.join()
    return found


def _ids(batch: Any) -> list[int]:
    found: list[int] = batch["id"].tolist()
    return found


def ids(reader: Reader) -> list[list[int]]:
    """Returns the ids of the rest of a pass."""
    return [_ids(batch) for batch in reader]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of 400 rows with an index."""
    return finish(write_dataset(tmp_path_factory.mktemp("forks") / "data", SHARDS))


@pytest.mark.parametrize("read", [0, 1, 5])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_reader_in_a_fork(folder: str, read: int, shuffle: bool) -> None:
    """A fork goes on at the reader's place, as its parent does."""
    expected = ids(bp.open(folder).batches("train", 8, shuffle=shuffle))
    with bp.open(folder).batches("train", 8, shuffle=shuffle) as reader:
        first = [next(reader)["id"].tolist() for _ in range(read)]
        rest = in_fork(lambda: ids(reader))
        one = in_fork(lambda: _ids(next(reader)))
        assert first + rest == first + ids(reader) == expected
        assert one == rest[0]


def test_what_else_a_fork_does_with_a_reader(folder: str) -> None:
    """States, places and numbered rows work in a fork."""
    with bp.open(folder).batches("train", 8) as reader:
        next(reader)
        state = reader.state_dict()
        calls: list[Callable[[], Any]] = [
            reader.state_dict,
            lambda: (reader.seek(7), next(reader)["id"].tolist())[1],
            lambda: (reader.load_state_dict(state), next(reader)["id"].tolist())[1],
            lambda: _ids(reader.take([3, 399])),
            lambda: (reader.close(), "closed")[1],
        ]
        in_forks = [in_fork(call) for call in calls]
        assert [call() for call in calls] == in_forks


def test_a_fork_of_a_fork(folder: str) -> None:
    """A reader goes on in a fork of a fork."""
    reader = bp.open(folder).batches("train", 8)
    next(reader)

    def read() -> list[Any]:
        second = next(reader)["id"].tolist()
        return [second, *ids_of_fork()]

    def ids_of_fork() -> list[list[int]]:
        found: list[list[int]] = in_fork(lambda: ids(reader))
        return found

    assert in_fork(read) == ids(reader)


def test_a_device_in_a_fork(folder: str) -> None:
    """A fork cannot use the CUDA device; the error has a remedy."""
    reader = bp.open(folder).batches("train", 8)
    reader._device = object()  # type: ignore[assignment] - only whether there is one matters
    assert "without a device" in in_fork(lambda: next(reader))


def test_rows_while_another_thread_reads(folder: str) -> None:
    """Forks during reads of other threads hang on no lock."""
    with bp.open(folder).batches("train", 8) as reader:
        expected = reader.take([5])["id"].tolist()
        ends = threading.Event()

        def read() -> None:
            while not ends.is_set():
                reader.take(range(0, 400, 40))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(5):
                assert in_fork(lambda: _ids(reader.take([5]))) == expected
        finally:
            ends.set()
            thread.join()


def test_a_lock_that_another_thread_holds() -> None:
    """A lock is free in a fork, not in its parent."""
    lock, is_held, ends = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            ends.wait()

    def take() -> str:
        with lock:
            return "taken"

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        assert in_fork(take) == "taken"
        assert not lock._lock.acquire(blocking=False)
    finally:
        ends.set()
        thread.join()
    assert take() == "taken"


def test_forks_while_a_cache_is_filled(folder: str, tmp_path: Path) -> None:
    """Forks that live on hold up no reader of the cache."""
    expected = ids(bp.open(folder).batches("train", 8))
    assert FORKS is not None
    sleepers = [FORKS.Process(target=signal.pause, daemon=True) for _ in range(10)]
    with served(Path(folder)) as web:
        cached, other = (
            bp.open(web.url, cache=tmp_path / "cache").batches("train", 8) for _ in range(2)
        )
        try:
            found = []
            for batch in cached:
                found.append(_ids(batch))
                if len(found) % 5 == 0:
                    sleepers[len(found) // 5 - 1].start()
            assert found == expected
            assert in_fork(lambda: ids(other)) == ids(other) == expected
        finally:
            for sleeper in sleepers:
                if sleeper.pid:
                    sleeper.kill()
                    sleeper.join()
