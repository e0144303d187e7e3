"""One compressed image: its size, whether it decodes, and its conversion.

Pillow does the work, one image at a time. Images may come from anywhere and are not trusted: only
the formats named here are tried, and the size in a header is compared with a limit before memory is
allocated for pixels. It passes over what ends an epoch of a trainer: a JPEG whose end is zeros, a
PNG with fewer pixels than it promises. So both are checked as strictly as by libjpeg-turbo, whose
warnings are errors, and by libpng; this computes few pixels or none.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import simplejpeg
from isal import isal_zlib
from PIL import Image, ImageOps, UnidentifiedImageError

from beam_pipelines.core.limits import IMAGE_FORMATS, Limits, exceeded
from beam_pipelines.sources.images.options import ImageOptions, PictureError
from beam_pipelines.sources.images.pixel_rows import encode_pngs

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
_SAMPLES = {0: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
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
    bits = depth * _SAMPLES[color]
    rows = list(_row_sizes(width, height, bits, _PASSES if interlacing else ((0, 0, 1, 1),)))
    _check_samples(b"".join(content for kind, content in chunks if kind == b"IDAT"), rows)


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


def _check_samples(compressed: bytes, rows: list[tuple[int, int]]) -> None:
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


# Pillow's name of a format that is stored -> ours. Pillow calls a phone's JPEG with a second
# picture inside MPO.
_STORED = {"JPEG": "jpeg", "MPO": "jpeg", "PNG": "png", "WEBP": "webp"}
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
# Pillow's modes with a grey value for a pixel, and those with an alpha channel.
_GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16B")
_ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
# Bits of a pixel that Pillow 12 reads in a BMP file of a grey palette, whatever the file has.
_GREY_BITS = {"1": 1, "L": 8}
# TensorFlow refuses as many values, or a longer side, in some formats.
_MAX_VALUES, _MAX_SIDE = 1 << 29, 1_000_000
_ANIMATION_FLAG = 0x02
_ORIENTATION = 0x0112  # EXIF tag
# Trait of an image -> what is found if files are stored as they are, and if 'image' changes them.
FINDINGS = {
    "recoded": ("are GIF, BMP or animated, and their first picture becomes a PNG", ""),
    "turned": (
        "have a rotation tag, and are stored as they are  # 'image: {format: jpeg}' turns them",
        "have a rotation tag, and are turned upright  # boxes and masks must be for upright ones",
    ),
    "16 bits": (
        "",
        "have 16 bits a value, and keep the upper 8  # without 'image' the files stay as they are",
    ),
}

# Pillow's own limit is one for the whole process, not of a recipe; ours is also checked before
# decoding (opened).
Image.MAX_IMAGE_PIXELS = None


class Look(NamedTuple):
    """Format and size of an image.

    Attributes:
      format: ``jpeg``, ``png`` or ``webp``.
      height, width, channels: of the pixels that ``tf.io.decode_image`` returns: as stored, a
        camera's orientation tag not applied; 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    """

    format: str
    height: int
    width: int
    channels: int


def traits(data: bytes, limits: Limits) -> list[str]:
    """Returns those of ``FINDINGS`` that hold for an image. Decodes no pixels.

    Raises:
      PictureError: it is no image, or one of too many pixels.
    """
    with opened(data, limits) as image:
        is_turned = image.getexif().get(_ORIENTATION, 1) != 1
        return (
            ["recoded"] * (not _stored_format(data, image))
            + ["turned"] * is_turned
            + ["16 bits"] * image.mode.startswith("I")
        )


def probe(data: bytes, limits: Limits = Limits()) -> Look:  # noqa: B008 (it is frozen)
    """Checks that an image is whole; returns format and size.

    A JPEG is decoded at an eighth of its size, which reads every byte and computes few pixels.

    Raises:
      PictureError: no whole image of a format that is stored, or one of more pixels than ``limits``
        allow.
    """
    with opened(data, limits) as image:
        look = _check(data, image)
        if not look.format:
            kind = "an animated WebP" if image.format == "WEBP" else f"a {image.format}"
            raise PictureError(
                f"found {kind} image, which not every trainer decodes, expected JPEG, PNG or WebP",
                "Encode it as PNG, or leave it out.",
            )
        return _decodable(look)


def convert(data: bytes, options: ImageOptions, limits: Limits = Limits()) -> tuple[bytes, Look]:  # noqa: B008 (it is frozen)
    """Turns an image upright, resizes, converts and encodes it.

    Returns:
      The new image, its format and size. An image that is already as the options ask keeps its
        bytes. Without options, JPEG, PNG and WebP do, and others become PNG.

    Raises:
      PictureError: the image is not whole, or has more pixels than ``limits`` allow.
    """
    with opened(data, limits) as image:
        look = _check(data, image)
        if look.format and not options.changes:
            return data, _decodable(look)
        format_ = options.format or ("jpeg" if look.format == "jpeg" else "png")
        mode = _target_mode(look, format_, options.mode)
        size = options.resize or (look.height, look.width)
        is_upright = image.getexif().get(_ORIENTATION, 1) == 1
        if (format_, *size, _CHANNELS[mode]) == look and is_upright and image.mode in _CHANNELS:
            return data, _decodable(look)
        if options.resize:
            # At least twice the size in both directions, so that the final resize is smooth.
            image.draft(None, (2 * max(size), 2 * max(size)))
        picture = _in_mode(ImageOps.exif_transpose(image), mode)
        if options.resize:
            picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        encoded = _encode(picture, format_, options.quality)
        look = Look(format_, picture.height, picture.width, _CHANNELS[mode])
        return encoded, _decodable(look)


def _check(data: bytes, image: Image.Image) -> Look:
    """Checks that an image is whole.

    Args:
      data: the file.
      image: opened and not decoded.

    Returns:
      Its look; the format is empty if it is not stored. Channels of a palette are those of its
        colors, of GIF and CMYK 3.

    Raises:
      PictureError: Pillow would misread it.
      Exception: it is not whole.
    """
    if image.format in ("JPEG", "MPO"):
        check_jpeg(data)
    elif image.format == "PNG":
        check_png(data)
    else:
        if image.format == "BMP" and not image.info["compression"]:
            bits = data[28] if data[14] >= 40 else data[24]
            if bits != _GREY_BITS.get(image.mode, bits):
                raise PictureError(
                    f"found a BMP image of {bits} bits a pixel and a grey palette, expected "
                    f"{_GREY_BITS[image.mode]} bits",
                    "Encode it as PNG, or leave it out.",
                )
        image.load()
    has_alpha = image.mode in _ALPHA_MODES or (image.mode == "P" and "transparency" in image.info)
    is_grey = image.mode in _GREY_MODES
    channels = 3 if image.format == "GIF" else (1 if is_grey else 3) + has_alpha
    return Look(_stored_format(data, image), image.height, image.width, channels)


def _stored_format(data: bytes, image: Image.Image) -> str:
    """Returns the format of a file that is stored unchanged, or ""."""
    # TensorFlow ends the program on an animated WebP.
    if image.format == "WEBP" and data[12:16] == b"VP8X" and data[20] & _ANIMATION_FLAG:
        return ""
    return _STORED.get(str(image.format), "")


def _decodable(look: Look) -> Look:
    """Checks that TensorFlow decodes images of such a size."""
    _, height, width, channels = look
    if height * width * channels >= _MAX_VALUES or max(height, width) > _MAX_SIDE:
        raise PictureError(
            f"found {width:,} × {height:,} pixels, which TensorFlow does not decode, "
            "expected fewer",
            "Resize images by the recipe, 'image: {resize: …}', or leave the file out.",
        )
    return look


@contextlib.contextmanager
def opened(data: bytes, limits: Limits) -> Iterator[Image.Image]:
    """Opens an image, reads its header, and raises errors as ``PictureError``."""
    try:
        width, height = _webp_size(data) or (0, 0)
        _check_pixels(width, height, limits)
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            _check_pixels(image.width, image.height, limits)
            yield image
    except PictureError:
        raise
    except UnidentifiedImageError as error:
        raise PictureError(
            f"found {_beginning(data)}, expected a JPEG, PNG, BMP, GIF or WebP image",
            "Mend the file, or leave it out.",
        ) from error
    except Exception as error:  # Pillow's decoders raise errors of all kinds
        words = str(error).rstrip(".") or type(error).__name__
        raise PictureError(
            f"found an image that does not decode ({words}), expected a whole one",
            "Get the file again, or leave it out.",
        ) from error


def _check_pixels(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.image_pixels:
        raise PictureError(exceeded(limits, "image_pixels", f"{width:,} × {height:,} pixels"))


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Returns width and height of an extended WebP file.

    Pillow would allocate memory for it as it opens it. Source:
    https://developers.google.com/speed/webp/docs/riff_container, extended file format.
    """
    if data[:4] != b"RIFF" or data[8:16] != b"WEBPVP8X" or len(data) < 30:
        return None
    width, height = (
        struct.unpack("<I", data[start : start + 3] + b"\0")[0] + 1 for start in (24, 27)
    )
    return width, height


def _beginning(data: bytes) -> str:
    return f"bytes that begin with {data[:12]!r}" if data else "an empty file"


def _target_mode(look: Look, format_: str, wanted: str | None) -> str:
    """Returns Pillow's mode of the new image: L, LA, RGB or RGBA."""
    if wanted:
        return {"grey": "L", "rgb": "RGB"}[wanted]
    has_alpha = look.channels in (2, 4) and format_ != "jpeg"
    return ("L" if look.channels <= 2 else "RGB") + ("A" if has_alpha else "")


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """Converts pixels; of 16 bits the upper 8 remain, as in TensorFlow."""
    if image.mode.startswith("I"):
        image = Image.fromarray(
            (np.asarray(image).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8)
        )
    return image if image.mode == mode else image.convert(mode)


def _encode(picture: Image.Image, format_: str, quality: int) -> bytes:
    if format_ == "png":
        pixels = np.asarray(picture)
        encoded: bytes = encode_pngs(pixels.reshape(1, *pixels.shape[:2], -1))[0].as_py()
        return encoded
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=quality)
    return stream.getvalue()
