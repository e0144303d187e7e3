"""The folder of inputs while the product reads them.

The files are in memory if the system can hold them there.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile

VARIABLE = "FUZZ_SCRATCH"
_IN_MEMORY = "/dev/shm"  # noqa: S108 - a folder of a random name is made in it


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder for another process.

    That process may die before it can remove a folder of its own.
    """
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=_parent())


def _parent() -> str | None:
    return os.environ.get(VARIABLE) or (_IN_MEMORY if os.path.isdir(_IN_MEMORY) else None)


@functools.cache
def folder(name: str) -> str:
    """Returns this process's folder.

    It is made on its first use and removed at the end.
    """
    made = tempfile.mkdtemp(prefix=f"fuzz-{name}-", dir=_parent())
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def write(folder_name: str, name: str, data: bytes) -> str:
    """Writes a file, over what was there, and returns its path."""
    path = os.path.join(folder(folder_name), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path
