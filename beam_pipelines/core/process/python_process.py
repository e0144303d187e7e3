"""Starts an interpreter that imports nothing from the current folder.

``python -m`` and ``python -c`` look for modules in the current folder first, which may be a
stranger's: the folder of the data. A program that is started as a script, or typed in, does as
well. Its own modules there are deliberate, and the processes that it starts need them. So a process
finds a module of the current folder if the program has imported it, or if another module of that
folder imports it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# Runs before the code of the process. ``sys`` is built in, so that nothing is looked for yet.
_PATH = "import sys\nsys.path[:] = {path!r}\n"
_FINDER = """
def _limit(folder, known):
    import importlib.machinery, os
    class Finder:
        def __init__(self, is_wanted):
            self.is_wanted = is_wanted
        def find_spec(self, name, path=None, target=None):
            if path is None and self.is_wanted(name):
                return importlib.machinery.PathFinder.find_spec(name, [folder], target)
    def is_of_folder(name):
        frame = sys._getframe(2)
        while frame and frame.f_globals.get("__name__", "").startswith("importlib"):
            frame = frame.f_back
        file = frame and frame.f_globals.get("__file__")
        return bool(file) and os.path.abspath(file).startswith(os.path.join(folder, ""))
    sys.meta_path.insert(0, Finder(known.__contains__))
    sys.meta_path.append(Finder(is_of_folder))
_limit({folder!r}, {known!r})
"""


def start(
    code: str,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Starts an interpreter that runs some code.

    It has the paths of this process, without the current folder.

    Args:
      code: for the process; ``sys.argv[1:]`` has the arguments.
      arguments: of it.
      environment: variables to set.
      options: for ``subprocess.Popen``.
    """
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", _preparation() + code, *arguments],
        env=_environment({**os.environ, **(environment or {})}),
        **options,
    )


def _preparation() -> str:
    """Returns the code that sets the paths of a process."""
    try:
        folder = os.path.realpath(os.curdir)
    except FileNotFoundError:  # the folder was removed
        return _PATH.format(path=[path for path in map(os.fspath, sys.path) if os.path.isabs(path)])
    given = {path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    is_given = folder in map(os.path.realpath, given)
    path = [
        os.path.abspath(path) for path in sys.path if is_given or os.path.realpath(path) != folder
    ]
    if is_given or len(path) == len(sys.path):
        return _PATH.format(path=path)
    known = sorted(
        name
        for name, module in list(sys.modules.items())
        if "." not in name and os.path.dirname(_place(module)) == folder
    )
    return _PATH.format(path=path) + _FINDER.format(folder=folder, known=known)


def _place(module: object) -> str:
    """Returns the path of a module's file, or of a package's folder."""
    folders = list(getattr(module, "__path__", None) or ())
    file: str = folders[0] if folders else getattr(module, "__file__", None) or ""
    return os.path.realpath(file) if file else ""


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a process.

    Processes that it starts are as safe.
    """
    given = variables.get("PYTHONPATH", "").split(os.pathsep)
    return {
        **variables,
        "PYTHONPATH": os.pathsep.join(path for path in given if path),
        "PYTHONSAFEPATH": "1",  # from Python 3.11
    }
