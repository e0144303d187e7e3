"""Reads the shards of lanes in windows of framed records."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.core import regular_files
from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.order import Epoch, Int64s, Lane
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.tfrecord.record_block import RecordBlock

# Decompressed bytes of a lane that are read at a time.
CHUNK_BYTES = 512 << 10


class ShardFile(NamedTuple):
    """A shard's path, and its rows and bytes by the manifest."""

    path: str
    rows: int
    bytes: int


class Window(NamedTuple):
    """The records of a lane's window, in the shards' order.

    Attributes:
      start: the first one's number in the lane.
      chunks: arrays of framed records.
      order: int64[n], the records in the window's order, counted from its first.
    """

    start: int
    chunks: list[pa.LargeBinaryArray]
    order: Int64s


def windows(
    files: Sequence[ShardFile], compression: str, epoch: Epoch, lane: Lane, first: int
) -> Iterator[Window]:
    """Yields the windows of a lane, from number ``first``.

    Raises:
      DataError: a shard is missing, damaged, or has other rows or bytes than the manifest says.
    """
    start, _ = lane.bounds(first)
    blocks = _blocks(files, compression, lane, start)
    rest: RecordBlock | None = None
    for number in itertools.count(first):
        start, end = lane.bounds(number)
        missing, chunks = end - start, []
        while missing:
            block = rest or next(blocks)
            chunks.append(block[:missing].frames())
            missing -= len(chunks[-1])
            rest = block[len(chunks[-1]) :]
        if end == lane.rows:
            next(blocks, None)  # checks that the last shard ends here
        yield Window(start, chunks, epoch.permutation(lane, number))
        if end == lane.rows:
            return


def _blocks(
    files: Sequence[ShardFile], compression: str, lane: Lane, start: int
) -> Iterator[RecordBlock]:
    """Yields the records of a lane from a row on."""
    for shard in lane.shards:
        rows = files[shard].rows
        if start < rows:
            yield from _shard_blocks(files[shard], compression, start)
        start = max(0, start - rows)


def _shard_blocks(shard: ShardFile, compression: str, start: int) -> Iterator[RecordBlock]:
    """Yields the records of a shard from a row on.

    Raises ``DataError`` if the shard has other rows than the manifest says.
    """
    rows = 0
    try:
        with regular_files.open_read(shard.path) as file:
            check_size(shard, os.fstat(file.fileno()).st_size)
            for block in read_record_blocks(file, shard.path, compression, chunk_bytes=CHUNK_BYTES):
                rows += len(block)
                if rows > shard.rows:
                    break
                if rows > start:
                    yield block[max(0, len(block) - (rows - start)) :]
    except OSError as error:
        raise DataError(
            f"{shard.path}: cannot be read ({error.strerror}). Copy the dataset again."
        ) from error
    if rows != shard.rows:
        found = "more" if rows > shard.rows else f"{rows:,}"
        raise DataError(
            f"{shard.path}: found {found} records, expected {shard.rows:,} as {MANIFEST} says. "
            "Copy the dataset again, or convert again with --overwrite."
        )


def check_size(shard: ShardFile, found: int | None) -> None:
    """Checks the size of a shard's file; ``None``: there is none.

    Raises:
      DataError: it is not the manifest's.
    """
    if found != shard.bytes:
        what = "nothing" if found is None else f"{found:,} bytes"
        raise DataError(
            f"{shard.path}: found {what}, expected {shard.bytes:,} bytes as {MANIFEST} says. Copy "
            "the dataset again, or convert again with --overwrite."
        )


def place_of(files: Sequence[ShardFile], lane: Lane, row: int) -> tuple[str, int]:
    """Returns the shard's path and the record's number of a lane's row."""
    ends = np.cumsum([files[shard].rows for shard in lane.shards])
    place = int(np.searchsorted(ends, row, side="right"))
    shard = files[lane.shards[place]]
    return shard.path, int(row - ends[place] + shard.rows)
