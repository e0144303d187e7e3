"""Opens local files, and refuses pipes, devices and sockets at once.

Opening a pipe waits for a writer, and some devices never end. Files such as ``/proc/kmsg``, which
the kernel makes up, look like regular ones, and reading some of them never ends either.
"""

from __future__ import annotations

import functools
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
# File systems of Linux whose files the kernel makes up when they are read.
_OF_KERNEL = {
    *("proc", "sysfs", "debugfs", "tracefs", "configfs", "securityfs", "selinuxfs", "pstore"),
    *("cgroup", "cgroup2", "bpf", "fusectl", "binfmt_misc", "efivarfs", "mqueue"),
}


def check_status(path: str, status: os.stat_result) -> None:
    """Checks that a path is a regular file.

    Args:
      path: for the message.
      status: of what the path leads to.

    Raises:
      DataError: it is a folder, a pipe, a device, a socket, or a file of the kernel.
    """
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    elif _is_of_kernel(status.st_dev):
        kind = "a file that the kernel makes up"
    else:
        return
    cure = "Name the files in it." if stat.S_ISDIR(mode) else "Copy its data to a file first."
    raise DataError(f"{path}: found {kind}, expected a regular file. {cure}")


@functools.cache
def _is_of_kernel(device: int) -> bool:
    """Whether a device's file system is one of the kernel's."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mounts = [line.split(" ") for line in file]
    except OSError:  # not Linux
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    # The type comes after optional fields and a dash.
    return any(
        fields[fields.index("-") + 1] in _OF_KERNEL for fields in mounts if fields[2] == number
    )


def check(path: str) -> None:
    """Checks that nothing but a regular file is at a path.

    Raises:
      DataError: as ``check_status``.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # opening it says why
        return
    check_status(path, status)


def open_read(path: str) -> BinaryIO:
    """Opens a local file for reading.

    Raises:
      DataError: as ``check_status``.
      OSError, ValueError: it cannot be opened.
    """
    # Opening a device can do something, and a socket cannot be opened. So it is looked at first.
    check_status(path, os.stat(path))
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    """Returns a descriptor, without waiting for the writer of a pipe."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        check_status(path, os.fstat(descriptor))
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
