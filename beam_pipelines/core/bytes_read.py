"""Counts the compressed bytes that a thread has read.

A file that cannot be cut is one range of any size. Its reader yields rows, and the step after it,
in the same thread, notes how far the file is read.
"""

from __future__ import annotations

import threading

_counts = threading.local()


def add_consumed(size_bytes: int) -> None:
    """Adds bytes that this thread has read."""
    _counts.total = getattr(_counts, "total", 0) + size_bytes


def take_consumed() -> int:
    """Returns the bytes that this thread has read since the last call."""
    total = getattr(_counts, "total", 0)
    _counts.total = 0
    return int(total)
