"""Forks worker processes off one that has imported everything.

A worker starts in 0.1 s, instead of 2 s. A worker spends 2 s of a core on imports, and holds 200 MB
of modules that it never changes. So the command line forks a server off itself after its imports,
and before it has threads or data. For each worker the launcher connects to the server; the server
forks, and the fork is the worker, on the same pages of memory. Workers are interpreters of their
own where our functions are called from a program that has threads of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import os
import random
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client, Connection
from typing import Any

from beam_pipelines.core.arrow import memory
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process.signals import SIGNALS
from beam_pipelines.runners.beam_patches import applied, drop_idle_bundle_processors, plain_pickles

# The address of a Unix socket has 108 bytes; the names of the temporary folder and the socket take
# a good 30 of them.
LONGEST_FOLDER = 70
# Prefix of the folders of commands, and the age from which an unlocked one is abandoned: a command
# locks its folder just after making it.
_FOLDER, _STALE_SECS = "beam-pipelines-run-", 60


@dataclasses.dataclass
class _State:
    """State of this process.

    Attributes:
      may_fork: whether this is the process of the command line.
      is_interrupted: whether a signal came while a server was running.
      address: of the server's socket; empty without a server.
      end: ends the server and its workers; ``None`` without a server.
    """

    may_fork: bool = False
    is_interrupted: bool = False
    address: str = ""
    end: Callable[[], None] | None = None


_state = _State()


def allow_forks() -> None:
    """Marks this process as one that may be forked.

    It is the command line's process, and has no threads.
    """
    _state.may_fork = True


@contextlib.contextmanager
def running(forks: bool = True) -> Iterator[None]:
    """Runs a fork server while the body runs.

    Does so only in the process of the command line. To be entered after the
    imports that workers share, and before anything else: a fork has none of the threads of this
    process, nor the locks that they release.

    Args:
      forks: ``False`` gives the body the server's folder for temporary files, but no server. This
        process would copy each page that it changes while there is one: a tenth of three rows' CPU.
    """
    if not _state.may_fork or len(tempfile.gettempdir()) > LONGEST_FOLDER:
        yield
        return
    with _folder_of_files() as folder:
        if not forks:
            yield
            return
        from apache_beam.runners.worker import sdk_worker_main  # noqa: F401 - for the workers

        address = os.path.join(folder, "workers")
        server, alive = _start_server(address)
        _state.address = address
        end = _state.end = weakref.finalize(_state, _end, server, alive)  # runs once
        try:
            with _ending_on_signal(end):
                yield
        finally:
            _state.address, _state.end = "", None
            end()


def socket_folder() -> str:
    """Returns a folder whose path is short enough for a socket.

    Raises:
      DataError: there is none.
    """
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - a private one in it
        if len(os.fsencode(folder)) <= LONGEST_FOLDER and os.access(folder, os.W_OK):
            return folder
    raise DataError(
        f"TMPDIR: found {tempfile.gettempdir()!r}, expected a path of at most "
        f"{LONGEST_FOLDER} bytes: the sockets of worker processes are there."
    )


@contextlib.contextmanager
def _folder_of_files() -> Iterator[str]:
    """Makes a private folder for temporary files, and removes abandoned ones.

    Killed commands leave abandoned folders; a server removes that of its command.
    """
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{_FOLDER}*")):
        _remove_abandoned(path)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the last of our processes is gone
            yield folder
        finally:
            tempfile.tempdir = before
            os.close(descriptor)


def _remove_abandoned(path: str) -> None:
    """Removes a command's folder that no process has locked.

    A new folder stays.
    """
    with contextlib.suppress(OSError):  # another user's, or removed meanwhile
        if time.time() - os.stat(path).st_mtime < _STALE_SECS:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            os.close(descriptor)


def was_interrupted() -> bool:
    """Whether a signal came while a server was running.

    Later errors then come from dead workers.
    """
    return _state.is_interrupted


def end_workers() -> None:
    """Kills all workers that are forks and their server, and waits."""
    if _state.end is not None:
        _state.end()


def _end(server: int, alive: int) -> None:
    """Ends the server and its workers, and waits for them.

    A worker that outlived this would write what the command removes.
    """
    os.close(alive)
    with contextlib.suppress(ChildProcessError):  # a fork of the command has no such child
        os.waitpid(server, 0)


def is_running() -> bool:
    """Whether there is a server that forks workers."""
    return bool(_state.address)


def run_worker(environment: Mapping[str, str], is_quiet: bool) -> int:
    """Runs a worker and waits for its end.

    If this process ends, so does the worker.

    Args:
      environment: variables to set.
      is_quiet: drops what it writes to standard error.

    Returns:
      The exit status; 1 if the worker was killed, or the server is gone.
    """
    with contextlib.suppress(OSError, EOFError), Client(_state.address) as connection:
        connection.send((dict(environment), is_quiet))
        return int(connection.recv())
    return 1


@contextlib.contextmanager
def _ending_on_signal(end: Callable[[], None]) -> Iterator[None]:
    """Ends the workers when a signal comes.

    Beam would wait forever for workers that are starting.
    """

    def handle(number: int, frame: types.FrameType | None) -> None:
        _state.is_interrupted = True
        end()
        before[number](number, frame)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_server(address: str) -> tuple[int, int]:
    """Forks the server.

    Returns:
      Its process id, and the end of a pipe; when that is closed, the server ends.
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    orphaned, alive = os.pipe()
    # A signal reaches all processes: the server ends with the command, and waits for its workers.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    server = os.fork()
    if server:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        listener.close()
        os.close(orphaned)
        return server, alive
    try:
        os.close(alive)
        tempfile.tempdir = os.path.dirname(address)  # that of a killed worker, too
        for number in SIGNALS:  # for the workers
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
        _serve(listener, orphaned)
        # The folder is there only if the command was killed.
        shutil.rmtree(os.path.dirname(address), ignore_errors=True)
    finally:
        os._exit(0)


def _serve(listener: socket.socket, orphaned: int) -> None:
    """Forks a worker for each connection until the pipe is closed.

    The launcher has the other end of the pipe.
    """
    workers: list[int] = []
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(orphaned, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            accepted, _ = listener.accept()
            worker = os.fork()
            if not worker:
                selector.close()
                listener.close()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
                _work(Connection(accepted.detach()))
            accepted.close()
            workers = [*filter(_is_alive, workers), worker]
    for worker in filter(_is_alive, workers):
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)  # it would stay where process 1 waits for no children


def _is_alive(worker: int) -> bool:
    return os.waitpid(worker, os.WNOHANG)[0] == 0


def _work(connection: Connection) -> None:
    """Runs a worker in this process and sends its exit status.

    The worker runs until Beam ends it.
    """
    status = 1
    try:
        environment, is_quiet = connection.recv()
        if is_quiet:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.environ.update(environment)
        random.seed()
        memory.keep_freed_memory()
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        from apache_beam.runners.worker import sdk_worker_main

        with applied(drop_idle_bundle_processors, plain_pickles):
            sdk_worker_main.main(sys.argv)
        status = 0
    except BaseException:  # noqa: BLE001 - as an interpreter that ends with an error
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            connection.send(status)
        os._exit(status)


def _end_with(connection: Connection) -> None:
    """Ends the worker when the launcher closes the connection, or is gone."""
    connection.poll(None)
    os._exit(1)
