"""A process with all imports that forks a command for each request.

A conversion thus starts in 30 ms instead of 3 s. Each line of its input is a request. The command
runs in a session of its own, which identifies all its processes, even if their parents have
changed. Its keeper, a process between it and this one, writes down how it ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from typing import Any, NoReturn

import apache_beam.runners.worker.sdk_worker_main  # noqa: F401 - for the workers

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.process import signals
from beam_pipelines.dataset import verify  # noqa: F401 - so that no command needs to
from beam_pipelines.pipeline import convert  # noqa: F401 - so that no command needs to
from beam_pipelines.runners import run as run_module  # noqa: F401 - so that no command needs to
from tests.faults import injected

_CAPSET, _CAPABILITY_VERSION, _DROP_FROM_BOUNDING_SET = 126, 0x20080522, 24
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH let root ignore permissions.
_OVERRIDES = (1, 2)


def main() -> None:
    """Serves requests until the input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for keepers
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if os.fork() == 0:
            _keep(json.loads(line))


def _keep(request: dict[str, Any]) -> NoReturn:
    """Is the keeper of one command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    begins, begun = os.pipe()
    command = os.fork()
    if command == 0:
        _command(request, begun)
    os.close(begun)
    os.read(begins, 1)
    _note(f"{request['notes']}/pid", str(command))
    _, status, usage = os.wait4(command, 0)
    ended = {
        "status": os.waitstatus_to_exitcode(status),
        "at": time.monotonic(),
        "cpu": usage.ru_utime + usage.ru_stime,
    }
    _note(f"{request['notes']}/ended", json.dumps(ended))
    os._exit(0)


def _note(path: str, text: str) -> None:
    with open(f"{path}.part", "w") as file:
        file.write(text)
    os.rename(f"{path}.part", path)


def _command(request: dict[str, Any], begun: int) -> NoReturn:
    """Runs the console script's command, in its folder, with its faults.

    Callers hear of it when it closes ``begun``.
    """
    os.setsid()
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = True
    tempfile.tempdir = None
    for number, name in enumerate(
        ("/dev/null", f"{request['notes']}/out", f"{request['notes']}/err")
    ):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    if request["obeys_permissions"]:
        _obey_permissions()
    injected.install(request["faults"])
    sys.argv = ["beam-pipelines", *request["arguments"]]
    signals.exit_on_signal()
    os.close(begun)
    try:
        main_module.main()
    finally:
        os._exit(3)


def _obey_permissions() -> None:
    """Takes from root the right to read and write everything.

    This applies to this process and its children.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    mask = ~sum(1 << capability for capability in _OVERRIDES) & 0xFFFFFFFF
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    words = (ctypes.c_uint32 * 6)()
    for capability in _OVERRIDES:
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    libc.syscall(_CAPSET - 1, header, words)  # capget
    for word in range(3):
        words[word] &= mask
    if libc.syscall(_CAPSET, header, words):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    main()
