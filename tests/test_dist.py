"""The wheel and the sdist of ``make dist`` install and convert."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.dist
DIST = Path(__file__).resolve().parent.parent / "dist"
CHECK = """
import sys
import beam_pipelines as bp
from beam_pipelines.core import _native
assert bp.__file__.startswith(sys.prefix), bp.__file__
assert _native.KERNELS_AVAILABLE
"""


def interpreters() -> list[str]:
    """Returns the paths of the supported Pythons on this machine."""
    found = (shutil.which(f"python3.{minor}") for minor in range(10, 14))
    # A version manager's command may be there without the version.
    return [
        path
        for path in found
        if path
        and not subprocess.run([path, "--version"], capture_output=True, check=False).returncode
    ]


def one(pattern: str) -> Path:
    """Returns the only file in ``dist`` with such a name."""
    (path,) = DIST.glob(pattern)
    return path


@pytest.mark.parametrize("python", interpreters())
def test_the_wheel_converts(python: str, tmp_path: Path) -> None:
    """The wheel converts after its installation alone.

    It uses this environment's packages if they are for the same Python.
    """
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    own = tmp_path / "venv" / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check"]
    wheel = str(one("*.whl"))
    version = "import sys; print(sys.version_info[:2])"
    if subprocess.check_output([own, "-c", version]) == subprocess.check_output(
        [sys.executable, "-c", version]
    ):
        command = [own, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site = Path(subprocess.check_output(command, text=True).strip())
        ours = [path for path in sys.path if path.endswith("site-packages")]
        (site / "packages.pth").write_text("\n".join(ours))
        options.append("--no-deps")
    else:
        # The list as it stands: on Python 3.10 pip finds no solution of its own (constraints.txt).
        listed = ["--no-deps", "--requirement", DIST.parent / "constraints.txt"]
        subprocess.run([own, "-m", "pip", "install", *options, *listed], check=True)
        options.append("--no-deps")
    subprocess.run([own, "-m", "pip", "install", *options, wheel], check=True)
    (tmp_path / "rows.csv").write_text("x,t\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(99)))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: rows\nsources: {rows: rows.csv}\nencode: {x: z_score, t: vocabulary}\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([own, "-c", CHECK], check=True, cwd=tmp_path, env=environment)
    for arguments in (["convert", recipe, "--output", "out"], ["verify", "out"]):
        program = own.with_name("beam-pipelines")
        subprocess.run([program, *arguments], check=True, cwd=tmp_path, env=environment)


def test_the_wheel_is_for_every_python_and_many_systems() -> None:
    """The wheel is abi3 for CPython 3.10 and later.

    It has a manylinux tag, and no tests in it.
    """
    wheel = one("*.whl")
    assert "-cp310-abi3-manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"beam_pipelines"}
    assert "beam_pipelines/py.typed" in names
    assert "beam_pipelines/integrations/beam/providers.yaml" in names


def test_the_sdist_builds_the_kernels() -> None:
    """The sdist has the C++ sources and the files that build them."""
    with tarfile.open(one("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md"} <= names
    native = DIST.parent / "beam_pipelines" / "core" / "_native"
    sources = {f"beam_pipelines/core/_native/{path.name}" for path in native.glob("*.[ch]*")}
    assert sources
    assert sources <= names
