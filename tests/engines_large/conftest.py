"""Starts each engine once, with the fixtures of the small suite.

Tables and references are made on their first use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.engines.conftest import pytest_runtest_makereport, started
from tests.engines.engines import STARTERS
from tests.engines_large import cases

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(name, marks=getattr(pytest.mark, name)) for name in STARTERS if name != "fnapi"
    ],
)
def engine(request, tmp_path_factory):
    """Every engine, one after the other, each started once."""
    with started(STARTERS[request.param](tmp_path_factory.mktemp(request.param))) as running:
        yield running


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], cases.Made]:
    """Case -> its tables, and what Beam's local runner makes of them."""
    folder = tmp_path_factory.mktemp("large")

    @functools.cache
    def make(name: str) -> cases.Made:
        return cases.make(name, folder / name)

    return make
