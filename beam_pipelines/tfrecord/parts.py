"""Inflates and checks a part of a shard."""

from __future__ import annotations

import numpy as np
from isal import igzip_lib, isal_zlib

from beam_pipelines.tfrecord.part_index import PartIndex, Restarts

# An empty last block of fixed codes; a part has no last block (tfrecord/compression.py).
_LAST_BLOCK = b"\x03\x00"
_RAW_BITS = -15


def inflate_part(index: PartIndex, part: int, data: bytes) -> bytes:
    """Returns a part's framed records from its bytes in the file.

    Raises:
      ValueError: these are not the bytes that the index is of; says why.
    """
    columns, framed_bytes = index.columns, int(index.columns.framed_bytes[part])
    if len(data) != columns.bytes[part]:
        raise ValueError(f"found {len(data):,} bytes, expected {columns.bytes[part]:,}")
    try:
        if index.compression == "none":
            found = data
        elif index.restarts is not None:
            found = _restarted(index.restarts, part, data, framed_bytes)
        else:
            found = igzip_lib.decompress(
                data + _LAST_BLOCK, igzip_lib.DECOMP_DEFLATE, bufsize=framed_bytes
            )
    except (isal_zlib.error, EOFError) as error:
        raise ValueError(f"found damaged {index.compression} data ({error})") from error
    if len(found) != framed_bytes:
        raise ValueError(f"found {len(found):,} bytes of records, expected {framed_bytes:,}")
    checksum, expected = isal_zlib.crc32(found), int(columns.crc32[part])
    if checksum != expected:
        raise ValueError(f"found records with CRC-32 {checksum:08x}, expected {expected:08x}")
    return found


def _restarted(restarts: Restarts, part: int, data: bytes, framed_bytes: int) -> bytes:
    """Inflates a part that begins within another writer's stream."""
    bit, skipped = int(restarts.bit[part]), int(restarts.skipped[part])
    stream = isal_zlib.decompressobj(_RAW_BITS, zdict=restarts.window[part].as_py())
    found: bytes = stream.decompress(shifted(data, bit), skipped + framed_bytes)
    return found[skipped:]


def shifted(data: bytes, bits: int) -> bytes:
    """Returns a deflate stream without its first bits."""
    if not bits:
        return data
    found = np.frombuffer(data, np.uint8)
    moved = found >> bits
    moved[:-1] |= found[1:] << (8 - bits)
    return moved.tobytes()
