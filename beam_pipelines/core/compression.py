"""Compressions of shard files, and their suffixes."""

from __future__ import annotations

from typing import Literal

Compression = Literal["gzip", "zlib", "none"]

SUFFIX_FOR_COMPRESSION: dict[Compression, str] = {
    "gzip": ".tfrecord.gz",
    "zlib": ".tfrecord.zlib",
    "none": ".tfrecord",
}


def compression_of(path: str) -> Compression:
    """Returns the compression for a file's suffix."""
    if path.endswith(".gz"):
        return "gzip"
    return "zlib" if path.endswith(".zlib") else "none"
