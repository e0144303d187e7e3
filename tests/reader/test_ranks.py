"""A process finds its rank in torch, JAX or the environment."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from beam_pipelines.reader.frameworks import find_rank

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Makes an environment of one process."""
    for name in ("RANK", "WORLD_SIZE", "TF_CONFIG"):
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


def config(kind, index):
    return json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("environment", "modules", "expected"),
    [
        ({}, {}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {}, (2, 3)),
        ({"RANK": "2"}, {}, (0, 1)),
        ({"TF_CONFIG": config("chief", 0)}, {}, (0, 3)),
        ({"TF_CONFIG": config("worker", 1)}, {}, (2, 3)),
        ({"TF_CONFIG": config("evaluator", 0)}, {}, (0, 1)),
        ({"TF_CONFIG": "{}"}, {}, (0, 1)),
        ({"TF_CONFIG": config("worker", 1), "RANK": "0", "WORLD_SIZE": "2"}, {}, (0, 2)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {"torch.distributed": torch(4, 5)}, (4, 5)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, {"torch.distributed": torch(4, 5, False)}, (2, 3)),
        ({}, {"jax": jax(6, 7)}, (6, 7)),
        ({}, {"jax": jax(6, 7, False)}, (0, 1)),
        ({}, {"jax": jax(6, 7), "torch.distributed": torch(4, 5)}, (4, 5)),
    ],
)
def test_found(monkeypatch, environment, modules, expected):
    """The first of torch, JAX, torchrun and TF_CONFIG that is there counts."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert find_rank(None, None) == expected
    assert find_rank(1, 8) == (1, 8)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "a", "WORLD_SIZE": "3"}, "found 'a' and '3' in the environment"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG: found {"),
        ({"TF_CONFIG": "[]"}, "TF_CONFIG: found"),
        ({"TF_CONFIG": config("worker", 2)}, "expected a cluster and a task of it"),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER})}, "expected a cluster and a task of it"),
    ],
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
