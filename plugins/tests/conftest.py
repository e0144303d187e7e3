"""The fixtures of tests/conftest.py."""

from tests.conftest import (
    _graph_server,
    _patched_beam,
    flights_data,
    own_graph_process,
    pytest_runtest_protocol,
    repository,
    with_and_without_kernels,
)

__all__ = [
    "_graph_server",
    "_patched_beam",
    "flights_data",
    "own_graph_process",
    "pytest_runtest_protocol",
    "repository",
    "with_and_without_kernels",
]
