"""Keeps freed memory in the process, for the next batch.

glibc returns freed blocks above 128 KiB to the system, which clears their pages for the next
batch: a tenth of a conversion's time (docs/decisions.md). Here it keeps blocks up to 32 MiB, its
maximum, in one arena, because a thread cannot use freed blocks of another thread's arena. Without
glibc nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading

from beam_pipelines.core.limits import MIB

_LARGEST_KEPT_BYTES = 32 * MIB
_KEPT_BYTES = 1024 * MIB
_ARENAS = 1
_LEAST_COLLECTED_BYTES = 16 * MIB
# Thousands of columns have as many objects, which make no garbage.
_OBJECTS_BETWEEN = 20_000
# Parameters of mallopt, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

# Whether the modules are out of the collector's sight. ``gc.get_freeze_count`` tells as much, but
# walks the list of their 200,000 objects, 15 ms a call.
_are_modules_frozen = threading.Event()

# Arrow reads the variable when it is imported. Its own allocator would keep freed blocks for
# itself.
ARROW_ALLOCATOR = ("ARROW_DEFAULT_MEMORY_POOL", "system")
# The same for a process that is yet to start, as environment variables.
ENVIRONMENT = {
    **dict([ARROW_ALLOCATOR]),
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
    """Returns freed memory, also Arrow's, to the system.

    For a step whose blocks have other sizes than those of earlier steps.
    """
    import pyarrow as pa  # not at start-up: `--help` does not need it

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def pause_garbage_collection() -> None:
    """Disables the garbage collector before modules are imported.

    It would visit 100,000 objects of the modules during the import.
    """
    gc.disable()


def resume_garbage_collection() -> None:
    """Enables the garbage collector again, except for existing objects.

    It never visits these objects, here or in forks.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN)
        gc.enable()
        _are_modules_frozen.set()


def collect_garbage() -> None:
    """Collects garbage if it may hold batches.

    It takes milliseconds without the modules' objects, else it is not done. Small batches can wait.
    """
    import pyarrow as pa  # as above

    if _are_modules_frozen.is_set() and pa.total_allocated_bytes() > _LEAST_COLLECTED_BYTES:
        gc.collect()
