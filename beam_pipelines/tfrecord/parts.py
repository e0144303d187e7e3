"""Inflates and checks a part of a shard."""

from __future__ import annotations

from typing import NamedTuple

from isal import igzip_lib, isal_zlib

from beam_pipelines.tfrecord.part_index import PartIndex, Restarts

# An empty last block of fixed codes; a part has no last block (sinks/tfrecord/deflate.py).
_LAST_BLOCK = b"\x03\x00"
_RAW_BITS = -15


class _Block(NamedTuple):
    """An empty deflate block, not the last: its bits, and their number."""

    value: int
    size: int


# Fixed codes: 0, type 1 in 2 bits, and the end in 7.
_FIXED = _Block(0b010, 10)


def _dynamic() -> _Block:
    """Returns a block with codes of one bit for two symbols.

    The symbols are byte 255 and the end. Source: RFC 1951, 3.2.7.
    """
    value = size = 0

    def add(number: int, bits: int) -> None:
        nonlocal value, size
        value |= number << size
        size += bits

    for number, bits in ((0b100, 3), (0, 5), (0, 5), (14, 4)):
        add(number, bits)
    for symbol in (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1):
        add(symbol in (1, 18), 3)  # codes of one bit: 0 for 1, and 1 for 18
    for zeros in (138, 117):
        add(1, 1)
        add(zeros - 11, 7)
    add(0, 3)  # length 1 of byte 255, of the end, and of the only distance
    add(1, 1)  # the end
    return _Block(value, size)


_DYNAMIC = _dynamic()


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
    found: bytes = stream.decompress(after_bits(data, bit), skipped + framed_bytes)
    return found[skipped:]


def after_bits(data: bytes, bits: int) -> bytes:
    """Returns a deflate stream without its first bits.

    A stored block begins at a whole byte of the file. So bits are not moved: empty blocks take the
    place of those left out.
    """
    # The blocks have 3 and 2 bits more than whole bytes.
    odd = bits % 2
    count = next(n for n in range(4) if (odd * _DYNAMIC.size + n * _FIXED.size) % 8 == bits)
    blocks = odd * [_DYNAMIC] + count * [_FIXED]
    value = size = 0
    for block in blocks:
        value |= block.value << size
        size += block.size
    value |= data[0] >> bits << size
    return value.to_bytes((size + 8 - bits) // 8, "little") + data[1:]
