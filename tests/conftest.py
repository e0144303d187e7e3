"""What several test modules share."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The top of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def flights_data() -> pathlib.Path:
    """The folder with the five flights tables, put there by the example's own script."""
    folder = REPOSITORY / ".demo" / "flights-data"
    script = REPOSITORY / "examples" / "flights" / "get_data.py"
    subprocess.run([sys.executable, script, "--output", folder], check=True, capture_output=True, text=True)
    return folder


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names bytes by their length: what is in them may have a time in it, and workers have to agree on the names of tests."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None
