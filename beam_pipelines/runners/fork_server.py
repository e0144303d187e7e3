"""Starts worker processes by forking one that has imported everything: in a tenth of a second each,
instead of two.

A worker spends two seconds of a core on imports, and holds 200 MB of modules that it never changes.
So the command line forks a server off itself once it has imported what workers need, and before it
has threads or data. A worker's command, as Beam's local runner knows it, is then a small client
that hands its environment over; the server forks, and the fork is the worker, on the same pages of
memory. Where that is not possible (other systems than Linux, or our functions called from a program
that has threads of its own), workers are interpreters of their own.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import selectors
import shlex
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

from beam_pipelines.core import memory
from beam_pipelines.core.signals import SIGNALS
from beam_pipelines.runners.beam_patches import bundles_forgotten

# Runs as a process of its own: sends its environment and where its output goes, waits for the
# worker's exit status. Without the site module it starts in 30 ms.
_CLIENT = """\
import json, os, socket, struct, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
data = json.dumps(dict(os.environ)).encode()
socket.send_fds(connection, [struct.pack("<I", len(data))], [1, 2])
connection.sendall(data)
status = connection.recv(1)
sys.exit(status[0] if status else 1)
"""
_LENGTH = struct.Struct("<I")
# The address of a Unix socket has 108 bytes; a temporary folder's own name and the socket's take a
# good 30 of them.
_LONGEST_FOLDER = 70
# What the names of folders of commands begin with, and how old one is that a command may no longer
# be about to lock.
_FOLDER, _STALE_SECS = "beam-pipelines-run-", 60


class _Here:
    """What is known of this process: whether it is the command line's own, and interrupted, the
    address of its server, and what ends it.
    """

    is_ours = False
    is_interrupted = False
    address = ""
    end: Callable[[], None] | None = None


def claim_process() -> None:
    """Says that this process is the command line's own: nobody else has threads in it, so that it
    may fork.
    """
    _Here.is_ours = True


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Keeps a server ready to fork workers while the body runs.

    In another process than the command line's, or elsewhere than on Linux, it does nothing.

    To be entered after the imports that workers share, and before anything else: a fork has none of
    the threads of this process, nor what they were in the middle of.
    """
    if not _Here.is_ours or sys.platform != "linux" or len(tempfile.gettempdir()) > _LONGEST_FOLDER:
        yield
        return
    from apache_beam.runners.worker import sdk_worker_main  # noqa: F401 - for the workers

    with _locked_folder() as folder:
        address = os.path.join(folder, "workers")
        server, alive = _start_server(address)
        _Here.address = address
        end = _Here.end = _Once(lambda: os.close(alive))
        try:
            with _at_interruption(end), _temporary_files_in(folder):
                yield
        finally:
            _Here.address, _Here.end = "", None
            end()
            os.waitpid(server, 0)


@contextlib.contextmanager
def _locked_folder() -> Iterator[str]:
    """Makes a temporary folder into which nobody else may look, and removes those of commands that
    were killed with all their processes.
    """
    import fcntl

    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{_FOLDER}*")):
        _remove_unlocked(path)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the last of our processes is gone
            yield folder
        finally:
            os.close(descriptor)


def _remove_unlocked(path: str) -> None:
    """Removes a folder of ours that no process has any more, unless one may be about to lock it."""
    import fcntl

    with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
        if time.time() - os.stat(path).st_mtime < _STALE_SECS:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Puts this process's temporary files, and Beam's, into a folder that the server removes when
    this process was killed.
    """
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def was_interrupted() -> bool:
    """Whether this process was, while a server was ready: what failed then failed because its
    workers were gone.
    """
    return _Here.is_interrupted


def end_workers() -> None:
    """Ends all workers that are forks, whatever they are doing, and their server."""
    if _Here.end is not None:
        _Here.end()


def command() -> str | None:
    """Returns the shell command of a worker process, or ``None`` where there is no server."""
    if not _Here.address:
        return None
    return (
        f"exec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(_CLIENT)} "
        f"{shlex.quote(_Here.address)}"
    )


class _Once:
    """A function that does what it does the first time only."""

    def __init__(self, do: Callable[[], None]) -> None:
        self._todo = [do]

    def __call__(self) -> None:
        if self._todo:
            self._todo.pop()()


@contextlib.contextmanager
def _at_interruption(end: Callable[[], None]) -> Iterator[None]:
    """Ends the workers at once when this process is interrupted: Beam would wait for those that are
    about to start, for ever.
    """

    def handle(number: int, frame: types.FrameType | None) -> None:
        _Here.is_interrupted = True
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
    """Forks the server. Returns its process id, and the end of a pipe by whose closing it sees that
    we are gone.
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    orphaned, alive = os.pipe()
    # The fork would take a signal that comes before it has its own handlers for one to the command,
    # and be a second one.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    server = os.fork()
    if server:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        listener.close()
        os.close(orphaned)
        return server, alive
    try:
        os.close(alive)
        # Ctrl-C reaches all processes; this one and its forks end with the first.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _serve(listener, orphaned)
        shutil.rmtree(
            os.path.dirname(address), ignore_errors=True
        )  # which a process that was killed has left
    finally:
        os._exit(0)


def _serve(listener: socket.socket, orphaned: int) -> None:
    """Forks a worker for each connection, until the process at the other end of the pipe is
    gone.
    """
    workers: list[int] = []
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(orphaned, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            connection, _ = listener.accept()
            worker = os.fork()
            if not worker:
                selector.close()
                listener.close()
                _work(connection)
            connection.close()
            workers = [*filter(_is_running, workers), worker]
    for worker in filter(_is_running, workers):
        os.kill(worker, signal.SIGKILL)


def _is_running(worker: int) -> bool:
    return os.waitpid(worker, os.WNOHANG)[0] == 0


def _work(connection: socket.socket) -> None:
    """Is the worker: takes the client's environment, works until Beam says that it is over, and
    tells the client.
    """
    status = 1
    try:
        length = _take_output(connection)
        os.environ.update(json.loads(_receive(connection, length)))
        random.seed()
        memory.keep_freed_memory()
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        from apache_beam.runners.worker import sdk_worker_main

        with bundles_forgotten():
            sdk_worker_main.main(sys.argv)
        status = 0
    except BaseException:  # noqa: BLE001 - as an interpreter does when it ends with an error
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            connection.sendall(bytes([status]))
        os._exit(status)


def _take_output(connection: socket.socket) -> int:
    """Writes to where the client does from now on. Returns the length of its environment."""
    data, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
    for descriptor, output in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, output)
        os.close(descriptor)
    (length,) = _LENGTH.unpack(data)
    return int(length)


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _end_with(connection: socket.socket) -> None:
    """Ends the worker when its client is ended, which is what the runner can reach."""
    if not connection.recv(1):
        os._exit(1)
