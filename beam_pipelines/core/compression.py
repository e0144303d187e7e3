"""Compressions of shard files, and their suffixes."""

from __future__ import annotations

from typing import Literal

Compression = Literal["gzip", "zlib", "none"]

SUFFIX_FOR_COMPRESSION: dict[Compression, str] = {
    "gzip": ".tfrecord.gz",
    "zlib": ".tfrecord.zlib",
    "none": ".tfrecord",
}


def is_whole_name(name: str | None) -> bool:
    """Whether a name ends in the suffix of a shard file."""
    return name is not None and name.endswith(tuple(SUFFIX_FOR_COMPRESSION.values()))


def compression_of(path: str) -> Compression:
    """Returns the compression for a file's suffix."""
    if path.endswith(".gz"):
        return "gzip"
    return "zlib" if path.endswith(".zlib") else "none"
