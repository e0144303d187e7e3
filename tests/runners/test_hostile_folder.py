"""Runs import nothing of the current folder, and open no port."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.tests.support import delta_tables
from tests.support.listening import ports_during

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

RECIPE = """
name: t
sources: {t: {path: t.csv, key: id}, d: {path: table, format: delta}}
from: d
join: [{source: t, on: id}]
encode: {word: {vocabulary: {}}, number: z_score}
label: kind
"""
# ``-I``: as a program that is started elsewhere; its own folder is not on its paths.
PROGRAM = """
import beam_pipelines as bp
bp.convert(
    "r.yaml", "program", quiet=True,
    beam_options=["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
)
bp.make_graph("program")
from beam_pipelines.reader.process import ReadingProcess
reads = ReadingProcess()
reads._connection.close()
assert reads._process.wait() == 0, "the process imports its modules, and exits without a request"
"""
COMMAND = str(Path(sys.executable).parent / "beam-pipelines")
PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def write_modules(folder: Path, without: frozenset[str]) -> None:
    """Writes a module of every name, which leaves its name in ``RAN``."""
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    names |= {"sitecustomize", "usercustomize", "beam_pipelines_native"}
    code = f"with open({str(folder / 'RAN')!r}, 'a') as file:\n    file.write(__name__ + ' ')\n"
    for name in names - without:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(code)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a hostile module of every name."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = "".join(f"{row},w{row % 3},{row % 7},{'uv'[row % 2]}\n" for row in range(60))
    (folder / "t.csv").write_text(f"id,word,number,kind\n{rows}")
    delta_tables.write(folder / "table", {"id": list(range(50)), "more": list(range(50))})
    (file,) = (folder / "table").glob("*.parquet")
    delta_tables.delete_rows(folder / "table", file.name, [3, 4])
    (folder / "r.yaml").write_text(RECIPE)
    write_modules(folder, frozenset())
    return folder


WAYS = {
    "forked workers": (COMMAND, "convert", "r.yaml", "--output=forked", "--quiet", *PROCESSES),
    "interpreters": (sys.executable, "-I", "-c", PROGRAM),
    "preview": (COMMAND, "preview", "r.yaml"),
    "module": (sys.executable, "-m", "beam_pipelines", "plan", "r.yaml"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_of_hostile_modules(hostile, way, monkeypatch):
    """No module of the folder runs, and nothing listens to others."""
    if way == "module":
        if sys.version_info < (3, 11):
            pytest.skip("Python 3.10 has no PYTHONSAFEPATH")
        monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert ports_during(WAYS[way], hostile) == set()
    assert not (hostile / "RAN").exists(), (hostile / "RAN").read_text()


def test_the_modules_are_hostile(hostile: Path) -> None:
    """One of them leaves its mark where the folder is searched."""
    assert "PYTHONSAFEPATH" not in os.environ
    folder = hostile.with_name("other")
    shutil.copytree(hostile, folder)
    ports_during((sys.executable, "-c", "import colorsys"), folder)
    assert (hostile / "RAN").read_text() == "colorsys "
    (hostile / "RAN").unlink()


def test_the_module_of_the_command_alone_is_looked_up(tmp_path: Path) -> None:
    """``python -m`` takes nothing but its module from the folder."""
    seen = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "no_such_module"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in seen.stderr.splitlines()}
    assert "runpy" in imported
    write_modules(tmp_path, frozenset({*imported, "beam_pipelines"}))
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    assert ports_during((*WAYS["module"][:4], "t.csv"), tmp_path) == set()
    assert not (tmp_path / "RAN").exists(), (tmp_path / "RAN").read_text()
