"""Whether a GIF file is whole, with all of its frames.

Pillow composes frames and stops after the one that is asked for. TensorFlow decodes all frames as
they are in the file. Source of the format: https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

_HEADER_BYTES, _DESCRIPTOR_BYTES = 13, 10
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL = 0xF9
# Of a number of a color, with which the codes of a frame begin.
_MOST_BITS = 8
_HAS_TABLE, _INTERLACED, _IS_TRANSPARENT = 0x80, 0x40, 0x01


class Frame(NamedTuple):
    """One frame.

    Attributes:
      height, width: pixels of the frame, which may be a part of the picture.
      colors: number of colors in its table.
      transparent: number of the color that is left out, or -1.
      file: a GIF file with this frame alone.
    """

    height: int
    width: int
    colors: int
    transparent: int
    file: bytes


def frames(data: bytes) -> Iterator[Frame]:
    """Yields the frames of a GIF file.

    Raises:
      ValueError: it has none, or does not go on to the trailer as the format says.
    """
    try:
        yield from _frames(data)
    except (IndexError, struct.error) as error:
        raise ValueError("image file is truncated") from error


def check_frame(frame: Frame) -> None:
    """Decodes a frame.

    Raises:
      OSError: it does not decode.
      ValueError: pixels have numbers of no color.
    """
    with Image.open(io.BytesIO(frame.file), formats=("GIF",)) as image:
        image.load()
        counts = image.histogram()
    missing = set(range(frame.colors, len(counts))) - {frame.transparent}
    if any(counts[number] for number in missing):
        raise ValueError("a frame has pixels without a color")


def _frames(data: bytes) -> Iterator[Frame]:
    at = _HEADER_BYTES
    common, at = _table(data, at, data[10])
    transparent, found = -1, 0
    while data[at] != _TRAILER:
        if data[at] == _EXTENSION:
            if data[at + 1] == _GRAPHIC_CONTROL and data[at + 2] == 4:
                transparent = data[at + 6] if data[at + 3] & _IS_TRANSPARENT else -1
            at = _after_blocks(data, at + 2)
            continue
        if data[at] != _IMAGE:
            raise ValueError(f"found a block of kind {data[at]}")
        width, height, flags = struct.unpack_from("<HHB", data, at + 5)
        own, start = _table(data, at + _DESCRIPTOR_BYTES, flags)
        table = own or common
        at = _after_blocks(data, start + 1)
        if not (width and height and table and 0 < data[start] <= _MOST_BITS):
            raise ValueError("the head of a frame is wrong")
        found, count = found + 1, len(table) // 3
        size = struct.pack("<HH", width, height)
        # The size of a table: 2, 4, 8 … 256 colors as 0 to 7.
        flags_of_head = bytes((_HAS_TABLE | count.bit_length() - 2, 0, 0))
        head = b"GIF89a" + size + flags_of_head + table
        descriptor = bytes((_IMAGE, 0, 0, 0, 0)) + size + bytes((flags & _INTERLACED,))
        file = head + descriptor + data[start:at] + bytes((_TRAILER,))
        yield Frame(height, width, count, transparent, file)
        transparent = -1
    if not found:
        raise ValueError("there is no frame")


def _table(data: bytes, at: int, flags: int) -> tuple[bytes, int]:
    """Returns a table of colors, or nothing, and its end."""
    end = at + (3 * (2 << (flags & 7)) if flags & _HAS_TABLE else 0)
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _after_blocks(data: bytes, at: int) -> int:
    """Returns where a run of blocks, each with its length, ends."""
    while data[at]:
        at += data[at] + 1
    return at + 1
