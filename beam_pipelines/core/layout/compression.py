"""Compressions of shard files, and their suffixes."""

from __future__ import annotations

from typing import Literal

Compression = Literal["gzip", "zlib", "none"]
# Of the parts of a shard: of TFRecords, or of the pages of Parquet's row groups.
PartCompression = Literal["gzip", "zlib", "none", "zstd"]
PARQUET_COMPRESSION: PartCompression = "zstd"

SUFFIX_FOR_COMPRESSION: dict[Compression, str] = {
    "gzip": ".tfrecord.gz",
    "zlib": ".tfrecord.zlib",
    "none": ".tfrecord",
}


def part_compression_of(path: str) -> PartCompression:
    """Returns the compression of a shard's parts, for its suffix."""
    return PARQUET_COMPRESSION if path.endswith(".parquet") else compression_of(path)


def compression_of(path: str) -> Compression:
    """Returns the compression of a TFRecord file, for its suffix."""
    if path.endswith(".gz"):
        return "gzip"
    return "zlib" if path.endswith(".zlib") else "none"
