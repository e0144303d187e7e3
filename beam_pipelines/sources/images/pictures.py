"""One compressed image: its size, whether it decodes, and its conversion.

Pillow does the work, one image at a time. Images may come from anywhere and are not trusted: only
the formats named here are tried, and the size in a header is compared with a limit before memory is
allocated for pixels. It passes over what ends an epoch of a trainer: a JPEG whose end is zeros, a
PNG with fewer pixels than it promises. So JPEGs are decoded by libjpeg-turbo, whose warnings are
errors, and what Pillow takes of a PNG has to be what libpng takes.
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
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from beam_pipelines.core.limits import IMAGE_FORMATS, Limits, exceeded
from beam_pipelines.sources.images.options import ImageOptions, PictureError
from beam_pipelines.sources.images.pixel_rows import encode_pngs

# What libpng wants of chunks (https://www.w3.org/TR/png-3/, chapter 5): their order, and none that
# must be known and is not. The first one with its methods.
_CHUNK_ORDER = re.compile(
    rb"IHDR([a-z][A-Za-z]{3})*(PLTE([a-z][A-Za-z]{3})*)?(IDAT)+([a-z][A-Za-z]{3})*IEND"
)
_HEAD = re.compile(rb".{8}\0\0\0\rIHDR.{10}\0\0[\0\1]", re.DOTALL)
_PALETTE = 3
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


def check_jpeg(data: bytes) -> None:
    """Decodes a JPEG; a warning of libjpeg is an error.

    At an eighth of the size it reads every byte and computes few pixels.

    Raises:
      ValueError: it is not whole.
      PictureError: TurboJPEG has no name for its ratio of color to brightness.
    """
    try:
        simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, strict=True)
    except ValueError as error:
        if "subsampling" in str(error):
            raise PictureError(
                "found a JPEG of a rare ratio of color to brightness, expected a usual one, such "
                "as 4:2:0",
                "Encode it as PNG, or leave it out.",
            ) from error
        raise


def check_png(data: bytes, image: Image.Image) -> int:
    """Decodes a PNG; what only libpng refuses is an error, too.

    Args:
      data: the file.
      image: opened by Pillow and not decoded.

    Returns:
      Its channels: 1 to 4.

    Raises:
      Exception: it is not whole.
    """
    image.load()
    chunks: list[tuple[bytes, bytes]] = []
    file = io.BytesIO(data[8:])
    with PngImagePlugin.ChunkStream(file) as reader:
        while not chunks or chunks[-1][0] != b"IEND":
            kind, _, size = reader.read()
            chunks.append((kind, file.read(size)))
            reader.crc(*chunks[-1])
    kinds = [kind for kind, _ in chunks]
    if not (_HEAD.match(data) and _CHUNK_ORDER.fullmatch(b"".join(kinds))):
        raise ValueError("a chunk is missing, unknown or in the wrong place")
    depth, color = data[24:26]
    _check_rows(
        b"".join(content for kind, content in chunks if kind == b"IDAT"),
        image,
        depth * _SAMPLES[color],
    )
    sizes = {kind: len(content) for kind, content in chunks}
    colors, alpha = sizes.get(b"PLTE", 0) / 3, sizes.get(b"tRNS")
    if (color == _PALETTE or b"PLTE" in sizes) and colors not in range(1, 257):
        raise ValueError("the palette is missing or wrong")
    if color != _PALETTE:
        return _SAMPLES[color]
    if alpha is None:
        return 3
    # Decoders disagree on alpha that does not fit.
    is_placed = kinds.index(b"PLTE") < kinds.index(b"tRNS") < kinds.index(b"IDAT")
    if not is_placed or not 0 < alpha <= colors:
        raise ValueError("the alpha of the palette is wrong")
    return 4


def _check_rows(compressed: bytes, image: Image.Image, bits: int) -> None:
    """Checks that all rows are there, which Pillow would leave black."""
    size = 0
    for column, row, across, down in _PASSES if image.info.get("interlace") else ((0, 0, 1, 1),):
        if columns := len(range(column, image.width, across)):
            size += len(range(row, image.height, down)) * (1 + (columns * bits + 7) // 8)
    stream = isal_zlib.decompressobj()
    # Some programs write more, which is passed over; a bomb is cut off.
    if len(stream.decompress(compressed, 2 * size + 1)) < size or not stream.eof:
        raise ValueError("its rows are fewer than its header says, or damaged")


# Pillow's name of a format that is stored -> ours. Pillow calls a phone's JPEG with a second
# picture inside MPO.
_STORED = {"JPEG": "jpeg", "MPO": "jpeg", "PNG": "png", "WEBP": "webp"}
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
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
    if image.format == "PNG":
        channels = check_png(data, image)
    else:
        if image.format in ("JPEG", "MPO"):
            check_jpeg(data)
        else:
            _check_bmp(data, image)
            image.load()
        mode = "P" if image.format == "GIF" else image.mode
        channels = 1 if mode == "1" else _CHANNELS.get(mode, 3)
    return Look(_stored_format(data, image), image.height, image.width, channels)


def _check_bmp(data: bytes, image: Image.Image) -> None:
    """Refuses a BMP whose grey palette Pillow would misread."""
    if image.format == "BMP" and not image.info["compression"]:
        bits = data[28] if data[14] >= 40 else data[24]
        if bits != _GREY_BITS.get(image.mode, bits):
            raise PictureError(
                f"found a BMP image of {bits} bits a pixel and a grey palette, expected "
                f"{_GREY_BITS[image.mode]} bits",
                "Encode it as PNG, or leave it out.",
            )


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
        found = f"bytes that begin with {data[:12]!r}" if data else "an empty file"
        raise PictureError(
            f"found {found}, expected a JPEG, PNG, BMP, GIF or WebP image",
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
