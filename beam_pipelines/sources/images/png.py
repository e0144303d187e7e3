"""Many small pictures of one size as PNG files, filtered together.

It takes a third of the time of an encoder of single pictures. Source of the format:
https://www.w3.org/TR/png-3/. Every row of pixels takes the Paeth filter (9.2), which suits
photographs and costs drawings little.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

# Colour types (11.2.1) by number of channels: grey, grey with alpha, RGB, RGBA.
COLOUR_FOR_CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PAETH = 4
_LEVEL = 3
# Filtering takes about 20 bytes a byte of pixels.
_FILTERED_BYTES = 1 << 20


def encode_pngs(pixels: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Encodes pictures without loss.

    Args:
      pixels: uint8[n, height, width, channels], of 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
        channels.

    Returns:
      n PNG files.
    """
    height, width, channels = pixels.shape[1:]
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_FOR_CHANNELS[channels], 0, 0, 0)
    begin, end = _SIGNATURE + _chunk(b"IHDR", header), _chunk(b"IEND", b"")
    step = max(1, _FILTERED_BYTES // max(1, height * width * channels))
    return pa.array(
        [
            begin + _chunk(b"IDAT", isal_zlib.compress(picture, _LEVEL)) + end
            for start in range(0, len(pixels), step)
            for picture in _filter(pixels[start : start + step])
        ],
        pa.binary(),
    )


def _filter(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns uint8[n, bytes]: filter number and filtered pixels of each row."""
    count, height, width, channels = pixels.shape
    # Pixels left of the first column and above the first row count as 0.
    known = np.zeros((count, height + 1, (width + 1) * channels), np.int16)
    known[:, 1:, channels:] = pixels.reshape(count, height, -1)
    left, above, corner = (
        known[:, 1:, :-channels],
        known[:, :-1, channels:],
        known[:, :-1, :-channels],
    )
    by_row: npt.NDArray[Any] = above - corner
    by_column: npt.NDArray[Any] = left - corner
    to_left, to_above, to_corner = abs(by_row), abs(by_column), abs(by_row + by_column)
    predicted = np.where(
        (to_left <= to_above) & (to_left <= to_corner),
        left,
        np.where(to_above <= to_corner, above, corner),
    )
    filtered = np.full((count, height, 1 + width * channels), _PAETH, np.uint8)
    filtered[:, :, 1:] = (known[:, 1:, channels:] - predicted).astype(np.uint8)
    return filtered.reshape(count, -1)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
    )
