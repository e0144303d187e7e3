"""BMP files: what TensorFlow decodes, and what Pillow misreads.

Source of the format: https://learn.microsoft.com/windows/win32/gdi/bitmap-storage.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from PIL import Image

_CHANNELS = (1, 3, 4)
_HEADER_BYTES = 40
# Pillow's name of numbers of colors, by bits.
_NUMBERS = {1: "P;1", 4: "P;4", 8: "P"}
_UNCOMPRESSED = 0
CURE = "Re-encode images by the recipe, 'image: {format: png}', or leave the file out."


class Header(NamedTuple):
    """What a BMP file says of its pixels.

    Attributes:
      size: bytes of the header; with fewer than 40 the other fields have no meaning.
      start: place of the first of them.
      width, height: their number; a negative height if the upper row comes first.
      bits: of each.
      compression: 0 for none.
    """

    size: int
    start: int
    width: int
    height: int
    bits: int
    compression: int


def read_header(data: bytes) -> Header:
    """Returns the header of a BMP file that Pillow has opened."""
    start, size = struct.unpack_from("<ii", data, 10)
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    return Header(size, start, width, height, bits, compression)


def tensorflow_problem(data: bytes) -> str:
    """Returns why TensorFlow refuses a BMP file; empty if it does not."""
    header = read_header(data)
    if header.size < _HEADER_BYTES:
        return "found a BMP image of OS/2, which TensorFlow does not decode"
    channels = header.bits // 8
    if channels not in _CHANNELS:
        return (
            f"found a BMP image of {header.bits} bits a pixel, which TensorFlow does not decode, "
            "expected 8, 24 or 32"
        )
    row_bytes = (channels * header.width + 3) // 4 * 4
    end = header.start + row_bytes * abs(header.height)
    if header.width <= 0 or header.start < 0 or len(data) != end:
        return (
            f"found a BMP image of {len(data):,} bytes, which TensorFlow does not decode, expected "
            "pixels without compression up to the end of the file"
        )
    return ""


def grey_pixels(data: bytes, image: Image.Image) -> Image.Image | None:
    """Returns the pixels of a grey BMP file, mode L.

    Pillow 12 takes all of them for 8 bits each, and black and white ones for 1 bit.

    Args:
      data: the file.
      image: opened, not decoded.

    Returns:
      ``None`` for every other file.
    """
    header = read_header(data)
    if (
        image.mode not in ("1", "L")
        or header.size < _HEADER_BYTES
        or header.bits not in _NUMBERS
        or header.compression != _UNCOMPRESSED
    ):
        return None
    greys = range(256) if image.mode == "L" else (0, 255)
    row_bytes = (header.width * header.bits + 31) // 32 * 4
    rows = data[header.start : header.start + row_bytes * abs(header.height)]
    upper_first = 1 if header.height < 0 else -1
    kind = _NUMBERS[header.bits]
    picture = Image.frombytes("P", image.size, rows, "raw", kind, row_bytes, upper_first)
    picture.putpalette([value for grey in greys for value in (grey, grey, grey)])
    return picture.convert("L")
