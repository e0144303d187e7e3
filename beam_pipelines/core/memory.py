"""Keeps memory that was freed, for the next batch of the same step.

glibc gives every block above 128 KiB back to the system when it is freed, and the system clears
each of its pages anew for the next batch's arrays: a tenth of a conversion's time
(docs/decisions.md). Blocks up to 32 MiB, the most that glibc allows, are kept instead, and in one
place: what glibc keeps for one thread, another one would not get. Elsewhere than with glibc nothing
happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

from beam_pipelines.core.limits import MIB

_LARGEST_KEPT_BYTES = 32 * MIB
_KEPT_BYTES = 1024 * MIB
_ARENAS = 1
# Parameters of mallopt, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

# The same for a process that is yet to start, as environment variables.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(_LARGEST_KEPT_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(_KEPT_BYTES),
    "MALLOC_ARENA_MAX": str(_ARENAS),
}


def keep_freed_memory() -> None:
    """Tells this process's glibc to keep freed memory."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back_memory() -> None:
    """Gives freed memory of this process and of Arrow back to the system.

    For a step whose blocks have other sizes than those of earlier steps.
    """
    import pyarrow as pa  # which `--help` does without

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def pause_garbage_collection() -> None:
    """Keeps the collector from visiting 100,000 objects of modules while they are imported."""
    gc.disable()


def resume_garbage_collection() -> None:
    """Collects again, but never the objects that exist now, here and in forks."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
