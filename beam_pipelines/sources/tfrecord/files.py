"""Code of formats whose files are TFRecord files.

It reads a file block by block, and checks its compression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, cast

from beam_pipelines.core.compression import compression_of
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.compression import ChecksummedFile, CountedFile
from beam_pipelines.sources.format import Rows, empty_batch, problem
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.tfrecord.record_block import RecordBlock

# Takes the records of a block, and the number of the first one in its file.
BlockReader = Callable[[RecordBlock, int], Iterator[Rows]]


def check_compression(source: Source) -> list[Problem]:
    """Returns a problem for a compression that TFRecord files cannot have."""
    if source.compression in (None, "gzip", "zlib", "none"):
        return []
    return [problem(source, "compression", "TFRecord files are compressed with gzip or zlib.")]


def first_block(source: Source, paths: tuple[FileInfo, ...]) -> Sequence[bytes]:
    """Returns the first records in files; empty if there are none."""
    for file in paths:
        for block in read_blocks(source, file):
            if block:
                return block
    return []


def read_blocks(source: Source, file: FileInfo) -> Iterator[RecordBlock]:
    """Yields the records of a file, some MiB at a time.

    Raises:
      DataError: the file is damaged.
    """
    with files.open_read(file.path) as opened:
        yield from _blocks(source, file, opened)


def read_file(plan: SourcePlan, byte_range: ByteRange, read_block: BlockReader) -> Iterator[Rows]:
    """Yields the rows of each block, and last the file's checksum.

    Raises:
      DataError: the file is damaged.
    """
    number = 0
    with files.open_read(byte_range.file.path) as opened:
        file = ChecksummedFile(opened)
        for block in _blocks(plan.source, byte_range.file, cast("BinaryIO", file)):
            yield from read_block(block, number)
            number += len(block)
        yield Rows(empty_batch(plan.schema), crc32c=file.crc32c())


def _blocks(source: Source, file: FileInfo, opened: BinaryIO) -> Iterator[RecordBlock]:
    compression = source.compression or compression_of(file.path)
    compressed, decompressed = CountedFile(opened), 0
    for block in read_record_blocks(
        cast("BinaryIO", compressed), file.path, compression, source.limits
    ):
        decompressed += block.framed_bytes
        if compression != "none" and exceeds_ratio(source.limits, compressed.count, decompressed):
            raise DataError(
                f"{file.path}: {ratio_exceeded(source.limits, compressed.count, decompressed)}"
            )
        yield block
