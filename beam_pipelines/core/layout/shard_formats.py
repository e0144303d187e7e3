"""Formats and compressions of shards: names, suffixes and folders in a dataset.

``sinks/`` has a folder of this name for each, which writes it. A format's shards are in a folder of
its own, because TFX reads every file in ``examples``.
"""

from __future__ import annotations

from typing import Literal

from beam_pipelines.core.layout.dataset_layout import EXAMPLES

TFRECORD = "tfrecord"
PARQUET = "parquet"
# Formats that readers read: the shards of a dataset have one of them.
ShardFormat = Literal["tfrecord", "parquet"]
# Formats that the same rows are written in as well -> suffix of the files.
SUFFIX_FOR_FORMAT = {PARQUET: ".parquet"}
# Folders of shards in a dataset.
SHARD_FOLDERS = (EXAMPLES, *SUFFIX_FOR_FORMAT)

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


def folder_of(format_: str) -> str:
    """Returns the folder of a format's shards within a dataset."""
    return EXAMPLES if format_ == TFRECORD else format_


def suffix_of(format_: str, compression: Compression) -> str:
    """Returns the suffix of a format's shards; TFRecords name their compression."""
    return (
        SUFFIX_FOR_COMPRESSION[compression] if format_ == TFRECORD else SUFFIX_FOR_FORMAT[format_]
    )
