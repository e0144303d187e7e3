"""Hands batches to PyTorch or JAX, and asks for the rank.

Memory is shared where it can be. There are no texts among the arrays.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_pipelines.reader.features import ReadFeature

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Batch = dict[str, Any]
Handover = Callable[[Batch], Batch]

# Kind of batches -> the package that makes them, by its name in Python and in pip.
_PACKAGES = {
    "torch": ("torch", "PyTorch"),
    "jax": ("jax", "JAX"),
    "tf": ("tensorflow", "TensorFlow"),
}


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


def handover(as_: str, sharding: Any = None, batch_size: int = 0) -> Handover:
    """Returns the function that makes a batch of one of numpy arrays.

    Args:
      as_: kind of the batches.
      sharding: of JAX arrays, a ``jax.sharding.Sharding``, or ``None``.
      batch_size: rows of most batches; 0: it is not known.
    """
    makers = {"torch": _to_torch, "jax": lambda batch: _to_jax(batch, sharding, batch_size)}
    return makers.get(as_, lambda batch: batch)


def _to_torch(batch: Batch) -> Batch:
    import torch

    return {name: mapped(torch.from_numpy, value) for name, value in batch.items()}


def mapped(convert: Callable[[Any], Any], value: Any) -> Any:
    """Returns a value whose arrays are converted; ``Ragged`` and ``Keyed`` have several."""
    if isinstance(value, tuple):
        return type(value)(*(mapped(convert, part) for part in value))
    return convert(value)


def _to_jax(batch: Batch, sharding: Any, batch_size: int) -> Batch:
    import jax

    columns, arrays = dict[str, Any](), list[Any]()
    for name, value in batch.items():
        if sharding is None and getattr(value, "shape", None) == (batch_size,):
            columns[name] = value
        else:
            mapped(arrays.append, value)
    if columns:
        # Takes a sixth of the time of device_put, but is compiled for each shape: there is one.
        with jax.transfer_guard("allow"):
            columns = _identity()(columns)
    if sharding is None:
        # One call for all arrays takes half the time of a call for each. Arrays share aligned
        # memory on a CPU.
        made = iter(jax.device_put(arrays))
    else:
        make = jax.make_array_from_process_local_data
        made = (make(sharding, array) for array in arrays)

    return {
        name: columns[name] if name in columns else mapped(lambda _: next(made), value)
        for name, value in batch.items()
    }


@functools.cache
def _identity() -> Any:
    """Returns a compiled function that copies arrays to JAX's device."""
    import jax

    return jax.jit(lambda arrays: arrays)


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
                    f"it does not divide ({error}). Change batch_size, or give remainder='drop'."
                ) from error


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Returns rank and number of ranks.

    They are, in this order: those given; those of ``torch.distributed``, once it is initialized;
    those of ``jax.distributed``, once it is; ``RANK`` and ``WORLD_SIZE`` of torchrun; else 0 and 1.

    Raises:
      ValueError: only one of them is given, or the environment contradicts itself.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(
            f"rank, world_size: found {rank} and {world_size}, expected both or neither."
        )
    if rank is not None and world_size is not None:
        return rank, world_size
    return _of_torch() or _of_jax() or _of_torchrun(os.environ) or (0, 1)


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


def to_pandas(table: pa.Table, texts: Collection[str]) -> pd.DataFrame:
    """Returns examples as ``Dataset.to_pandas`` does.

    Args:
      table: as ``Dataset.head`` returns it.
      texts: names of the features that are texts.
    """
    import pyarrow as pa

    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"Dataset.to_pandas: found no pandas that can be imported ({error}), expected it. "
            "Install it: pip install pandas."
        ) from error

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_text = name in texts and pa.types.is_large_binary(column.type.value_type)
        values = (column.cast(pa.large_list(pa.large_string())) if is_text else column).to_pylist()
        is_single = all(value is not None and len(value) == 1 for value in values)
        columns[name] = [value[0] for value in values] if is_single and values else values
    return pd.DataFrame(columns)
