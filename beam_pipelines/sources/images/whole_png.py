"""Whether a PNG file is whole, to its last byte.

Pillow checks no end, and takes fewer pixels than the header promises. Source of the format:
https://www.w3.org/TR/png-3/, chapters 5, 7 to 9 and 11.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from isal import isal_zlib

_SIGNATURE_BYTES = 8
_PALETTE = 3
# Colour type -> channels, and depths in bits.
_CHANNELS = {0: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), _PALETTE: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
# First column and row, and steps between columns and rows, of the seven passes of Adam7.
_PASSES = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
# A side that libpng takes, and the pixels that TensorFlow takes.
_MAX_SIDE, _MAX_PIXELS = 1_000_000, 1 << 29
_MAX_FILTER = 4
_TRUNCATED = "image file is truncated"


class _Header(NamedTuple):
    """The chunk IHDR."""

    width: int
    height: int
    depth: int
    color: int
    compression: int
    filtering: int
    interlacing: int


def check_png(data: bytes) -> tuple[int, int, int]:
    """Reads every chunk and decompresses the pixels.

    Returns:
      Height, width, channels; 3 or 4 of a palette.

    Raises:
      ValueError: the file is not whole, or libpng refuses it.
    """
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[0] != b"IHDR" or kinds.count(b"IHDR") > 1 or b"IDAT" not in kinds:
        raise ValueError("a chunk is missing or in the wrong place")
    header = _header(chunks[0][1])
    start, count = kinds.index(b"IDAT"), kinds.count(b"IDAT")
    if kinds[start : start + count].count(b"IDAT") != count:
        raise ValueError("a chunk stands between the pixels")
    palettes = [len(content) for kind, content in chunks[:start] if kind == b"PLTE"]
    if kinds.count(b"PLTE") != len(palettes) or len(palettes) > 1 or _is_wrong(palettes):
        raise ValueError("the palette is wrong or in the wrong place")
    _check_pixels(header, b"".join(content for _, content in chunks[start : start + count]))
    channels = _CHANNELS[header.color]
    if header.color == _PALETTE:
        if not palettes:
            raise ValueError("the palette is missing")
        channels = 4 if _has_alpha(chunks[kinds.index(b"PLTE") : start]) else 3
    return header.height, header.width, channels


def _is_wrong(palettes: Sequence[int]) -> bool:
    return any(size % 3 or not 0 < size <= 3 * 256 for size in palettes)


def _has_alpha(chunks: Sequence[tuple[bytes, memoryview]]) -> bool:
    """Whether chunks from the palette on give its colors alpha.

    Some of the colors suffice. A chunk with more values than colors is passed over.
    """
    colors = len(chunks[0][1]) // 3
    return any(kind == b"tRNS" and 0 < len(content) <= colors for kind, content in chunks)


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yields kind and content of each chunk, to the last one."""
    view, at = memoryview(data), _SIGNATURE_BYTES
    kind = b""
    while kind != b"IEND":
        if at + 12 > len(data):
            raise ValueError(_TRUNCATED)
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise ValueError(_TRUNCATED)
        (crc,) = struct.unpack_from(">I", data, end)
        if isal_zlib.crc32(view[at + 4 : end]) != crc:
            raise ValueError(f"the checksum of chunk {kind!r} is wrong")
        # No decoder may go on behind a chunk of capitals that it does not know.
        if not kind.isalpha() or (kind[:1].isupper() and kind not in _CRITICAL):
            raise ValueError(f"chunk {kind!r} is unknown")
        yield kind, view[at + 8 : end]
        at = end + 4


def _header(content: memoryview) -> _Header:
    header = _Header(*struct.unpack(">IIBBBBB", content))
    if (
        header.depth not in _DEPTHS.get(header.color, ())
        or header.compression
        or header.filtering
        or header.interlacing > 1
    ):
        raise ValueError("chunk b'IHDR' is wrong")
    if (
        not 0 < min(header.width, header.height) <= max(header.width, header.height) <= _MAX_SIDE
        or header.width * header.height >= _MAX_PIXELS
    ):
        raise ValueError(f"{header.width:,} × {header.height:,} pixels")
    return header


def _check_pixels(header: _Header, compressed: bytes) -> None:
    """Checks that pixels decompress, and their number and filters."""
    sizes = list(_row_sizes(header))
    expected = sum(rows * size for rows, size in sizes)
    if compressed[:1] > b"\x7f":
        raise ValueError("its pixels are compressed with a window that is too large")
    stream = isal_zlib.decompressobj()
    try:
        # More than it takes is passed over, as by libpng.
        raw = np.frombuffer(stream.decompress(compressed, expected + 1), np.uint8)
    except (isal_zlib.error, zlib.error) as error:
        raise ValueError(f"its pixels do not decompress: {error}") from error
    if len(raw) < expected or (len(raw) == expected and not stream.eof):
        raise ValueError(_TRUNCATED)
    at = 0
    for rows, size in sizes:
        if (raw[at : at + rows * size : size] > _MAX_FILTER).any():
            raise ValueError("a row has an unknown filter")
        at += rows * size


def _row_sizes(header: _Header) -> Iterator[tuple[int, int]]:
    """Yields the rows of each pass, and the bytes of one."""
    bits = header.depth * _CHANNELS[header.color]
    for column, row, across, down in _PASSES if header.interlacing else ((0, 0, 1, 1),):
        width = -(-(header.width - column) // across)
        rows = -(-(header.height - row) // down)
        if width > 0 and rows > 0:
            yield rows, 1 + (width * bits + 7) // 8
