"""A process finds its rank in torch, JAX or the environment."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from beam_pipelines.reader.frameworks import find_rank


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Makes an environment of one process."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("torch.distributed", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def torch(rank, world_size, is_initialized=True):
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: is_initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
    )


def jax(rank, world_size, is_initialized=True):
    return SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: is_initialized),
        process_index=lambda: rank,
        process_count=lambda: world_size,
    )


@pytest.mark.parametrize(
    ("environment", "modules", "expected"),
    [
        ({}, {}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {}, (2, 3)),
        ({"RANK": "2"}, {}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {"torch.distributed": torch(4, 5)}, (4, 5)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {"torch.distributed": torch(4, 5, False)}, (2, 3)),
        ({}, {"jax": jax(6, 7)}, (6, 7)),
        ({}, {"jax": jax(6, 7, False)}, (0, 1)),
        ({}, {"jax": jax(6, 7), "torch.distributed": torch(4, 5)}, (4, 5)),
    ],
)
def test_found(monkeypatch, environment, modules, expected):
    """The first of torch, JAX and torchrun that is there counts."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert find_rank(None, None) == expected
    assert find_rank(1, 8) == (1, 8)


@pytest.mark.parametrize(
    ("environment", "message"),
    [({"RANK": "a", "WORLD_SIZE": "3"}, "found 'a' and '3' in the environment")],
)
def test_contradictions(monkeypatch, environment, message):
    """An environment that contradicts itself is an error, and not rank 0."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        find_rank(None, None)


def test_one_of_two():
    """Rank and number of ranks are given together."""
    with pytest.raises(ValueError, match="found 1 and None, expected both or neither"):
        find_rank(1, None)
