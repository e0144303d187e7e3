"""Verifies the indexes of a dataset against its shards."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.compression import PARQUET_COMPRESSION, PartCompression
from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.manifest import Manifest
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.tfrecord.part_index import (
    IndexedShard,
    PartIndex,
    parse_index,
    read_index,
    shards_by_index,
)
from beam_pipelines.tfrecord.parts import inflate_part

_CURE = "Make the index again with 'beam-pipelines index'."


class ShardParts(NamedTuple):
    """An index, and a shard's number in it."""

    parts: PartIndex
    number: int


def indexes_of(
    folder: str, manifest: Manifest, changed: Collection[str]
) -> Iterator[tuple[PartIndex | DataError, list[str]]]:
    """Yields each index of a dataset with its shards' paths.

    If an index is wrong, its error takes its place. Those that are changed are left out.
    """
    for name, split in manifest["splits"].items():
        for inner, shards in shards_by_index(name, split["shards"]).items():
            path = files.within(folder, inner)
            if inner not in changed and files.exists(path):
                yield _opened(path, manifest["compression"], shards), [s.name for s in shards]


def _opened(
    path: str, compression: PartCompression, shards: Sequence[IndexedShard]
) -> PartIndex | DataError:
    try:
        if files.is_local(path):
            return read_index(path, compression, shards)
        return parse_index(pa.py_buffer(files.read_bytes(path)), path, compression, shards)
    except DataError as error:
        return error


def check_parts(path: str, shard: ShardParts) -> None:
    """Reads each part of a shard by the index, and checks it.

    Raises:
      DataError: a part has other bytes or records than the index says.
    """
    index, columns = shard.parts, shard.parts.columns
    with files.open_read(path) as file:
        for part in index.parts_of_shard(shard.number):
            file.seek(int(columns.offset[part]))
            data = file.read(int(columns.bytes[part]))
            where = f"{index.path}, part {part} of {path}"
            if index.compression == PARQUET_COMPRESSION:
                found, expected = isal_zlib.crc32(data), int(columns.crc32[part])
                if found != expected:
                    raise DataError(
                        f"{where}: found a row group with CRC-32 {found:08x}, expected "
                        f"{expected:08x}. {_CURE}"
                    )
                continue
            try:
                records = inflate_part(index, part, data)
            except ValueError as error:
                raise DataError(f"{where}: {error}. {_CURE}") from error
            blocks = read_record_blocks(io.BytesIO(records), where, "none")
            found = sum(map(len, blocks))
            if found != columns.rows[part]:
                raise DataError(
                    f"{where}: found {found:,} records, expected {columns.rows[part]:,}. {_CURE}"
                )
