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
