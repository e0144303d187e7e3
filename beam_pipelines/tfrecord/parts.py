"""Inflates and checks a part of a shard."""

from __future__ import annotations

from isal import igzip_lib, isal_zlib

from beam_pipelines.tfrecord.part_index import PartIndex

# An empty last block of fixed codes; a part has no last block (sinks/tfrecord/deflate.py).
LAST_BLOCK = b"\x03\x00"


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
        else:
            found = igzip_lib.decompress(
                data + LAST_BLOCK, igzip_lib.DECOMP_DEFLATE, bufsize=framed_bytes
            )
    except (isal_zlib.error, EOFError) as error:
        raise ValueError(f"found damaged {index.compression} data ({error})") from error
    if len(found) != framed_bytes:
        raise ValueError(f"found {len(found):,} bytes of records, expected {framed_bytes:,}")
    checksum, expected = isal_zlib.crc32(found), int(columns.crc32[part])
    if checksum != expected:
        raise ValueError(f"found records with CRC-32 {checksum:08x}, expected {expected:08x}")
    return found
