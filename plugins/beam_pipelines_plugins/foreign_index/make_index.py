"""Makes indexes for datasets and for files of other writers."""

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
    DALI_SUFFIX,
    MANIFEST,
    SPLIT_PREFIX,
    dali_path,
    file_index_path,
)
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.shard_formats import PartCompression, compression_of
from beam_pipelines.dataset.manifest import add_files, read_manifest
from beam_pipelines.storage import file_checksums, files, input_files
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
    """Makes the indexes of a dataset, or of a pattern's files.

    A dataset's index is in ``index/``. That of another file is in ``_index/`` in its folder, with
    the name of the file.

    Args:
      path: of a dataset's folder, of a file, or a pattern.
      dali: also writes NVIDIA DALI's index of each uncompressed file, a line for each record with
        its offset and size: to ``_index/``, of a dataset's shard to ``index/dali/``.

    Raises:
      DataError: there is no such file, one is damaged, or the shards are not the manifest's.
    """
    if not files.is_local(path):
        raise DataError(
            f"{path}: found files on a storage, expected local ones, which are read in any order. "
            "Copy them first."
        )
    if files.exists(files.join(path, MANIFEST)):
        yield from _of_dataset(path, read_manifest(path), dali)
        return
    if os.path.isdir(path):
        raise DataError(
            f"{path}: found a folder without {MANIFEST}, expected a dataset or files. Name the "
            f"files, as in '{files.join(path, '*.tfrecord')}'."
        )
    found = input_files.list_files(path)
    if not found:
        raise DataError(f"{path}: no file matches. Check the path.")
    yield from _in_threads(partial(_of_file, dali=dali), [listed.path for listed in found])


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


def _of_file(path: str, dali: bool) -> MadeIndex:
    if path.endswith(".parquet"):
        raise DataError(
            f"{path}: found a Parquet file, whose footer is its index, expected TFRecords or the "
            "folder of a dataset."
        )
    split = os.path.dirname(os.path.abspath(path))
    folder = os.path.dirname(os.path.dirname(split))
    if files.name_of(split).startswith(SPLIT_PREFIX) and files.exists(files.join(folder, MANIFEST)):
        raise DataError(
            f"{path}: found a shard of a dataset, where nothing is added to the folders of splits, "
            f"expected a file of another writer. Name the dataset: {folder}."
        )
    compression = compression_of(path)
    scanned, checked = _scan(path, compression, file_index_path(path, DALI_SUFFIX) if dali else "")
    shard = IndexedShard(files.name_of(path), *checked)
    return _write(file_index_path(path), compression, [shard], [scanned])


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
