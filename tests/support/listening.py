"""Lists the TCP ports that a process and its children listen on."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_LISTENS = "0A"


class Port(NamedTuple):
    """A port that a program listens on."""

    program: str
    host: str
    number: int


def ports_of(process: int) -> set[Port]:
    """Returns the ports of a process and all its children."""
    family = [psutil.Process(process)]
    found = set()
    with contextlib.suppress(psutil.Error):
        family += family[0].children(recursive=True)
    for each in family:
        with contextlib.suppress(OSError, psutil.Error):  # it has ended
            found |= _ports(each.pid, each.name())
    return found


def _ports(process: int, program: str) -> set[Port]:
    sockets = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):  # was closed
            sockets.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(descriptor)))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]
    ]
    return {
        Port(program, *_address(row[1])) for row in rows if row[3] == _LISTENS and row[9] in sockets
    }


def _address(text: str) -> tuple[str, int]:
    """Returns host and port of an address of ``/proc/net/tcp``."""
    host, port = text.split(":")
    words = [
        struct.pack("=I", int(host[start : start + 8], 16)) for start in range(0, len(host), 8)
    ]
    kind = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(kind, b"".join(words)).removeprefix("::ffff:"), int(port, 16)


def ports_during(command: Sequence[str], folder: Path) -> set[Port]:
    """Runs a command in a folder and returns all ports of it."""
    found: set[Port] = set()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                found |= ports_of(process.pid)
            time.sleep(0.05)
        output.seek(0)
        assert process.returncode == 0, output.read()
    return found
