"""Runs a database server in a temporary folder, for tests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_SECONDS = 60


def can_run(owner: str, programs: Sequence[str | None]) -> bool:
    """Whether programs are here, and the user that runs them."""
    is_owned = os.geteuid() != 0 or any(user.pw_name == owner for user in pwd.getpwall())
    return is_owned and None not in programs


@contextlib.contextmanager
def own_folder(owner: str, name: str) -> Iterator[tuple[pathlib.Path, dict[str, Any]]]:
    """Yields a folder, and arguments that run its owner's processes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"beam-pipelines-{name}-"))
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_owner = {"user": owner, "group": pwd.getpwnam(owner).pw_gid, "extra_groups": []}
        shutil.chown(folder, owner)
    try:
        yield folder, {"cwd": folder, **as_owner}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """Returns a port of 127.0.0.1 that no program has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: Sequence[str],
    arguments: dict[str, Any],
    ask: Callable[[], Any],
    stop: signal.Signals,
) -> Iterator[None]:
    """Runs a server, from its first answer to a signal.

    Args:
      command: that starts it.
      arguments: of ``own_folder``.
      ask: fails until the server answers.
      stop: the signal that ends it.
    """
    log = arguments["cwd"] / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **arguments)
    try:
        _await(ask, process, log)
        yield
    finally:
        process.send_signal(stop)
        process.wait(_SECONDS)


def _await(ask: Callable[[], Any], process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    for _ in range(_SECONDS * 10):
        try:
            ask()
            return
        except Exception:
            if process.poll() is not None:
                raise
            time.sleep(0.1)
    raise TimeoutError(log.read_text())
