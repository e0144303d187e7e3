"""Verifies the files that have a shard's rows in other formats."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.checked_files import changed_file
from beam_pipelines.core.layout.compression import part_compression_of
from beam_pipelines.core.layout.manifest import AlsoFile, CheckedFile, Manifest, ManifestShard
from beam_pipelines.dataset.shard_records import feature_list_names, read_blocks
from beam_pipelines.storage import file_checksums, files


def check_also(
    folder: str, shard: ManifestShard, manifest: Manifest, schema: schema_pb2.Schema
) -> Iterator[str]:
    """Yields what is wrong with a shard's files in other formats.

    Their rows are serialized as records, which equal those of the shard, in their order.
    """
    own = files.within(folder, shard.path)
    for entry in shard.also.values():
        try:
            _check(files.within(folder, entry.path), entry, own, manifest, schema)
        except DataError as error:
            yield str(error)


def _check(
    path: str, entry: AlsoFile, own: str, manifest: Manifest, schema: schema_pb2.Schema
) -> None:
    if not files.exists(path):
        raise DataError(f"{path}: the file is missing. Convert again with --overwrite.")
    check_file(path, entry)
    lists = feature_list_names(schema)
    expected = _digest(own, manifest.compression, lists)
    if _digest(path, part_compression_of(path), lists) != expected:
        raise DataError(
            f"{path}: found other rows than in {own}, expected the same in the same order. Convert "
            "again with --overwrite."
        )


def _digest(path: str, compression: str, lists: Collection[str]) -> str:
    """Returns a digest of a shard's framed records."""
    digest = hashlib.sha256()
    for block in read_blocks(path, compression, lists):
        digest.update(memoryview(block.data)[block.starts[0] : block.starts[-1]])
    return digest.hexdigest()


def check_file(path: str, entry: AlsoFile) -> None:
    """Checks size and CRC-32C of a file.

    Args:
      path: of the file.
      entry: of the manifest.

    Raises:
      DataError: they are not the manifest's.
    """
    size, crc = file_checksums.size_and_crc32c(path)
    found = CheckedFile(bytes=size, crc32c=f"{crc:08x}")
    expected = CheckedFile(bytes=entry.bytes, crc32c=entry.crc32c)
    if found != expected:
        raise changed_file(path, found, expected)
