"""Processes that are started import nothing from the current folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import beam_pipelines

PACKAGE = Path(beam_pipelines.__file__).parent
# Imports our modules first: the program itself is not what is tested.
PROGRAM = """
import os, subprocess, sys
from beam_pipelines.core.process import python_process
os.chdir(sys.argv[1])
for entry in sys.argv[3:]:
    sys.path.insert(0, entry)
    import of_the_user
    process = python_process.start(sys.argv[2], stdout=subprocess.PIPE)
    print(process.communicate()[0].decode(), process.returncode)
    sys.path.remove(entry)
    del sys.modules["of_the_user"]
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that leave a file.

    One of the user's.
    """
    for name in ("logging", "json", "numpy", "apache_beam", "runpy", "missing"):
        (tmp_path / f"{name}.py").write_text(f"open('RAN', 'a').write({name!r})\n")
    (tmp_path / "of_the_user.py").write_text(
        "def give():\n    import helper\n    return helper.x\n"
    )
    (tmp_path / "helper.py").write_text("x = 7\n")
    return tmp_path


def _run(folder: Path, code: str, *entries: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), code, *entries],
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    return ended.stdout


def test_modules_of_the_current_folder(hostile: Path) -> None:
    """Only what the program imported, or such a module imports, is found."""
    code = (
        "import logging, json, numpy, runpy, of_the_user, importlib.util\n"
        "print(of_the_user.give(), importlib.util.find_spec('missing'))"
    )
    assert _run(hostile, code, "", ".", str(hostile)) == "7 None\n 0\n" * 3
    assert not (hostile / "RAN").exists()


def test_processes_of_processes_are_as_safe(hostile: Path) -> None:
    """An interpreter that the process starts imports nothing from there either."""
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no PYTHONSAFEPATH")
    code = "import subprocess; subprocess.run([sys.executable, '-c', 'import logging, json'])"
    _run(hostile, code, "")
    assert not (hostile / "RAN").exists()


def test_one_function_starts_interpreters() -> None:
    """No other module of the package names the interpreter."""
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(r"sys\.executable|multiprocessing\.(Process|Pool)|spawn", path.read_text())
    ]
    assert found == ["core/process/python_process.py"]
