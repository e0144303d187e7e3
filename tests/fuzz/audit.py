"""Runs the fuzzed readers under an audit hook.

A hook cannot be removed, so this is a process of its own: ``python -m tests.fuzz.audit TARGET…``
prints each act that is not allowed. Libraries in C open files without Python's knowledge; what they
are kept from is in ``docs/reliability.md``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import site
import sys
import sysconfig
import tempfile
import traceback
from typing import Any

from tests.fuzz.finding import Finding

ROOT = pathlib.Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
# The helper that reads Delta's deletion vectors, which is our own module.
_HELPER = str(ROOT / "plugins" / "beam_pipelines_plugins" / "lakehouses" / "delta_vectors.py")
# Python's module platform asks for the processor when a library is imported.
_OF_PLATFORM = ["uname", "-p"]
_STARTS = {
    *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork"),
    *("os.forkpty", "pty.spawn"),
}
_CONNECTS = {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}
_OPENS = {"open", "os.listdir", "os.scandir", "sqlite3.connect"}


def _folders() -> tuple[str, ...]:
    """Returns the folders of code, of the system's tables, and of inputs."""
    code = [str(ROOT), sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()]
    code += sysconfig.get_paths().values()
    system = ["/proc", "/dev", "/usr/share/zoneinfo", "/etc/mime.types", tempfile.gettempdir()]
    return tuple({os.path.realpath(path) for path in [*code, *system]})


FOLDERS = _folders()


@functools.cache
def is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path is one of the folders, or in one."""
    real = os.path.realpath(path)
    return any(real == folder or real.startswith(f"{folder}/") for folder in folders)


def fault(event: str, arguments: tuple[Any, ...]) -> str:
    """Returns what is wrong with an event of ``sys.addaudithook``; empty if nothing."""
    if event == "subprocess.Popen":
        command = list(map(str, arguments[1]))
        if _HELPER in command or command == _OF_PLATFORM:
            return ""
    if event in _STARTS or event in _CONNECTS:
        return f"{event} {arguments!r}"
    path = arguments[0] if event in _OPENS else arguments[1] if event == "import" else None
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    name = os.fsdecode(path).removeprefix("file:")
    return "" if is_within(name, FOLDERS) else f"{event} {name}"


def foreign_modules(start: set[str]) -> list[str]:
    """Returns the modules imported since then from elsewhere than the code's folders."""
    code = tuple(folder for folder in FOLDERS if folder != os.path.realpath(tempfile.gettempdir()))
    files = {
        name: getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name not in start
    }
    return [
        f"module {name} {file}"
        for name, file in files.items()
        if file and not is_within(file, code)
    ]


def main(names: list[str]) -> None:
    """Reads all inputs of some targets, and prints what was wrong."""
    found: dict[str, None] = {}
    is_busy = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal is_busy
        if is_busy:
            return
        is_busy = True
        try:
            if wrong := fault(event, arguments):
                calls = traceback.extract_stack(limit=6)[:-1]
                found.setdefault(
                    f"{wrong} by {' < '.join(str(one.filename) for one in calls[::-1])}"
                )
        finally:
            is_busy = False

    start, inputs = set(sys.modules), 0
    sys.addaudithook(hook)
    for name in names:
        target = importlib.import_module(f"tests.fuzz.targets.{name}").TARGET
        kept = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
        for data in [*target.seeds(), *kept]:
            inputs += 1
            # test_corpus.py finds values that are read wrong.
            with contextlib.suppress(Finding, Exception):
                target.run(data)
    wrong = [*found, *foreign_modules(start)]
    print(f"{inputs} inputs of {len(names)} targets", *wrong, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
