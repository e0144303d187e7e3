"""Hands batches of numpy arrays to PyTorch or JAX.

Memory is shared where it can be. There are no texts among the arrays.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from beam_pipelines.reader.features import ReadFeature

Batch = dict[str, Any]
Handover = Callable[[Batch], Batch]

# Kind of batches -> the package that makes them, by its name in Python and in pip.
_PACKAGES = {"torch": ("torch", "PyTorch"), "jax": ("jax", "JAX")}


def check_installed(as_: str) -> None:
    """Checks that the package of a kind of batches can be imported.

    Raises:
      ValueError: it cannot.
    """
    if as_ not in _PACKAGES:
        return
    package, name = _PACKAGES[as_]
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ValueError(
            f"as_: found '{as_}', but {name} cannot be imported ({error}). Install {package}, or "
            "use as_='numpy'."
        ) from error


def handover(as_: str, sharding: Any) -> Handover:
    """Returns the function that makes a batch of one of numpy arrays."""
    if as_ == "torch":
        return _to_torch
    if as_ == "jax":
        return lambda batch: _to_jax(batch, sharding)
    return lambda batch: batch


def _to_torch(batch: Batch) -> Batch:
    import torch

    return {name: mapped(torch.from_numpy, value) for name, value in batch.items()}


def mapped(convert: Callable[[Any], Any], value: Any) -> Any:
    """Returns a value whose arrays are converted; ``Ragged`` and ``Keyed`` have several."""
    if isinstance(value, tuple):
        return type(value)(*(mapped(convert, part) for part in value))
    return convert(value)


def _to_jax(batch: Batch, sharding: Any) -> Batch:
    import jax

    arrays: list[Any] = []
    for value in batch.values():
        mapped(arrays.append, value)
    if sharding is None:
        # One call for all arrays takes half the time of a call for each. Arrays share aligned
        # memory on a CPU.
        made = iter(jax.device_put(arrays))
    else:
        make = jax.make_array_from_process_local_data
        made = (make(sharding, array) for array in arrays)

    return {name: mapped(lambda _: next(made), value) for name, value in batch.items()}


def without_int64(features: Sequence[ReadFeature], types: Iterable[str]) -> list[ReadFeature]:
    """Returns features for JAX, with int32 unless it has int64.

    Args:
      features: to read.
      types: names of those whose type was given.

    Raises:
      ValueError: a given type is int64, and JAX is set to 32 bits.
    """
    import jax

    if jax.config.jax_enable_x64:
        return list(features)
    given = {feature.name for feature in features if feature.name in set(types)}
    for feature in features:
        if feature.name in given and feature.dtype == np.int64:
            raise ValueError(
                f"types: found 'int64' for feature '{feature.name}', but JAX is set to 32 bits, "
                "expected a narrower type. Call jax.config.update('jax_enable_x64', True) before, "
                "or leave it out."
            )
    return [
        feature._replace(dtype=np.dtype(np.int32)) if feature.dtype == np.int64 else feature
        for feature in features
    ]


def check_sharding(
    as_: str, sharding: Any, features: Sequence[ReadFeature], batch_sizes: Iterable[int]
) -> None:
    """Checks that global batches can be divided among devices.

    Args:
      as_: kind of the batches.
      sharding: a ``jax.sharding.Sharding``, or ``None``.
      features: to read.
      batch_sizes: rows of the global batches.

    Raises:
      ValueError: they cannot.
    """
    if sharding is None:
        return
    if as_ != "jax":
        raise ValueError(f"sharding: found it with as_='{as_}', expected as_='jax'.")
    for feature in features:
        shape = feature.shape
        if feature.image is not None:
            shape = (*feature.image.size, feature.image.channels)
        elif feature.length and feature.padding is not None and feature.steps != "several":
            shape = (feature.length,)
        if shape is None or feature.keyed is not None:
            raise ValueError(
                f"sharding: found feature '{feature.name}', whose batches have several lengths, "
                "expected features of one shape. Give it a fill value, or padding and 'lengths'; "
                "or leave it out of 'columns' and 'keyed'."
            )
        for size in batch_sizes:
            try:
                sharding.shard_shape((size, *shape))
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"sharding: found batches of {size:,} rows of feature '{feature.name}', which "
                    f"it does not divide ({error}). Change batch_size, or give "
                    "remainder='drop'."
                ) from error
