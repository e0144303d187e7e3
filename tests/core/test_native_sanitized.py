"""The kernels under AddressSanitizer and UBSan: their tests, and a fuzzer.

`make test-native` runs these.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CXX", "g++")
SANITIZE = [
    "-std=c++17",
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-pthread",
]
FUZZ_SECONDS = os.environ.get("FUZZ_SECONDS", "60")
OPTIONS = {
    # Python and the libraries around the kernels keep memory until the process ends.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
# Loads the sanitized extension where `beam_pipelines.core._native` would load its own, and runs
# tests in the same process.
RUN_TESTS = """
import importlib.machinery, importlib.util, sys
import pytest
name = "beam_pipelines.core._native._kernels"
loader = importlib.machinery.ExtensionFileLoader(name, sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
loader.exec_module(module)
sys.modules[name] = module
from beam_pipelines.core import _native
assert _native.shared.kernels is module
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[2:]]))
"""

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no {COMPILER}"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are preloaded as on Linux"),
]


def sources(*, with_module: bool) -> list[str]:
    """Returns the kernels' sources, with or without what needs Python."""
    of_python = {"module.cc", "import.cc", "export.cc"}
    paths = sorted((ROOT / "beam_pipelines" / "core" / "_native").glob("*.cc"))
    return [str(path) for path in paths if with_module or path.name not in of_python]


def test_fuzzer_finds_nothing(tmp_path: pathlib.Path) -> None:
    """The fuzzer touches no byte beyond a buffer.

    It makes arrays, texts and messages, sound and hostile, from random bytes. The kernels
    serialize, hash, parse or refuse them.
    """
    program = str(tmp_path / "fuzz")
    subprocess.run(
        [
            COMPILER,
            *SANITIZE,
            str(ROOT / "tests/core/native/fuzz.cc"),
            *sources(with_module=False),
            "-o",
            program,
        ],
        check=True,
    )
    run = subprocess.run(
        [program, FUZZ_SECONDS],
        env={**os.environ, **OPTIONS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert int(run.stdout.split()[0]) > 1000


def test_tests_pass_with_sanitizers(tmp_path: pathlib.Path) -> None:
    """The kernels' tests pass with both sanitizers in the extension."""
    library = str(tmp_path / "_kernels.abi3.so")
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        [
            COMPILER,
            *SANITIZE,
            "-fPIC",
            "-shared",
            f"-I{include}",
            *sources(with_module=True),
            "-o",
            library,
        ],
        check=True,
    )
    runtimes = [
        subprocess.run(
            [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
    ]
    # The runtimes find exceptions' machinery when they are loaded, so it is loaded with them.
    environment = {**os.environ, **OPTIONS, "LD_PRELOAD": " ".join(runtimes)}
    tests = [
        str(path)
        for path in sorted(pathlib.Path(__file__).parent.glob("test_native*.py"))
        if path.name != pathlib.Path(__file__).name
    ]
    run = subprocess.run(
        [sys.executable, "-c", RUN_TESTS, library, *tests],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert "skipped" not in run.stdout
