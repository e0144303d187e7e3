"""Iceberg's files of deleted rows: positions in Parquet, vectors in Puffin."""

from __future__ import annotations

import collections
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files, input_roots
from beam_pipelines_plugins.lakehouses.snapshots import Positions

_MAGIC = bytes.fromhex("d1d33964")
# Path of a data file -> paths and formats of the files that delete some of its rows.
DeleteFiles = Mapping[str, Sequence[tuple[str, str]]]


def local_path(path: str) -> str:
    """Returns a path of Iceberg's metadata as this package writes it."""
    path = path.removeprefix("file://").removeprefix("file:")
    return f"s3://{path.partition('://')[2]}" if path.startswith(("s3a://", "s3n://")) else path


def read_deletes(delete_files: DeleteFiles) -> dict[str, Positions]:
    """Returns path of a data file -> its deleted rows.

    They are numbers from 0, ascending.

    Each file is read once.

    Raises:
      DataError: one cannot be read.
    """
    wanted: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for path, own in delete_files.items():
        for each in own:
            wanted[each].append(path)
    found: dict[str, list[Positions]] = collections.defaultdict(list)
    for (path, kind), data_files in wanted.items():
        input_roots.check(local_path(path))
        read = _vectors if kind.upper() == "PUFFIN" else _positions
        if kind.upper() not in ("PUFFIN", "PARQUET"):
            raise DataError(
                f"{path}: found deleted rows in {kind}, expected Parquet or Puffin. Have the "
                "table's files rewritten."
            )
        for data_file, positions in read(local_path(path), data_files).items():
            found[data_file].append(positions)
    return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}


def _positions(path: str, data_files: Sequence[str]) -> dict[str, Positions]:
    """Returns the positions in a Parquet file, of some data files."""
    found: dict[str, list[Positions]] = collections.defaultdict(list)
    known = pa.array(data_files, pa.string())
    with files.open_read(path) as file, files.reading(path):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        for batch in parquet.iter_batches(columns=["file_path", "pos"]):
            place = pc.index_in(batch.column("file_path").cast(pa.string()), known)
            own = batch.column("pos").to_numpy(zero_copy_only=False)
            for number in pc.unique(place.drop_null()).to_pylist():
                is_own = pc.fill_null(pc.equal(place, number), False)
                found[data_files[number]].append(own[is_own.to_numpy(zero_copy_only=False)])
    return {path: np.concatenate(parts) for path, parts in found.items()}


def _vectors(path: str, data_files: Sequence[str]) -> dict[str, Positions]:
    """Returns the deletion vectors in a Puffin file, of some data files.

    A vector is a magic number and a bitmap, with their length before and their CRC-32 behind.
    """
    from pyiceberg.table.puffin import PuffinFile
    from pyroaring import BitMap64

    puffin, known = PuffinFile(files.read_bytes(path)), set(data_files)
    found = {}
    for blob in puffin.footer.blobs:
        data_file = blob.properties.get("referenced-data-file", "")
        if data_file not in known:
            continue
        payload = puffin.get_blob_payload(blob)
        checksum = zlib.crc32(payload[4:-4])
        if payload[4:8] != _MAGIC or checksum != int.from_bytes(payload[-4:], "big"):
            raise DataError(
                f"{path}: found a damaged deletion vector of {data_file}, expected a whole one. "
                "Get the file again, or restore the table."
            )
        bitmap = BitMap64.deserialize(payload[8:-4])
        found[data_file] = np.array(bitmap.to_array(), np.int64)
    return found
