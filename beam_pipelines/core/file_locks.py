"""Descriptors of locked files, which forks of this process close.

``flock`` belongs to an open file, which a fork inherits: as long as any fork keeps the descriptor,
the file stays locked, for all processes.
"""

from __future__ import annotations

import os
import threading

_lock = threading.Lock()
_opened: set[int] = set()


def open_unshared(path: str, flags: int) -> int:
    """Opens a file and returns its descriptor, which forks close.

    ``close`` closes it.
    """
    with _lock:  # no fork comes between
        descriptor = os.open(path, flags, 0o666)
        _opened.add(descriptor)
        return descriptor


def close(descriptor: int) -> None:
    """Closes a descriptor of ``open_unshared``, unless this process is a fork.

    Which has.
    """
    with _lock:
        if descriptor in _opened:
            _opened.remove(descriptor)
            os.close(descriptor)


def _close_all() -> None:
    for descriptor in _opened:
        os.close(descriptor)
    _opened.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):  # on Unix
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_all
    )
