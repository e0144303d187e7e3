"""Reads parts of shards: neighbouring records that are compressed on their own."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.core import regular_files
from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.order import Epoch, Int64s
from beam_pipelines.tfrecord.framing import starts_of
from beam_pipelines.tfrecord.part_index import PartIndex
from beam_pipelines.tfrecord.parts import inflate_part
from beam_pipelines.tfrecord.record_block import RecordBlock


class ShardFile(NamedTuple):
    """A shard's path, and its rows and bytes by the manifest."""

    path: str
    rows: int
    bytes: int


class Indexed(NamedTuple):
    """Shards, and the index of their parts."""

    files: tuple[ShardFile, ...]
    parts: PartIndex


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """A split to read, of one or several generations or datasets.

    Attributes:
      name: of the split.
      indexed: its shards.
      rows_of_parts: int64[n], of all parts, in the order of the shards.
      first_parts: the number of the first part of each of ``indexed``.
    """

    name: str
    indexed: tuple[Indexed, ...]
    rows_of_parts: Int64s
    first_parts: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(found.parts.rows for found in self.indexed)

    @property
    def part_bytes(self) -> int:
        """Mean size of a part's framed records."""
        sizes = [int(found.parts.columns.framed_bytes.sum()) for found in self.indexed]
        return sum(sizes) // len(self.rows_of_parts)

    def find(self, part: int) -> tuple[Indexed, int]:
        """Returns the index of a part, and the part's number in it."""
        number = bisect.bisect_right(self.first_parts, part) - 1
        return self.indexed[number], part - self.first_parts[number]

    def place(self, part: int, record: int) -> str:
        """Returns file and number of a part's record, for errors."""
        found, number = self.find(part)
        shard = int(found.parts.columns.shard[number])
        first = first_record(found.parts, number)
        return f"{found.files[shard].path}, record {first + record}"


def make_split(name: str, indexed: Sequence[Indexed]) -> Split:
    """Returns a split of the shards of some indexes."""
    rows = [found.parts.columns.rows.astype(np.int64) for found in indexed]
    firsts = itertools.accumulate((len(found.parts) for found in indexed[:-1]), initial=0)
    return Split(name, tuple(indexed), np.concatenate(rows), tuple(firsts))


def first_record(index: PartIndex, part: int) -> int:
    """Returns the number of a part's first record in its shard."""
    first = index.parts_of_shard(int(index.columns.shard[part])).start
    return int(index.first_row[part] - index.first_row[first])


class Block(NamedTuple):
    """The records of a few parts.

    Attributes:
      split: of the parts.
      parts: their numbers.
      frames: of each part, its framed records.
      order: int64[rows], the order of each part's rows, counted from the block's first record.
    """

    split: Split
    parts: list[int]
    frames: list[pa.LargeBinaryArray]
    order: Int64s


def load(split: Split, epoch: Epoch, places: Int64s) -> Block:
    """Reads, inflates and checks the parts with some places in an epoch.

    Raises:
      DataError: a shard is missing, damaged, or another file than the index is of.
    """
    parts = epoch.parts[places].tolist()
    frames = [read_part(*split.find(part)).frames() for part in parts]
    return Block(split, parts, frames, epoch.permutation(places))


def read_part(found: Indexed, part: int) -> RecordBlock:
    """Reads a part, and checks its checksum and its records' CRCs.

    Raises:
      DataError: as ``load``.
    """
    index, columns = found.parts, found.parts.columns
    shard = found.files[columns.shard[part]]
    offset = int(columns.offset[part])
    first = first_record(index, part)
    where = f"{shard.path}, record {first}, part at byte {offset:,}"
    data = _read(shard, offset, int(columns.bytes[part]))
    try:
        data = inflate_part(index, part, data)
    except ValueError as error:
        raise DataError(
            f"{where}: {error}, as {index.path} says. The shard is damaged or changed, or the "
            "index is of another one. Copy the dataset again, or make the index again with "
            "'beam-pipelines index'."
        ) from error
    own = columns.framed_bytes[index.parts_of_shard(int(columns.shard[part])).start : part]
    starts = starts_of(data, shard.path, first, int(own.sum()))
    if len(starts) - 1 != columns.rows[part] or starts[-1] != len(data):
        raise DataError(
            f"{where}: found {len(starts) - 1:,} records in {starts[-1]:,} bytes, expected "
            f"{columns.rows[part]:,} in {len(data):,} as {index.path} says. Make the index "
            "again with 'beam-pipelines index'."
        )
    return RecordBlock(data, starts)


def _read(shard: ShardFile, offset: int, size: int) -> bytes:
    try:
        with regular_files.open_read(shard.path) as file:
            check_size(shard, os.fstat(file.fileno()).st_size)
            return os.pread(file.fileno(), size, offset)
    except OSError as error:
        raise DataError(
            f"{shard.path}: cannot be read ({error.strerror}). Copy the dataset again."
        ) from error


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


def check_files(files: Sequence[ShardFile]) -> None:
    """Checks that shards are there and have the sizes of the manifest.

    Raises:
      DataError: one is not, or has another.
    """
    for file in files:
        check_size(file, os.path.getsize(file.path) if os.path.exists(file.path) else None)
