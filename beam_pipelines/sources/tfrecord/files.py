"""Code of formats whose files are TFRecord files.

It reads a file block by block, and checks its compression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, cast

import pyarrow as pa

from beam_pipelines.core._native.shared import HEADER_BYTES
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.shard_formats import Compression, compression_of
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.files.compression import (
    ChecksummedFile,
    CountedFile,
    name_of_start,
    not_as_named,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.tfrecord.framing import RecordBlock, is_header, is_zlib, read_record_blocks

# Returns the columns of some records, or raises one of ``bad_rows.ERRORS``.
Attempt = Callable[[Sequence[bytes]], pa.RecordBatch]


def check_compression(source: Source) -> list[Problem]:
    """Returns a problem for a compression that TFRecord files cannot have."""
    if source.compression in (None, "gzip", "zlib", "none"):
        return []
    return [
        source_format.problem(
            source, "compression", "TFRecord files are compressed with gzip or zlib."
        )
    ]


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
) -> Iterator[source_format.Rows]:
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
    file, number = byte_range.file, 0
    with files.open_read(file.path) as opened:
        stream = ChecksummedFile(opened)
        for block in _blocks(plan.source, file, cast("BinaryIO", stream)):
            good: list[pa.RecordBatch] = []
            rejected: list[Rejected] = []
            for made in bad_rows.sift(partial(_attempted, attempt, block), 0, len(block)):
                if not isinstance(made, bad_rows.BadRow):
                    good.append(made)
                    continue
                column, reason = explain(made.error)
                shown = shorten(block[made.number].decode(errors="backslashreplace"))
                place = f"record {number + made.number}"
                bad = Rejected(plan.source.name, file.path, place, column, reason, shown)
                bad_rows.reject_or_raise(bad, rejected, reject)
            yield from source_format.cut_rows(
                source_format.combine(good, plan.schema), tuple(rejected)
            )
            number += len(block)
        yield source_format.Rows(empty_batch(plan.schema), crc32c=stream.crc32c())


def _attempted(attempt: Attempt, block: RecordBlock, start: int, end: int) -> pa.RecordBatch:
    return attempt(block[start:end])


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
