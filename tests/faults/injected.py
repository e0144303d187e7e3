"""Faults inside a command, at the n-th of some operations.

Any of the command's processes may reach it. Python reports operations on files to audit hooks
before it does them, so the product runs unchanged. Operations are counted over all processes of a
run, by the length of a file to which each of them appends a byte.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.faults import faulty_filesystem

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir")


def install(faults: list[dict[str, Any]]) -> None:
    """Installs the faults of a request.

    A fault ``at`` a place has these keys: ``at``, a part of a path; ``number``, the number of the
    operation on a path with it; ``changes``, whether reading does not count; ``do``, the name of a
    function here, with its ``arguments``; ``counter``, a file. Other faults are the filesystem's
    own.
    """
    faulty_filesystem.use([fault for fault in faults if "at" not in fault])
    for fault in faults:
        if "at" in fault:
            sys.addaudithook(_hook(fault))


def _hook(fault: dict[str, Any]) -> Callable[[str, tuple[Any, ...]], None]:
    launcher = os.getpid()
    state = {"is_inside": False}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if state["is_inside"] or not _is_meant(event, arguments, fault):
            return
        state["is_inside"] = True
        try:
            if count(fault["counter"]) == fault["number"]:
                globals()[fault["do"]](launcher, *fault.get("arguments", ()))
        finally:
            state["is_inside"] = False

    return hook


def _is_meant(event: str, arguments: tuple[Any, ...], fault: dict[str, Any]) -> bool:
    is_change = event in _CHANGES or (event == "open" and _writes(arguments))
    if not (is_change if fault["changes"] else event == "open" or is_change):
        return False
    return any(
        isinstance(argument, (str, bytes)) and fault["at"] in os.fsdecode(argument)
        for argument in arguments[:2]
    )


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def count(counter: str) -> int:
    """Returns how often any process has called this with a file before."""
    descriptor = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, b".")
        return os.lseek(descriptor, 0, os.SEEK_CUR) - 1
    finally:
        os.close(descriptor)


def kill_here(launcher: int) -> None:
    """Kills the process that is about to do something."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt_here(launcher: int) -> None:
    """Interrupts the process that is about to do something."""
    os.kill(os.getpid(), signal.SIGINT)


def change_file(launcher: int, path: str, how: str) -> None:
    """Does to a file what a careless colleague does.

    Args:
      launcher: of all such functions.
      path: the file.
      how: ``truncated`` to half, ``emptied``, ``appended`` to, ``changed`` in one byte,
        ``replaced`` by other data of the same size, or ``deleted``.
    """
    size = os.path.getsize(path)
    if how == "deleted":
        os.unlink(path)
    elif how == "replaced":
        with open(path, "rb") as file:
            data = file.read()
        with open(f"{path}.new", "wb") as file:
            file.write(data[: size // 2] + data[size // 2 :].replace(b"1", b"2"))
        os.replace(f"{path}.new", path)
    else:
        with open(path, "r+b") as file:
            if how == "truncated":
                file.truncate(size // 2)
            elif how == "emptied":
                file.truncate(0)
            elif how == "appended":
                file.seek(size)
                file.write(b"u1,2,3,s4,5\n")
            else:
                file.seek(size // 2)
                byte = file.read(1)
                file.seek(size // 2)
                file.write(b"7" if byte != b"7" else b"8")
