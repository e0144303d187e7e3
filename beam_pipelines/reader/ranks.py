"""Finds which part of each global batch a process reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

# The tasks of TF_CONFIG that train, in the order of their ranks.
_TRAINERS = ("chief", "master", "worker")


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Returns rank and number of ranks.

    They are, in this order: those given; those of ``torch.distributed``, once it is initialized;
    those of ``jax.distributed``, once it is; ``RANK`` and ``WORLD_SIZE`` of torchrun; those of
    ``TF_CONFIG``; else 0 and 1.

    Raises:
      ValueError: only one of them is given, or the environment contradicts itself.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(
            f"rank, world_size: found {rank} and {world_size}, expected both or neither."
        )
    if rank is not None and world_size is not None:
        return rank, world_size
    return (
        _of_torch() or _of_jax() or _of_torchrun(os.environ) or _of_tensorflow(os.environ) or (0, 1)
    )


def _of_torch() -> tuple[int, int] | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _of_jax() -> tuple[int, int] | None:
    jax: Any = sys.modules.get("jax")
    # To ask a JAX that is not initialized for its processes would take its devices.
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if is_initialized is None or not is_initialized():
        return None
    return jax.process_index(), jax.process_count()


def _of_torchrun(environment: Mapping[str, str]) -> tuple[int, int] | None:
    texts = environment.get("RANK"), environment.get("WORLD_SIZE")
    if texts[0] is None or texts[1] is None:
        return None
    try:
        return int(texts[0]), int(texts[1])
    except ValueError as error:
        raise ValueError(
            f"RANK, WORLD_SIZE: found '{texts[0]}' and '{texts[1]}' in the environment, expected "
            "two numbers. Give batches() rank and world_size."
        ) from error


def _of_tensorflow(environment: Mapping[str, str]) -> tuple[int, int] | None:
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        tasks = [
            (kind, index)
            for kind in _TRAINERS
            for index in range(len(config.get("cluster", {}).get(kind, ())))
        ]
        if not tasks:
            return None
        task = config["task"]["type"], int(config["task"]["index"])
        if task[0] in _TRAINERS:
            return tasks.index(task), len(tasks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"TF_CONFIG: found {text} in the environment, expected a cluster and a task of it. "
            "Give batches() rank and world_size."
        ) from error
    return 0, 1  # an evaluator reads alone
