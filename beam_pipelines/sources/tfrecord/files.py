"""Code of formats whose files are TFRecord files.

It reads a file block by block, and checks its compression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, cast

from beam_pipelines.core.compression import Compression, compression_of
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.compression import ChecksummedFile, CountedFile, name_of_start
from beam_pipelines.sources.format import Rows, empty_batch, problem
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.tfrecord.indexes import PartsFile, parts_of, parts_of_range
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.framing import is_header, is_zlib, read_record_blocks
from beam_pipelines.tfrecord.record_block import HEADER_BYTES, RecordBlock

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
    if is_cut(byte_range):
        yield from _read_parts(plan, byte_range, read_block)
        return
    number = 0
    with files.open_read(byte_range.file.path) as opened:
        file = ChecksummedFile(opened)
        for block in _blocks(plan.source, byte_range.file, cast("BinaryIO", file)):
            yield from read_block(block, number)
            number += len(block)
        yield Rows(empty_batch(plan.schema), crc32c=file.crc32c())


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


def _read_parts(plan: SourcePlan, byte_range: ByteRange, read_block: BlockReader) -> Iterator[Rows]:
    """Does what ``read_file`` does, for one of several ranges of a file."""
    path, source = byte_range.file.path, plan.source
    found, own = parts_of_range(byte_range, _compression(source, byte_range.file.path))
    with files.open_read(path) as opened:
        file = PartsFile(opened, path, found, own)
        number, decompressed = (found.first_record(own.start), 0) if own else (0, 0)
        offset = found.first_byte(own.start) if own else 0
        records = cast("BinaryIO", file)
        for block in read_record_blocks(
            records, path, "none", source.limits, number=number, offset=offset
        ):
            decompressed += block.framed_bytes
            _check_ratio(source, byte_range.file, file.read_bytes, decompressed)
            yield from read_block(block, number)
            number += len(block)
        yield Rows(empty_batch(plan.schema), crc32c=file.crc32c())


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
    found = name_of_start(head)
    if not found and is_header(head):
        found = "none"
    elif not found and is_zlib(head):
        found = "zlib"
    if found in ("", compression):
        return ""
    shown = "no compression" if found == "none" else found
    wanted = "none" if compression == "none" else compression
    if found in ("none", "gzip", "zlib"):
        cure = f"Set 'compression: {found}' of the source."
    else:
        cure = "TFRecord files are compressed with gzip or zlib. Decompress it."
    return f"{path}: found {shown}, expected {wanted} by the file's name or 'compression'. {cure}"
