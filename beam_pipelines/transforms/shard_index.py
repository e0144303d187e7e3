"""Indexes of single shards, and of all shards of a split.

The worker that writes a shard writes the index of its parts into a file of its own, which the
commit joins to those of the other shards. So no element that crosses an engine grows with a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.compression import PartCompression
from beam_pipelines.core.dataset_layout import INDEX, INDEX_SUFFIX
from beam_pipelines.storage import files
from beam_pipelines.tfrecord import part_index

# Requests to an object store at once.
_THREADS = 16


def own_index_path(shard: str) -> str:
    """Returns the path of one shard's index in the temporary folder.

    It is ``index/Split-train/flights-00000-of-00008.tfrecord.gz.arrow``, say.
    """
    return f"{INDEX}/{shard.partition('/')[2]}{INDEX_SUFFIX}"


def write_own_index(
    shard: part_index.IndexedShard,
    compression: PartCompression,
    parts: part_index.PartColumns,
    folder: str,
) -> None:
    """Writes the index of one shard.

    Args:
      shard, compression: of the file.
      parts: of the shard, with the number 0.
      folder: of the shards and their indexes.
    """
    with files.replace(files.within(folder, own_index_path(shard.name))) as file:
        part_index.write_index(file, part_index.make_index(compression, [shard], parts))


def read_own_index(
    shard: part_index.IndexedShard, compression: PartCompression, folder: str
) -> part_index.PartIndex:
    """Returns the index of one shard.

    Raises:
      DataError: it is missing, damaged, or of other bytes than the shard's.
    """
    path = files.within(folder, own_index_path(shard.name))
    return part_index.parse_index(pa.py_buffer(files.read_bytes(path)), path, compression, [shard])


def join_indexes(
    shards: Sequence[part_index.IndexedShard], compression: PartCompression, folder: str
) -> part_index.PartIndex:
    """Returns the index of a split's shards.

    Args:
      shards: in the manifest's order.
      compression: of all.
      folder: where the shards' own indexes are.

    Raises:
      DataError: one is missing, damaged, or of other bytes than its shard's.
    """
    read = partial(read_own_index, compression=compression, folder=folder)
    counts: list[int] = []
    # A shard's own index numbers it 0.
    fields = list(part_index.PartColumns._fields[1:])
    joined: dict[str, tuple[bytearray, np.dtype[Any]]] = {
        name: (bytearray(), np.dtype(np.int64)) for name in fields
    }
    with ThreadPoolExecutor(_THREADS) as executor:
        # A few at a time: the indexes of all shards take as much memory as the joined one.
        for start in range(0, len(shards), _THREADS):
            for index in executor.map(read, shards[start : start + _THREADS]):
                counts.append(len(index))
                for name in fields:
                    column = getattr(index.columns, name)
                    joined[name][0].extend(column.tobytes())
                    joined[name] = joined[name][0], column.dtype
    numbers = np.repeat(np.arange(len(shards), dtype=np.int32), counts)
    columns: list[Any] = [np.frombuffer(*joined[name]) for name in fields]
    return part_index.make_index(compression, shards, part_index.PartColumns(numbers, *columns))
