"""The wheels and sdists of ``make dist`` install, convert and read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.test_distributions import READER, modules

pytestmark = pytest.mark.dist
ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
FULL_WHEEL, READER_WHEEL = "beam_pipelines-*.whl", "beam_pipelines_reader-*.whl"
PLUGINS_WHEEL = "beam_pipelines_plugins-*.whl"
CHECK = """
import sys
import beam_pipelines as bp
from beam_pipelines.core import _native
assert bp.__file__.startswith(sys.prefix), bp.__file__
assert _native.KERNELS_AVAILABLE
"""
READ = f"""{CHECK}
dataset = bp.open(sys.argv[1])
with dataset.batches("train", batch_size=10) as batches:
    found = sorted((x, t) for batch in batches for x, t in zip(*map(list, batch.values())))
encoded = dataset.encoder()([{{"x": x, "t": "ab"[x % 2]}} for x in range(99)])
assert found == sorted(zip(*map(list, encoded.values()))), (found, encoded)
try:
    bp.convert
except ImportError as error:
    assert "Install beam-pipelines " in str(error), error
else:
    raise AssertionError("bp.convert is there")
print(*sorted(name for name in sys.modules if "." not in name))
"""
# Modules of tests/support that the tests of the reader import.
SUPPORT = ("kernels", "__init__", "manifests", "small_dataset", "web_server", "wire")
# Packages that a training image is to be free of.
UNWANTED = {"apache_beam", "duckdb", "tensorflow", "tensorflow_transform", "tfx_bsl", "zlib_ng"}


def interpreters(newest: int) -> list[str]:
    """Returns the paths of this machine's Pythons from 3.10 on."""
    found = (shutil.which(f"python3.{minor}") for minor in range(10, newest + 1))
    # A version manager's command may be there without the version.
    return [
        path
        for path in found
        if path
        and not subprocess.run([path, "--version"], capture_output=True, check=False).returncode
    ]


def lowest() -> list[str]:
    """Returns the lowest versions that the reader's distribution allows."""
    return [bound.replace(">=", "==") for bound in READER["project"]["dependencies"]]


def one(pattern: str) -> Path:
    """Returns the only file in ``dist`` with such a name."""
    (path,) = DIST.glob(pattern)
    return path


def make_environment(python: str, folder: Path) -> Path:
    """Makes an environment, and returns its Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def pip(own: Path, *arguments: object) -> None:
    """Runs an environment's pip."""
    command = [own, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def run(own: Path, folder: Path, *arguments: object) -> str:
    """Runs an environment's Python in a folder, and returns its output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [own, *arguments],
        check=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def write_recipe(folder: Path) -> Path:
    """Writes 99 rows, and a recipe that encodes them."""
    rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(99))
    (folder / "rows.csv").write_text(f"x,t\n{rows}")
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "name: rows\nsources: {rows: rows.csv}\nencode: {x: z_score, t: vocabulary}\n"
    )
    return recipe


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """A dataset that this environment makes."""
    folder = tmp_path_factory.mktemp("dataset")
    command = ["-m", "beam_pipelines", "convert", write_recipe(folder), "--output", folder / "out"]
    run(Path(sys.executable), ROOT, *command)
    return folder / "out"


@pytest.mark.parametrize("python", interpreters(13))
def test_the_wheels_convert(python: str, tmp_path: Path) -> None:
    """The wheels convert after their installation alone; plugins add a command.

    They use this environment's packages if they are for the same Python.
    """
    own = make_environment(python, tmp_path / "venv")
    version = ("-c", "import sys; print(sys.version_info[:2])")
    if run(own, tmp_path, *version) == run(Path(sys.executable), tmp_path, *version):
        site = run(own, tmp_path, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        ours = [path for path in sys.path if path.endswith("site-packages")]
        (Path(site.strip()) / "packages.pth").write_text("\n".join(ours))
    else:
        # The list as it stands: on Python 3.10 pip finds no solution of its own (constraints.txt).
        pip(own, "install", "--no-deps", "--requirement", ROOT / "constraints.txt")
    pip(own, "install", "--no-deps", one(READER_WHEEL), one(FULL_WHEEL))
    recipe = write_recipe(tmp_path)
    run(own, tmp_path, "-c", CHECK)
    command = own.with_name("beam-pipelines")
    for arguments in (["convert", recipe, "--output", "out"], ["verify", "out"]):
        run(own, tmp_path, command, *arguments)
    pip(own, "install", "--no-deps", one(PLUGINS_WHEEL))
    run(own, tmp_path, command, "init", "rows.csv", "--output", "first.yaml")
    assert (tmp_path / "first.yaml").exists()


def test_the_slim_installation_converts(tmp_path: Path) -> None:
    """It takes 1.2 GB at most, and says what it lacks."""
    own = make_environment(sys.executable, tmp_path / "venv")
    slim = ("--no-deps", "--requirement", ROOT / "requirements-slim.txt")
    pip(own, "install", *slim, one(READER_WHEEL), one(FULL_WHEEL))
    recipe = write_recipe(tmp_path)
    command = own.with_name("beam-pipelines")
    for arguments in (["convert", recipe, "--output", "out"], ["verify", "out"]):
        run(own, tmp_path, command, *arguments)
    run(own, tmp_path, "-c", READ.partition("try:")[0], "out")
    size = sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*"))
    assert size < 1.2e9
    for arguments in (
        ["convert", recipe, "--output", "other", "--set", "output.serving=true"],
        ["graph", "out"],
    ):
        failed = subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert failed.returncode
        assert "without TensorFlow" in failed.stderr
        assert "pip install --constraint constraints.txt ./reader ." in failed.stderr


@pytest.mark.parametrize("python", interpreters(14))
def test_the_reader_reads_alone(python: str, tmp_path: Path, dataset: Path) -> None:
    """The reader's wheel reads a dataset, and passes its own tests.

    It does so with its own dependencies only, with their lowest versions where they are for this
    Python, and after the full package came and went.
    """
    own = make_environment(python, tmp_path / "venv")
    pip(own, "install", f"{one(READER_WHEEL)}[test]")
    assert UNWANTED & set(run(own, tmp_path, "-c", READ, dataset).split()) == set()
    for name in ("__init__.py", "reader", *(f"support/{name}.py" for name in SUPPORT)):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy
        copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-c", os.devnull]
    options += ["--rootdir", ".", "-o", "pythonpath=.", "--hypothesis-profile=ci"]
    print(run(own, tmp_path, "-m", "pytest", *options, "tests/reader"))
    if run(own, tmp_path, "-c", "import sys; print(sys.version_info < (3, 12))") == "True\n":
        versions = lowest()
        assert len(versions) == 7
        pip(own, "install", "--only-binary", ":all:", *versions)
        print(run(own, tmp_path, "-m", "pytest", *options, "tests/reader/test_values.py"))
        run(own, tmp_path, "-c", READ, dataset)
    pip(own, "install", "--no-deps", one(FULL_WHEEL))
    assert run(own, tmp_path, "-c", "import beam_pipelines.cli.start as one; print(one.main)")
    pip(own, "uninstall", "--yes", "beam-pipelines")
    run(own, tmp_path, "-c", READ, dataset)


def test_the_wheels_divide_the_package() -> None:
    """Each module is in one wheel.

    The reader's is abi3 for CPython 3.10 and later, with a manylinux tag; the other is for any
    system. No tests are in them.
    """
    assert "-cp310-abi3-manylinux" in one(READER_WHEEL).name
    assert one(FULL_WHEEL).name.endswith("-py3-none-any.whl")
    listed = [
        [name for name in zipfile.ZipFile(one(wheel)).namelist() if ".dist-info" not in name]
        for wheel in (READER_WHEEL, FULL_WHEEL)
    ]
    reader, full = listed
    assert set(reader) & set(full) == set()
    names = {name for name in reader + full if name.endswith(".py")}
    assert names == {path.as_posix() for path in modules()}
    plugins = {name for name in zipfile.ZipFile(one(PLUGINS_WHEEL)).namelist() if ".py" in name}
    folder = ROOT / "plugins"
    assert plugins == {
        path.relative_to(folder).as_posix()
        for path in (folder / "beam_pipelines_plugins").rglob("*.py")
    }
    assert "beam_pipelines/py.typed" in reader


def test_the_sdists_are_complete() -> None:
    """The reader's sdist has the C++ sources and build files."""
    found = []
    for name in ("beam_pipelines_reader", "beam_pipelines", "beam_pipelines_plugins"):
        pattern = f"{name}-*.tar.gz"
        with tarfile.open(one(pattern)) as archive:
            found.append({name.partition("/")[2] for name in archive.getnames()})
        assert {"pyproject.toml", "LICENSE", "README.md"} <= found[-1]
    native = ROOT / "beam_pipelines" / "core" / "_native"
    sources = {f"beam_pipelines/core/_native/{path.name}" for path in native.glob("*.[ch]*")}
    assert sources
    assert sources | {"setup.py"} <= found[0]
    assert "beam_pipelines/core/version.py" in found[1]
