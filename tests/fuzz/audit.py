"""Runs the fuzzed readers under an audit hook.

A hook cannot be removed, so this is a process of its own: ``python -m tests.fuzz.audit TARGET…``
prints each act that is not allowed. Libraries in C act without Python's knowledge: ``strace``, which
``traced`` starts and ``system_fault`` reads, sees their calls of the system, too.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import os
import pathlib
import re
import site
import sys
import sysconfig
import tempfile
import traceback
from typing import Any

from tests.fuzz.finding import Finding
from tests.fuzz.targets import module_of

ROOT = pathlib.Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
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
# What libraries in C open for themselves: the system's libraries, languages and facts of hardware.
SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/locale", "/sys"),
    *("/etc/ld.so.cache", "/etc/ssl/openssl.cnf", "/etc/localtime", "/etc/locale.alias"),
    "/opt/pyca/cryptography/openssl/openssl.cnf",
)
_CALL = re.compile(r"^\d+ +(\w+)\((.*)")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_FOLDER = re.compile(r"(?:AT_FDCWD|\d+)<(.*?)>, ")


def traced(log: str, command: list[str]) -> list[str]:
    """Returns a command under strace, which writes a log."""
    calls = "trace=execve,execveat,connect,open,openat,openat2,creat,sendto"
    return ["strace", "-f", "-qq", "-y", "-s", "8192", "-e", calls, "-o", log, *command]


def system_fault(line: str) -> str:
    """Returns what is wrong with a line of strace; or nothing."""
    if not (found := _CALL.match(line)):
        return ""
    call, arguments = found.groups()
    texts = [os.fsdecode(codecs.escape_decode(text)[0]) for text in _TEXT.findall(arguments)]  # type: ignore[attr-defined]
    if call in ("execve", "execveat"):
        is_known = texts[1:3] == _OF_PLATFORM or "tests.fuzz.audit" in arguments
        return "" if is_known else f"{call} {texts[:9]}"
    if call in ("connect", "sendto"):
        return f"{call} {arguments}"
    if not texts:
        return ""
    start = _FOLDER.match(arguments)
    path = os.path.join(start[1] if start else str(ROOT), texts[0])
    return "" if is_within(path, (*FOLDERS, *SYSTEM)) else f"{call} {path}"


@functools.cache
def is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a path is one of the folders, or in one."""
    real = os.path.realpath(path)
    return any(real == folder or real.startswith(f"{folder}/") for folder in folders)


def fault(event: str, arguments: tuple[Any, ...]) -> str:
    """Returns what is wrong with an event of ``sys.addaudithook``; empty if nothing."""
    if event == "subprocess.Popen" and list(map(str, arguments[1])) == _OF_PLATFORM:
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
        target = importlib.import_module(module_of(name)).TARGET
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
