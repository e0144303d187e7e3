"""Avro files of given blocks, and the blocks of files."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

SYNC = b"s" * 16


def container(schema: Any, codec: str, blocks: list[tuple[int, bytes]]) -> bytes:
    """Returns a file of some blocks.

    Args:
      schema: to write.
      codec: of the blocks.
      blocks: number of records, and bytes, compressed.
    """
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    entries = b"".join(_bytes(key) + _bytes(value) for key, value in metadata.items())
    parts = [b"Obj\x01", _long(len(metadata)), entries, _long(0), SYNC]
    for rows, data in blocks:
        parts += [_long(rows), _bytes(data), SYNC]
    return b"".join(parts)


def blocks_of(data: bytes) -> tuple[Any, str, list[tuple[int, bytes]]]:
    """Returns schema, codec and blocks of a file, whose blocks stay compressed."""
    file = io.BytesIO(data)
    metadata = fastavro.block_reader(file).metadata
    schema, end = json.loads(metadata["avro.schema"]), file.tell()
    header = io.BytesIO()
    fastavro.writer(header, schema, [], sync_marker=data[end - len(SYNC) : end])
    found = fastavro.block_reader(io.BytesIO(header.getvalue() + data[end:]))
    blocks = [(block.num_records, block.bytes_.read()) for block in found]  # type: ignore[attr-defined] # of each block
    return schema, metadata.get("avro.codec", "null"), blocks


def _long(value: int) -> bytes:
    value = value << 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value
