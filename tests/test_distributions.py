"""The distributions divide the package, folder by folder."""

from __future__ import annotations

import ast
import fnmatch
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import beam_pipelines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
READER, FULL, PLUGINS = (
    tomllib.loads((ROOT / path).read_text())
    for path in ("reader/pyproject.toml", "pyproject.toml", "plugins/pyproject.toml")
)
# Distributions whose modules have other names.
MODULE_OF = {
    "google-crc32c": "google_crc32c",
    "protobuf": "google",
    "pyyaml": "yaml",
    "tensorflow-metadata": "tensorflow_metadata",
}
# A function, or a module that only a function imports, may import these, which its caller has: an
# array's own package, those that decode images, or TensorFlow for a serving graph.
IN_FUNCTIONS = {
    *("PIL", "duckdb", "jax", "pandas", "simplejpeg", "tensorflow"),
    *("device_images.py", "torch", "torchvision", "triton"),
}
FLAT = list((ROOT / "beam_pipelines" / "files").glob("[!_]*.py"))


def folders_of(project: dict) -> list[str]:
    """Returns the patterns of a distribution's packages."""
    return project["tool"]["setuptools"]["packages"]["find"]["include"]


def modules() -> list[Path]:
    """Returns the package's Python files, relative to the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "beam_pipelines"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.splitlines() if name.endswith(".py")]


def is_in(path: Path, project: dict) -> bool:
    """Whether a file's package is one of a distribution's."""
    package = ".".join(path.parent.parts)
    return any(fnmatch.fnmatchcase(package, pattern) for pattern in folders_of(project))


def imports(tree: ast.AST, is_function: bool = False) -> Iterator[tuple[str, bool]]:
    """Yields each imported top-level module, and whether a function imports it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((name.name.partition(".")[0], is_function) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0], is_function
        yield from imports(node, is_function or isinstance(node, ast.FunctionDef))


def test_each_module_is_in_one_distribution():
    """No module is in both distributions, and none in neither."""
    owners = {path: [is_in(path, READER), is_in(path, FULL)] for path in modules()}
    assert {path for path, found in owners.items() if sum(found) != 1} == set()
    assert owners[Path("beam_pipelines/__init__.py")] == [True, False]


def test_contract_names_the_same_folders():
    """The contract of import-linter is about the folders of the distributions."""
    (contract,) = (
        one for one in FULL["tool"]["importlinter"]["contracts"] if "is complete" in one["name"]
    )
    for project, key in ((READER, "source_modules"), (FULL, "forbidden_modules")):
        wanted = {folder.removesuffix("*") for folder in folders_of(project)}
        if "beam_pipelines.files" in wanted:  # without its folder, which is the other's
            wanted |= {f"beam_pipelines.files.{path.stem}" for path in FLAT}
        wanted -= {"beam_pipelines", "beam_pipelines.files"}
        assert set(contract[key]) - {"beam_pipelines.__main__"} == wanted


def test_the_reader_imports_its_dependencies_alone():
    """The reader's modules import the declared packages, and all of them.

    Some functions import a package that their caller has.
    """
    names = [re.split(r"[<>=]", one)[0].lower() for one in READER["project"]["dependencies"]]
    allowed = {MODULE_OF.get(name, name) for name in names}
    found: dict[str, set[str]] = {}
    for path in modules():
        if is_in(path, READER):
            for module, is_function in imports(ast.parse((ROOT / path).read_text())):
                is_asked_for = is_function or path.name in IN_FUNCTIONS
                if module not in sys.stdlib_module_names | {"beam_pipelines"} and not (
                    is_asked_for and module in IN_FUNCTIONS
                ):
                    found.setdefault(module, set()).add(path.as_posix())
    assert {name: paths for name, paths in found.items() if name not in allowed} == {}
    assert set(found) == allowed


def test_all_have_one_version():
    """The distributions ask for each other in their own version."""
    wanted = f"beam-pipelines-reader=={beam_pipelines.__version__}"
    assert wanted in FULL["project"]["dependencies"]
    plugins = PLUGINS["project"]
    assert plugins["version"] == beam_pipelines.__version__
    assert f"beam-pipelines=={beam_pipelines.__version__}" in plugins["dependencies"]
    for extra, wanted in FULL["project"]["optional-dependencies"].items():
        if extra in plugins["optional-dependencies"]:
            assert wanted == [f"beam-pipelines-plugins[{extra}]=={beam_pipelines.__version__}"]
    versions = [project["tool"]["setuptools"]["dynamic"]["version"] for project in (READER, FULL)]
    assert versions[0] == versions[1] == {"attr": "beam_pipelines.core.version.__version__"}


@pytest.mark.parametrize("name", ["google-crc32c", "isal", "numpy", "pyarrow", "PyYAML"])
def test_lower_bounds_agree(name):
    """Both distributions have the same lower bounds."""
    bounds = []
    for project in (READER, FULL):
        (found,) = (one for one in project["project"]["dependencies"] if one.startswith(name))
        bounds.append(re.search(r">=([\d.]+)", found)[1])
    assert bounds[0] == bounds[1]


def test_install_page_lists_every_extra():
    """docs/install.md has each extra for users, and no other."""
    page = (ROOT / "docs" / "install.md").read_text().partition("| Extra |")[2]
    shown = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    assert shown == set(FULL["project"]["optional-dependencies"]) - {"dev", "fuzz", "test"}


def required(name: str, found: set[str]) -> set[str]:
    """Adds all that a package asks for, without TensorFlow."""
    asks = () if name == "tfx-bsl" else importlib.metadata.requires(name) or ()
    for asked in map(Requirement, asks):
        asked_name = canonicalize_name(asked.name)
        wanted = asked.marker is None or asked.marker.evaluate({"extra": ""})
        if wanted and asked_name not in found | {"tensorflow-transform"}:
            found.add(asked_name)
            required(asked_name, found)
    return found


def test_the_slim_installation_has_what_is_imported():
    """Its list has the constraints' lines of what is asked for."""
    listed, constraints = (
        {line for line in (ROOT / name).read_text().splitlines() if line and line[0] != "#"}
        for name in ("requirements-slim.txt", "constraints.txt")
    )
    assert listed <= constraints
    ours = {"beam-pipelines", "beam-pipelines-reader"}
    here = [one for one in map(Requirement, listed) if not one.marker or one.marker.evaluate()]
    if any(importlib.metadata.version(one.name) not in one.specifier for one in here):
        pytest.skip("other versions are installed, which may ask for other packages")
    names = {canonicalize_name(one.name) for one in here}
    assert names == required("beam-pipelines", set(ours)) - ours
