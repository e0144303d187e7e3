"""Code of formats whose files are TFRecord files.

It reads a file block by block, and checks its compression.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, cast

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core._native.shared import HEADER_BYTES
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.dataset_layout import (
    EXAMPLES,
    MANIFEST,
    file_index_path,
    split_folder,
)
from beam_pipelines.core.layout.manifest import parse_manifest
from beam_pipelines.core.layout.shard_formats import Compression, compression_of
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.faults.bad_rows import BadRow
from beam_pipelines.sources.files.compression import (
    ChecksummedFile,
    CountedFile,
    name_of_start,
    not_as_named,
)
from beam_pipelines.sources.format import Rows, combine, cut_rows, empty_batch, problem
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.storage import files, input_files
from beam_pipelines.tfrecord import part_index
from beam_pipelines.tfrecord.framing import (
    RecordBlock,
    inflate_part,
    is_header,
    is_zlib,
    read_record_blocks,
)

_SPLITS = "/" + split_folder(EXAMPLES, "")
_KEPT = 16
_CURE = "Make the index again with 'beam-pipelines index', or remove it."
# Returns the columns of some records, or raises one of ``bad_rows.ERRORS``.
Attempt = Callable[[Sequence[bytes]], pa.RecordBatch]


def check_compression(source: Source) -> list[Problem]:
    """Returns a problem for a compression that TFRecord files cannot have."""
    if source.compression in (None, "gzip", "zlib", "none"):
        return []
    return [problem(source, "compression", "TFRecord files are compressed with gzip or zlib.")]


def first_block(source: Source, paths: tuple[FileInfo, ...]) -> Sequence[bytes]:
    """Returns the first records in files, or raises ``DataError``."""
    for file in paths:
        for block in read_blocks(source, file):
            if block:
                return block
    raise DataError(
        f"{paths[0].path}: found no records, expected data. Check 'path' of the source."
    )


def read_blocks(source: Source, file: FileInfo) -> Iterator[RecordBlock]:
    """Yields the records of a file, some MiB at a time.

    Raises:
      DataError: the file is damaged.
    """
    with files.open_read(file.path) as opened:
        yield from _blocks(source, file, opened)


def read_file(
    plan: SourcePlan,
    byte_range: ByteRange,
    attempt: Attempt,
    explain: Callable[[Exception], tuple[str, str]],
    reject: bool,
) -> Iterator[Rows]:
    """Yields the rows of each block, and last the file's checksum.

    Args:
      plan: of the source.
      byte_range: to read.
      attempt: returns the columns of some records.
      explain: returns the column and the reason of a bad record.
      reject: whether bad records are left out and listed.

    Raises:
      DataError: the file is damaged, or has a bad record.
    """
    file, number = byte_range.file, first_record(plan, byte_range)
    with files.open_read(file.path) as opened:
        stream: ChecksummedFile | PartsFile
        if is_cut(byte_range):
            found, own = parts_of_range(byte_range, _compression(plan.source, file.path))
            stream = PartsFile(opened, file.path, found, own)
            blocks = _part_blocks(plan.source, file, stream, number)
        else:
            stream = ChecksummedFile(opened)
            blocks = _blocks(plan.source, file, cast("BinaryIO", stream))
        for block in blocks:
            good: list[pa.RecordBatch] = []
            rejected: list[Rejected] = []
            for made in bad_rows.sift(partial(_attempted, attempt, block), 0, len(block)):
                if not isinstance(made, BadRow):
                    good.append(made)
                    continue
                column, reason = explain(made.error)
                shown = shorten(block[made.number].decode(errors="backslashreplace"))
                place = f"record {number + made.number}"
                bad = Rejected(plan.source.name, file.path, place, column, reason, shown)
                bad_rows.reject_or_raise(bad, rejected, reject)
            yield from cut_rows(combine(good, plan.schema), tuple(rejected))
            number += len(block)
        yield Rows(empty_batch(plan.schema), crc32c=stream.crc32c())


def _attempted(attempt: Attempt, block: RecordBlock, start: int, end: int) -> pa.RecordBatch:
    return attempt(block[start:end])


def is_cut(byte_range: ByteRange) -> bool:
    """Whether a range is one of several of its file."""
    return byte_range.start > 0 or byte_range.end < byte_range.file.size_bytes


def is_indexed(source: Source, path: str) -> bool:
    """Whether a file has an index, so that it can be cut.

    Raises:
      DataError: the index is damaged, or of another file.
    """
    return parts_of(path, _compression(source, path)) is not None


def first_record(plan: SourcePlan, byte_range: ByteRange) -> int:
    """Returns the number of a range's first record in the file."""
    if not is_cut(byte_range):
        return 0
    found, own = parts_of_range(byte_range, _compression(plan.source, byte_range.file.path))
    return found.first_record(own.start) if own else 0


def _part_blocks(
    source: Source, file: FileInfo, parts: PartsFile, number: int
) -> Iterator[RecordBlock]:
    decompressed = 0
    for block in read_record_blocks(
        cast("BinaryIO", parts), file.path, "none", source.limits, number, parts.first_byte
    ):
        decompressed += block.framed_bytes
        _check_ratio(source, file, parts.read_bytes, decompressed)
        yield block


def _compression(source: Source, path: str) -> Compression:
    return cast("Compression", source.compression or compression_of(path))


def _check_ratio(source: Source, file: FileInfo, compressed: int, decompressed: int) -> None:
    """Raises ``DataError`` if a file grows more than the limit allows."""
    if _compression(source, file.path) != "none" and exceeds_ratio(
        source.limits, compressed, decompressed
    ):
        raise DataError(f"{file.path}: {ratio_exceeded(source.limits, compressed, decompressed)}")


def _blocks(source: Source, file: FileInfo, opened: BinaryIO) -> Iterator[RecordBlock]:
    compression = _compression(source, file.path)
    compressed, decompressed = CountedFile(opened), 0
    try:
        for block in read_record_blocks(
            cast("BinaryIO", compressed), file.path, compression, source.limits
        ):
            decompressed += block.framed_bytes
            _check_ratio(source, file, compressed.count, decompressed)
            yield block
    except DataError as error:
        if not decompressed and (found := _other_compression(file.path, compression)):
            raise DataError(found) from error
        raise


def _other_compression(path: str, compression: Compression) -> str:
    """Returns the error of a file that has another compression than expected.

    ``""``.
    """
    with files.open_read(path) as file:
        head = file.read(HEADER_BYTES)
    known = "none" if is_header(head) else "zlib" if is_zlib(head) else ""
    if (found := name_of_start(head) or known) in ("", compression):
        return ""
    return not_as_named(path, found, compression, ("gzip", "zlib"))


@dataclasses.dataclass(frozen=True)
class FileParts:
    """The parts of one file.

    Attributes:
      index: of the file, and maybe of others.
      shard: number of the file in it.
    """

    index: part_index.PartIndex
    shard: int

    @property
    def parts(self) -> range:
        """Their numbers."""
        return self.index.parts_of_shard(self.shard)

    def within(self, byte_range: ByteRange) -> range:
        """Returns the numbers of the parts that begin in a byte range."""
        parts = self.parts
        offsets = self.index.columns.offset[parts.start : parts.stop]
        start, end = np.searchsorted(offsets, [byte_range.start, byte_range.end])
        return parts[int(start) : int(end)]

    def first_record(self, part: int) -> int:
        """Returns the number of a part's first record in the file."""
        firsts = self.index.first_row
        return int(firsts[part] - firsts[self.parts.start])

    def first_byte(self, part: int) -> int:
        """Returns the bytes of the file's framed records before a part."""
        return int(self.index.columns.framed_bytes[self.parts.start : part].sum())


def parts_of(path: str, compression: Compression) -> FileParts | None:
    """Returns the parts of a file that has an index, else ``None``.

    Raises:
      DataError: the index is damaged, or of another file.
    """
    folder, _, rest = path.rpartition(_SPLITS)
    name, split = files.relative(path, folder), rest.partition("/")[0]
    manifest = files.join(folder, MANIFEST)
    indexes = _indexes(manifest, _state(manifest), split) if folder else {}
    shards: tuple[part_index.IndexedShard, ...] | None
    for inner, shards in indexes.items():
        if any(shard.name == name for shard in shards):
            where = files.within(folder, inner)
            break
    else:
        name, where, shards = files.name_of(path), file_index_path(path), None
    index = _index(where, _state(where), compression, shards)
    if index is None:
        return None
    names = [shard.name for shard in index.shards]
    if name not in names:
        raise DataError(f"{where}: found an index of '{names[0]}', expected '{name}'. {_CURE}")
    return FileParts(index, names.index(name))


def parts_of_range(byte_range: ByteRange, compression: Compression) -> tuple[FileParts, range]:
    """Returns a file's parts, and the numbers of those of a range.

    Raises:
      DataError: the index is not there any more; or as ``parts_of``.
    """
    file = byte_range.file
    found = parts_of(file.path, compression)
    if found is None:
        raise DataError(
            f"{file.path}: found no index, expected that of the plan. It was removed during the "
            "run: run again."
        )
    size = found.index.shards[found.shard].bytes
    if file.size_bytes != size:
        raise DataError(
            f"{file.path}: found {file.size_bytes:,} bytes, expected {size:,} as "
            f"{found.index.path} says. {_CURE}"
        )
    return found, found.within(byte_range)


def _state(path: str) -> tuple[float, int] | None:
    """Returns date and size of a local file.

    ``None``: there is none, or it is elsewhere.
    """
    try:
        status = os.stat(path) if files.is_local(path) else None
    except OSError:
        return None
    return status and (status.st_mtime, status.st_size)


def _is_there(path: str, state: tuple[float, int] | None) -> bool:
    return state is not None or (not files.is_local(path) and input_files.exists(path))


@functools.lru_cache(_KEPT)
def _index(
    path: str,
    state: tuple[float, int] | None,
    compression: Compression,
    shards: tuple[part_index.IndexedShard, ...] | None,
) -> part_index.PartIndex | None:
    if not _is_there(path, state):
        return None
    if files.is_local(path):
        return part_index.read_index(path, compression, shards)
    return part_index.parse_index(pa.py_buffer(files.read_bytes(path)), path, compression, shards)


@functools.lru_cache(_KEPT)
def _indexes(
    path: str, state: tuple[float, int] | None, split: str
) -> dict[str, tuple[part_index.IndexedShard, ...]]:
    """Returns the shards of each index of a split."""
    if not _is_there(path, state):
        return {}
    splits = parse_manifest(files.read_bytes(path), path).splits
    if split not in splits:
        raise DataError(f"{path}: lacks split '{split}'. Convert again with --overwrite.")
    return part_index.shards_by_index(split, splits[split].shards)


class PartsFile(io.RawIOBase):
    """Some parts of a file as one stream of framed records.

    Attributes:
      first_byte: of the records, in all of the file's.
      read_bytes: of the file so far.
    """

    def __init__(self, file: BinaryIO, path: str, found: FileParts, parts: range) -> None:
        self._file, self._path, self._index = file, path, found.index
        self._parts = iter(parts)
        self.first_byte = found.first_byte(parts.start) if parts else 0
        self._crc = google_crc32c.Checksum()
        self.read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Returns the records of the next parts; empty at the end.

        They have at least ``size`` bytes, except at the end.

        Raises:
          DataError: a part is not as the index says.
        """
        pieces = []
        missing = size
        while missing > 0 and (part := next(self._parts, None)) is not None:
            pieces.append(self._records(part))
            missing -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def crc32c(self) -> int:
        """Returns the checksum of the bytes of all parts that were read."""
        return int.from_bytes(self._crc.digest(), "big")

    def _records(self, part: int) -> bytes:
        offset = int(self._index.columns.offset[part])
        self._file.seek(offset)
        data = self._file.read(int(self._index.columns.bytes[part]))
        self.read_bytes += len(data)
        self._crc.update(data)
        try:
            return inflate_part(self._index, part, data)
        except ValueError as error:
            raise DataError(
                f"{self._path}, part at byte {offset:,}: {error}, as {self._index.path} says. The "
                "file is damaged or was changed. Write it again, or make the index again with "
                "'beam-pipelines index'."
            ) from error
