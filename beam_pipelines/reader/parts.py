"""Reads parts of shards: neighbouring records that are compressed on their own."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.process import regular_files
from beam_pipelines.reader.order import Epoch, Int64s
from beam_pipelines.tfrecord.framing import inflate_part, starts_of
from beam_pipelines.tfrecord.part_index import PartIndex

if TYPE_CHECKING:
    from beam_pipelines.files.cache import RemoteShards
    from beam_pipelines.reader.row_groups import RowGroups


class ShardFile(NamedTuple):
    """A shard's path, and its rows and bytes by the manifest."""

    path: str
    rows: int
    bytes: int


class Indexed(NamedTuple):
    """Shards, and the index of their parts.

    Attributes:
      files: the shards.
      parts: of them.
      remote: reads the shards; ``None``: they are on this machine.
      row_groups: reads the parts of Parquet shards; ``None``: parts have framed records.
      is_shuffled: whether rows were shuffled when they were written.
    """

    files: tuple[ShardFile, ...]
    parts: PartIndex
    remote: RemoteShards | None = None
    row_groups: RowGroups | None = None
    is_shuffled: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class ReadSplit:
    """A split to read, of one or several generations or datasets.

    Attributes:
      name: of the split.
      indexed: its shards.
      rows_of_parts: int64[n], of all parts, in the order of the shards.
      first_parts: the number of the first part of each of ``indexed``.
      extents: int64[extents + 1], the first part of each extent, and n. An extent of rows that
        were not shuffled is a part.
      runs: the same of the extents' runs.
    """

    name: str
    indexed: tuple[Indexed, ...]
    rows_of_parts: Int64s
    first_parts: tuple[int, ...]
    extents: Int64s
    runs: Int64s

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(found.parts.rows for found in self.indexed)

    @property
    def row_bytes(self) -> int:
        """Mean size of a framed record."""
        return self.framed_bytes // self.rows

    @property
    def framed_bytes(self) -> int:
        """The size of all framed records."""
        return sum(int(found.parts.columns.framed_bytes.sum()) for found in self.indexed)

    def find(self, part: int) -> tuple[Indexed, int]:
        """Returns the index of a part, and the part's number in it."""
        number = bisect.bisect_right(self.first_parts, part) - 1
        return self.indexed[number], part - self.first_parts[number]

    def with_columns(self, names: Sequence[str]) -> ReadSplit:
        """Returns the split with some columns of Parquet shards alone."""
        indexed = tuple(
            one
            if one.row_groups is None
            else one._replace(row_groups=one.row_groups.with_names(names))
            for one in self.indexed
        )
        return dataclasses.replace(self, indexed=indexed)

    def place(self, part: int, record: int) -> str:
        """Returns file and number of a part's record, for errors."""
        found, number = self.find(part)
        shard = int(found.parts.columns.shard[number])
        first = first_record(found.parts, number)
        return f"{found.files[shard].path}, record {first + record}"


def make_split(name: str, indexed: Sequence[Indexed]) -> ReadSplit:
    """Returns a split of the shards of some indexes."""
    rows = [found.parts.columns.rows.astype(np.int64) for found in indexed]
    *firsts, count = itertools.accumulate((len(found.parts) for found in indexed), initial=0)
    extents = runs = np.arange(count + 1)
    if any(found.is_shuffled for found in indexed):
        pairs = zip(*(_extents_and_runs(found) for found in indexed), strict=True)
        extents, runs = (
            np.append(
                np.concatenate([one[:-1] + at for one, at in zip(own, firsts, strict=True)]), count
            )
            for own in pairs
        )
    return ReadSplit(name, tuple(indexed), np.concatenate(rows), tuple(firsts), extents, runs)


def _extents_and_runs(found: Indexed) -> tuple[Int64s, Int64s]:
    """Returns the extents and runs of an index, or its parts."""
    if found.is_shuffled:
        return found.parts.extents, found.parts.runs
    parts = np.arange(len(found.parts) + 1)
    return parts, parts


def first_record(index: PartIndex, part: int) -> int:
    """Returns the number of a part's first record in its shard."""
    first = index.parts_of_shard(int(index.columns.shard[part])).start
    return int(index.first_row[part] - index.first_row[first])


class Block(NamedTuple):
    """The records of a few parts.

    Attributes:
      split: of the parts.
      parts: their numbers.
      frames: their framed records, in order, in one array or several; of Parquet the columns of
        each part.
      order: int64[rows], the order of each part's rows, counted from the block's first record.
      rows_of_parts: int64[n], the number of records of each part.
    """

    split: ReadSplit
    parts: list[int]
    frames: list[pa.LargeBinaryArray] | list[pa.Table]
    order: Int64s
    rows_of_parts: Int64s

    @property
    def is_columnar(self) -> bool:
        """Whether it has columns, and not records."""
        return self.split.find(self.parts[0])[0].row_groups is not None

    def records(self) -> list[pa.LargeBinaryArray]:
        """Returns the framed records, which are made of columns if need be."""
        if not self.is_columnar:
            return self.frames
        from beam_pipelines.reader.row_groups import batch_of
        from beam_pipelines.tfrecord.framing import framed_records

        groups = self.split.find(self.parts[0])[0].row_groups
        lists = () if groups is None else groups.lists
        return [framed_records(batch_of(table), None, None, lists) for table in self.frames]


class Content(NamedTuple):
    """Bytes of a shard, and where a part begins in them."""

    data: bytes
    start: int


class Fetched(NamedTuple):
    """A part that is being fetched, with others perhaps.

    Attributes:
      request: of bytes of a shard.
      start: of the part in them.
    """

    request: Future[bytes]
    start: int

    def content(self) -> Content:
        """Returns the bytes, once they are there."""
        return Content(self.request.result(), self.start)


def load(
    split: ReadSplit,
    epoch: Epoch,
    places: Int64s,
    fetched: Sequence[Fetched | None] = (),
) -> Block:
    """Reads, inflates and checks the parts with some places in an epoch.

    Args:
      split: the parts are of.
      epoch: the order.
      places: of the parts.
      fetched: for each part its bytes in the file, or ``None``; empty: none is fetched.

    Raises:
      DataError: a shard is missing, damaged, or another file than the index is of.
    """
    parts = epoch.parts[places].tolist()
    found = [split.find(part) for part in parts]
    data = [
        _fetched(*one) if own is None else own.content()
        for one, own in itertools.zip_longest(found, fetched)
    ]
    frames = _read_together(found, data)
    if frames is None:  # one after the other, to say what is wrong
        chunks = [_read_alone(*one, own) for one, own in zip(found, data, strict=True)]
    else:
        chunks = [frames]
    return Block(split, parts, chunks, epoch.permutation(places), epoch.rows[places])


def _fetched(found: Indexed, part: int) -> Content | None:
    """Returns the bytes of a remote part, ``None`` of a local one."""
    return None if found.remote is None else Content(read_bytes(found, range(part, part + 1)), 0)


def _read_together(
    found: Sequence[tuple[Indexed, int]], data: Sequence[Content | None]
) -> pa.LargeBinaryArray | None:
    """Returns the records of parts in one array, or ``None``.

    Reads, inflates and checks without the interpreter's lock. Row groups are declined.
    """
    kinds = {one.parts.compression for one, _ in found}
    if any(one.row_groups is not None for one, _ in found) or len(kinds) > 1:
        return None
    stored: list[_native.StoredPart] = []
    for one, pairs in itertools.groupby(zip(found, data, strict=True), lambda pair: pair[0][0]):
        parts, own = zip(*((part, content) for (_, part), content in pairs), strict=True)
        stored += _stored(one, list(parts), own)
    if any(part.data is not None and len(part.data) < part.offset + part.size for part in stored):
        return None
    return _native.read_parts(stored, kinds != {"none"})


def _stored(
    found: Indexed, parts: list[int], data: Sequence[Content | None]
) -> Iterator[_native.StoredPart]:
    columns = [column[parts].tolist() for column in found.parts.columns]
    for own, shard, offset, *numbers in zip(data, *columns, strict=True):
        file = found.files[shard]
        if own is None:
            yield _native.StoredPart(os.fsencode(file.path), None, file.bytes, offset, *numbers)
        else:
            yield _native.StoredPart(None, own.data, file.bytes, own.start, *numbers)


def read_part(found: Indexed, part: int) -> pa.LargeBinaryArray | pa.Table:
    """Returns a part's framed records, or its columns.

    Checks its checksum and the records' CRCs.

    Raises:
      DataError: as ``load``.
    """
    frames = _read_together([(found, part)], [_fetched(found, part)])
    return _read_alone(found, part, None) if frames is None else frames


def _read_alone(
    found: Indexed, part: int, content: Content | None
) -> pa.LargeBinaryArray | pa.Table:
    if content is None:
        data = read_bytes(found, range(part, part + 1))
    else:
        data = content.data[content.start : content.start + int(found.parts.columns.bytes[part])]
    if found.row_groups is None:
        return _frames(found, part, _inflate(found, part, data))
    columns = found.parts.columns
    shard = int(columns.shard[part])
    own = found.parts.parts_of_shard(shard)
    end = int(columns.offset[own[-1]] + columns.bytes[own[-1]])
    path, rest = found.files[shard].path, range(end, found.files[shard].bytes)
    try:
        footer = found.row_groups.footer(path, lambda: _read_at(found, shard, rest, rest))
        return found.row_groups.decode(
            footer,
            part - own.start,
            int(columns.offset[part]),
            data,
            int(columns.crc32[part]),
            int(columns.rows[part]),
        )
    except ValueError as error:
        raise DataError(
            f"{_where(found, part)}: {error}, as {found.parts.path} says. The shard is damaged or "
            "changed. Copy the dataset again, or convert again with --overwrite."
        ) from error


def _inflate(found: Indexed, part: int, data: bytes) -> bytes:
    try:
        return inflate_part(found.parts, part, data)
    except ValueError as error:
        raise DataError(
            f"{_where(found, part)}: {error}, as {found.parts.path} says. The shard is damaged or "
            "changed, or the index is of another one. Copy the dataset again, or convert again "
            "with --overwrite."
        ) from error


def _frames(found: Indexed, part: int, data: bytes) -> pa.LargeBinaryArray:
    """Returns the frames of a part's bytes, which are shared."""
    index, columns = found.parts, found.parts.columns
    shard, first = found.files[columns.shard[part]], first_record(index, part)
    own = columns.framed_bytes[index.parts_of_shard(int(columns.shard[part])).start : part]
    starts = starts_of(data, shard.path, first, int(own.sum()))
    if len(starts) - 1 != columns.rows[part] or starts[-1] != len(data):
        raise DataError(
            f"{_where(found, part)}: found {len(starts) - 1:,} records in {starts[-1]:,} bytes, "
            f"expected {columns.rows[part]:,} in {len(data):,} as {index.path} says. Copy the "
            "dataset again, or convert again with --overwrite."
        )
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers)


def _where(found: Indexed, part: int) -> str:
    columns = found.parts.columns
    return (
        f"{found.files[columns.shard[part]].path}, record {first_record(found.parts, part)}, part "
        f"at byte {int(columns.offset[part]):,}"
    )


def read_bytes(found: Indexed, parts: range) -> bytes:
    """Returns the bytes of neighbouring parts of an extent in their shard.

    Raises:
      DataError: the shard is missing, cannot be read, or has another size.
    """
    index = found.parts
    extent = index.bytes_of(index.extent_of(parts[0])) if found.remote else range(0)
    return _read_at(found, int(index.columns.shard[parts[0]]), index.bytes_of(parts), extent)


def _read_at(found: Indexed, number: int, wanted: range, extent: range) -> bytes:
    """Returns bytes of a shard; errors are those of ``read_bytes``."""
    shard = found.files[number]
    if found.remote is not None:
        return found.remote.read(shard.path, wanted, extent, partial(check_size, shard))
    try:
        with regular_files.open_read(shard.path) as file:
            check_size(shard, os.fstat(file.fileno()).st_size)
            return os.pread(file.fileno(), len(wanted), wanted.start)
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


def check_files(found: Indexed) -> None:
    """Checks that shards are there and have the sizes of the manifest.

    Remote ones are checked by the first request for each.

    Raises:
      DataError: one is not, or has another.
    """
    for file in () if found.remote else found.files:
        check_size(file, os.path.getsize(file.path) if os.path.exists(file.path) else None)
