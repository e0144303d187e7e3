"""Makes the indexes of datasets that lack them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import (
    MANIFEST,
    dali_path,
)
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.shard_formats import PartCompression
from beam_pipelines.dataset.manifest import add_files, read_manifest
from beam_pipelines.storage import file_checksums, files
from beam_pipelines.tfrecord.part_index import (
    IndexedShard,
    PartColumns,
    make_index,
    shards_by_index,
    write_index,
)
from beam_pipelines_plugins.foreign_index.scan import Scanned, scan_file, scan_parquet


class MadeIndex(NamedTuple):
    """An index that was made.

    Attributes:
      path: of the index.
      files, rows, parts: their numbers.
    """

    path: str
    files: int
    rows: int
    parts: int


def make_indexes(path: str, dali: bool = False) -> Iterator[MadeIndex]:
    """Makes the indexes of a dataset, in ``index/``.

    Args:
      path: of a dataset's folder.
      dali: also writes NVIDIA DALI's index of each uncompressed shard, a line for each record with
        its offset and size, to ``index/dali/``.

    Raises:
      DataError: it is no dataset here, or the shards are not the manifest's.
    """
    if not files.is_local(path):
        raise DataError(
            f"{path}: found files on a storage, expected local ones, which are read in any order. "
            "Copy them first."
        )
    if not files.exists(files.join(path, MANIFEST)):
        raise DataError(
            f"{path}: found no {MANIFEST}, expected the folder of a dataset. Files of other "
            "writers are read whole, and several at once."
        )
    yield from _of_dataset(path, read_manifest(path), dali)


def _of_dataset(folder: str, manifest: Manifest, dali: bool) -> Iterator[MadeIndex]:
    made = []
    for name, split in manifest.splits.items():
        for inner, shards in shards_by_index(name, split.shards).items():
            scan = partial(_scan_shard, folder, manifest.compression, dali)
            scanned = list(_in_threads(scan, shards))
            made.append(inner)
            yield _write(files.within(folder, inner), manifest.compression, shards, scanned)
    add_files(folder, made)


def _scan_shard(
    folder: str, compression: PartCompression, dali: bool, shard: IndexedShard
) -> Scanned:
    path = files.within(folder, shard.name)
    dali_index = files.within(folder, dali_path(shard.name)) if dali else ""
    scanned, checked = _scan(path, compression, dali_index)
    if checked != shard[1:]:
        rows, size, crc32c = checked
        raise DataError(
            f"{path}: found {rows:,} records in {size:,} bytes with CRC-32C {crc32c}, expected "
            f"{shard.rows:,} in {shard.bytes:,} bytes with {shard.crc32c} as {MANIFEST} "
            "says. The shard was changed: convert again with --overwrite."
        )
    return scanned


def _scan(
    path: str, compression: PartCompression, dali_index: str
) -> tuple[Scanned, tuple[int, int, str]]:
    """Returns a file's parts; and its rows, bytes and CRC-32C.

    It writes DALI's index of an uncompressed file, unless its path is "".
    """
    if not files.exists(path):
        raise DataError(f"{path}: the file is missing. Check the path.")
    scanned = scan_parquet(path) if compression == "zstd" else scan_file(path, compression)
    size, crc = file_checksums.size_and_crc32c(path)
    if dali_index and scanned.sizes is not None:
        _write_dali(dali_index, scanned.sizes)
    return scanned, (scanned.rows, size, f"{crc:08x}")


def _write_dali(path: str, sizes: np.ndarray) -> None:
    starts = np.cumsum(sizes) - sizes
    columns = pa.table({"offset": starts, "size": sizes})
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ")
    with files.replace(path) as file:
        pa_csv.write_csv(columns, file, options)


def _write(
    path: str,
    compression: PartCompression,
    shards: Sequence[IndexedShard],
    scanned: Sequence[Scanned],
) -> MadeIndex:
    counts = [len(own.columns.rows) for own in scanned]
    columns = [np.concatenate(own) for own in zip(*(own.columns for own in scanned), strict=True)]
    columns[0] = np.repeat(np.arange(len(scanned), dtype=np.int32), counts)
    index = make_index(compression, shards, PartColumns(*columns))
    with files.replace(path) as file:
        write_index(file, index)
    return MadeIndex(path, len(shards), index.rows, len(index))


def _in_threads(function: Callable[..., Any], values: Sequence[Any]) -> Iterator[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        yield from executor.map(function, values)
