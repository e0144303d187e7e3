"""Fixtures and hooks that several test modules share."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from beam_pipelines.core import _native
from beam_pipelines.core.process import python_process
from beam_pipelines.runners.beam_patches import patch_command_process
from beam_pipelines.serving import process
from tests.support.chromium import CHROMIUM, OPTIONS
from tests.support.graph_server import GraphServer
from tests.support.kernels import without_kernels

# In CI a change passes or fails by what it changed, not by chance; everywhere else hypothesis goes
# on looking. No test fails because a machine is busy, so there are no deadlines, and draws may be
# slow. All examples of a property share the fixtures of its test.
# Some tests ask for more or fewer examples; 50 of each property find what a change breaks.
CHECKS = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
OWN = hypothesis.settings(deadline=None, max_examples=50, suppress_health_check=CHECKS)
hypothesis.settings.register_profile("own", OWN)
hypothesis.settings.register_profile("ci", OWN, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "own")

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The top of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def flights_data() -> pathlib.Path:
    """The folder of the flights tables, made by the example's script."""
    folder = REPOSITORY / ".demo" / "flights-data"
    script = REPOSITORY / "examples" / "flights" / "get_data.py"
    subprocess.run(
        [sys.executable, script, "--output", folder], check=True, capture_output=True, text=True
    )
    return folder


@pytest.fixture(scope="module", params=[True, False], ids=["native", "reference"])
def with_and_without_kernels(request: pytest.FixtureRequest) -> None:
    """Runs a module's tests twice: with the C++ kernels and without them."""
    if request.param and not _native.KERNELS_AVAILABLE:
        pytest.skip("the C++ kernels are not built")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Runs a test on the kernels' reference where it asks for it.

    A fixture of a module would go on for tests behind it that do not.
    """
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    is_native = parameters.get("with_and_without_kernels", True)
    with contextlib.nullcontext() if is_native else without_kernels():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _graph_server() -> Iterator[None]:
    """Forks the processes that build serving graphs, where each would load TensorFlow."""
    server = GraphServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "python_process", types.SimpleNamespace(start=server.start))
        yield
    server.close()


@pytest.fixture(scope="session", autouse=True)
def _patched_beam() -> None:
    """Runs conversions as commands do: a quarter of their CPU time less."""
    patch_command_process()


@pytest.fixture
def own_graph_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds serving graphs as commands do, each in its own interpreter."""
    monkeypatch.setattr(process, "python_process", python_process)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names bytes by their argument; pytest numbers those of one name.

    Bytes may have a time, and pickles other lengths in a process that has compiled the module. All
    pytest workers must agree on the names of tests.
    """
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once: Playwright runs once in a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()
