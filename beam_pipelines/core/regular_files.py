"""Opens local files, and refuses pipes, devices and sockets at once.

Opening a pipe waits for a writer, and some devices never end.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from beam_pipelines.core.errors import DataError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def check_mode(path: str, mode: int) -> None:
    """Checks that a path is a regular file.

    Args:
      path: for the message.
      mode: ``st_mode`` of what the path leads to.

    Raises:
      DataError: it is a folder, a pipe, a device or a socket.
    """
    if stat.S_ISREG(mode):
        return
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    cure = "Name the files in it." if stat.S_ISDIR(mode) else "Copy its data to a file first."
    raise DataError(f"{path}: found {kind}, expected a regular file. {cure}")


def check(path: str) -> None:
    """Checks that nothing but a regular file is at a path.

    Raises:
      DataError: as ``check_mode``.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening it says why
        return
    check_mode(path, mode)


def open_read(path: str) -> BinaryIO:
    """Opens a local file for reading.

    Raises:
      DataError: as ``check_mode``.
      OSError, ValueError: it cannot be opened.
    """
    # Opening a device can do something, and a socket cannot be opened. So it is looked at first.
    check_mode(path, os.stat(path).st_mode)
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    """Returns a descriptor, without waiting for the writer of a pipe."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        check_mode(path, os.fstat(descriptor).st_mode)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
