"""Makes Avro files of any blocks."""

from __future__ import annotations

import io
import types
from typing import Any

from fastavro.write import Writer


def container(
    schema: Any, codec: str, blocks: list[tuple[int, bytes]], sync: bytes = b"s" * 16
) -> bytes:
    """Returns a file of blocks: numbers of records, and compressed bytes."""
    stream = io.BytesIO()
    writer: Any = Writer(stream, schema, sync_marker=sync)
    for rows, data in blocks:
        writer.write_block(types.SimpleNamespace(num_records=rows, bytes_=io.BytesIO(data)))
    name = bytes([2 * len(codec)]) + codec.encode()
    return stream.getvalue().replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + name, 1)
