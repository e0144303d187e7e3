"""Fixtures and hooks that several test modules share."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from beam_pipelines.core import _native

# In CI a change passes or fails by what it changed, not by chance; everywhere else hypothesis goes
# on looking.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

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


@pytest.fixture(scope="module", params=[True, False], ids=["native", "arrow"])
def with_and_without_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a module's tests twice: with the C++ kernels and without them."""
    before = _native.KERNELS_AVAILABLE
    if request.param and not before:
        pytest.skip("the C++ kernels are not built")
    _native.KERNELS_AVAILABLE = request.param
    yield
    _native.KERNELS_AVAILABLE = before


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names bytes by their length.

    Bytes may contain a time, and all pytest workers must agree on the names of tests.
    """
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None
