"""Locks that a fork of this process does not hold.

``flock`` belongs to an open file, which a fork inherits: as long as any fork keeps the descriptor,
the file stays locked, for all processes. A lock that another thread holds stays locked in a fork,
which has no such thread.
"""

from __future__ import annotations

import os
import threading
import weakref

_lock = threading.Lock()
_opened: set[int] = set()
_own: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock between threads, which is free in a fork."""

    def __init__(self) -> None:
        self.free()
        _own.add(self)

    def free(self) -> None:
        """Frees the lock from a thread that is not in this process."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


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


def _leave_all() -> None:
    for lock in _own:
        lock.free()
    for descriptor in _opened:
        os.close(descriptor)
    _opened.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_all)
