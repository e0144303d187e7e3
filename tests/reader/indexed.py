"""Rewrites datasets of tests in parts, with an index of them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
from isal import isal_zlib

from beam_pipelines.core.layout.dataset_layout import index_path
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.tfrecord.part_index import IndexedShard, PartColumns, make_index, write_index

# Before the parts of a stream.
HEADS = {"gzip": b"\x1f\x8b\x08" + bytes(6) + b"\xff", "zlib": b"\x78\x01", "none": b""}
TYPES = np.int32, np.int64, np.int64, np.int64, np.int32, np.uint32


def compressed(framed: bytes, compression: Compression) -> bytes:
    """Returns a part: raw deflate up to a whole byte."""
    if compression == "none" or not framed:
        return framed
    part = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
    return part.compress(framed) + part.flush(isal_zlib.Z_SYNC_FLUSH)


def tail(data: bytes, compression: Compression) -> bytes:
    """Returns the end of a stream: a last block, and checksums."""
    if compression == "gzip":
        return b"\x03\x00" + struct.pack("<II", zlib.crc32(data), len(data))
    return b"\x03\x00" + struct.pack(">I", zlib.adler32(data)) if compression == "zlib" else b""


def write_parts(path: Path, compression: Compression, part_rows: int) -> list[tuple[int, ...]]:
    """Writes a shard again, in parts of some rows.

    Returns:
      (offset, bytes, framed_bytes, rows, crc32) of each part.
    """
    with path.open("rb") as file:
        blocks = [
            block.data[block.starts[0] : block.starts[-1]]
            for block in read_record_blocks(file, str(path), compression)
        ]
        file.seek(0)
        sizes = [
            size
            for block in read_record_blocks(file, str(path), compression)
            for size in np.diff(block.starts).tolist()
        ]
    data, edges = b"".join(blocks), np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
    parts = []
    with path.open("wb") as file:
        file.write(HEADS[compression])
        for start in range(0, len(sizes), part_rows):
            end = min(len(sizes), start + part_rows)
            framed = data[edges[start] : edges[end]]
            part = compressed(framed, compression)
            crc32 = isal_zlib.crc32(framed)
            parts.append((file.tell(), len(part), len(framed), end - start, crc32))
            file.write(part)
        file.write(tail(data, compression))
    return parts


def add_index(folder: str | Path, part_rows: int = 10) -> str:
    """Writes a dataset's shards again in parts, with indexes.

    Manifests get the shards' new sizes.
    """
    manifest = json.loads((Path(folder) / "dataset.json").read_text())
    for name, split in manifest["splits"].items():
        parts = [
            (number, *part)
            for number, shard in enumerate(split["shards"])
            for part in write_parts(
                Path(folder) / shard["path"], manifest["compression"], part_rows
            )
        ]
        for shard in split["shards"]:
            shard["bytes"] = (Path(folder) / shard["path"]).stat().st_size
            shard.setdefault("crc32c", "00000000")
        write_split_index(folder, name, manifest, parts)
    (Path(folder) / "dataset.json").write_text(json.dumps(manifest))
    return str(folder)


def write_split_index(folder: str | Path, name: str, manifest, parts) -> None:
    """Writes the index of a split's parts: (shard, offset, bytes, …)."""
    shards = [
        IndexedShard(shard["path"], shard["rows"], shard["bytes"], shard["crc32c"])
        for shard in manifest["splits"][name]["shards"]
    ]
    columns = PartColumns(
        *(np.array([part[place] for part in parts], type_) for place, type_ in enumerate(TYPES))
    )
    path = Path(folder) / index_path(name, 1)
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        write_index(file, make_index(manifest["compression"], shards, columns))


def finish(folder: str, **more) -> str:
    """Adds the fields of a whole manifest, and an index of parts."""
    path = Path(folder) / "dataset.json"
    manifest = json.loads(path.read_text())
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            shard["crc32c"] = "00000000"
        split.setdefault("bytes", 0)
    counts = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0)
    path.write_text(
        json.dumps(manifest | {"record": "example", "counts": counts, "sources": {}} | more)
    )
    return add_index(folder)


def ids(reader):
    """Returns the ids of each batch."""
    return [batch["id"].tolist() for batch in reader]
