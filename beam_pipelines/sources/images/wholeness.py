"""Whether a JPEG or PNG file is whole, to its last byte.

Pillow passes over what ends an epoch of a trainer: a JPEG whose end is zeros, a PNG with fewer
pixels than its header promises. The checks here are as strict as libjpeg-turbo, whose warnings are
errors, and libpng. They compute few pixels or none.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator

import numpy as np
import simplejpeg
from isal import isal_zlib
from PIL import Image

# A marker that is no part of pixels: neither a stuffed 0, nor RST, nor a fill byte.
_JPEG_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
_JPEG_END = b"\xd9"
# Source of the format of PNG: https://www.w3.org/TR/png-3/, chapters 5, 7 to 9 and 11. No decoder
# may go on behind a chunk of capitals that it does not know.
_CHUNK_ORDER = re.compile(
    rb"IHDR([a-z][A-Za-z]{3})*(PLTE([a-z][A-Za-z]{3})*)?(IDAT)+([a-z][A-Za-z]{3})*IEND"
)
_SIGNATURE_BYTES, _PALETTE, _MAX_FILTER = 8, 3, 4
# Colour type -> channels.
_CHANNELS = {0: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
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
_TRUNCATED = "image file is truncated"


def check_jpeg(data: bytes) -> None:
    """Decodes a JPEG; a warning of libjpeg is an error.

    At an eighth of the size it reads every byte and computes few pixels.

    Raises:
      ValueError, OSError: it is not whole.
    """
    try:
        simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, strict=True)
    except ValueError as error:
        if "subsampling" not in str(error):
            raise
        # The TurboJPEG API has names for the usual ratios of color to brightness only. Pillow takes
        # the others; it passes over warnings, and does not look for the end of the image.
        _check_jpeg_end(data)
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            image.load()


def _check_jpeg_end(data: bytes) -> None:
    """Checks that a JPEG has an end behind its last scan.

    Source: https://www.w3.org/Graphics/JPEG/itu-t81.pdf, appendix B.
    """
    at = 2
    while (marker := _JPEG_MARKER.search(data, at)) and marker[1] != _JPEG_END:
        at = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")
    if not marker:
        raise ValueError("Premature end of JPEG file")


def check_png(data: bytes) -> None:
    """Reads every chunk, and decompresses pixels without decoding them.

    It takes a fifth of the time of a decoder.

    Args:
      data: a file that Pillow has opened, so that color, depth and filtering are known ones.

    Raises:
      ValueError, isal_zlib.error: it is not whole, or libpng refuses it.
    """
    chunks = list(_chunks(data))
    if not _CHUNK_ORDER.fullmatch(b"".join(kind for kind, _ in chunks)):
        raise ValueError("a chunk is missing, unknown or in the wrong place")
    width, height, depth, color, compression, _, interlacing = struct.unpack(
        ">IIBBBBB", chunks[0][1]
    )
    if compression or interlacing > 1:
        raise ValueError("chunk b'IHDR' is wrong")
    sizes = {kind: len(content) for kind, content in chunks}
    palette = sizes.get(b"PLTE", 0 if color == _PALETTE else 3)
    if palette % 3 or not 0 < palette <= 3 * 256:
        raise ValueError("the palette is missing or wrong")
    # Decoders disagree on alpha that does not fit.
    if color == _PALETTE and not 0 < 3 * sizes.get(b"tRNS", 1) <= palette:
        raise ValueError("the alpha of the palette is wrong")
    bits = depth * _CHANNELS[color]
    rows = list(_row_sizes(width, height, bits, _PASSES if interlacing else ((0, 0, 1, 1),)))
    _check_pixels(b"".join(content for kind, content in chunks if kind == b"IDAT"), rows)


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yields kind and content of each chunk, to the last one."""
    view, at, kind = memoryview(data), _SIGNATURE_BYTES, b""
    while kind != b"IEND":
        if at + 12 > len(data):
            raise ValueError(_TRUNCATED)
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise ValueError(_TRUNCATED)
        if isal_zlib.crc32(view[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError(f"the checksum of chunk {kind!r} is wrong")
        yield kind, view[at + 8 : end]
        at = end + 4


def _row_sizes(
    width: int, height: int, bits: int, passes: tuple[tuple[int, int, int, int], ...]
) -> Iterator[tuple[int, int]]:
    """Yields the rows of each pass, and the bytes of one."""
    for column, row, across, down in passes:
        columns, rows = -(-(width - column) // across), -(-(height - row) // down)
        if columns > 0 and rows > 0:
            yield rows, 1 + (columns * bits + 7) // 8


def _check_pixels(compressed: bytes, rows: list[tuple[int, int]]) -> None:
    """Checks that pixels decompress, and their number and filters."""
    if compressed[:1] > b"\x7f":
        raise ValueError("its pixels are compressed with a window that is too large")
    stream, expected = isal_zlib.decompressobj(), sum(number * size for number, size in rows)
    # More than it takes is passed over, as by libpng.
    raw = np.frombuffer(stream.decompress(compressed, expected + 1), np.uint8)
    if len(raw) < expected or (len(raw) == expected and not stream.eof):
        raise ValueError(_TRUNCATED)
    at = 0
    for number, size in rows:
        if (raw[at : at + number * size : size] > _MAX_FILTER).any():
            raise ValueError("a row has an unknown filter")
        at += number * size
