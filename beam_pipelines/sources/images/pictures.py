"""One compressed image: its size, whether it decodes, and its conversion.

Pillow does the work, one image at a time. Images may come from anywhere and are not trusted: only
the formats named here are tried, and the size in a header is compared with a limit before memory is
allocated for pixels.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from beam_pipelines.core.limits import IMAGE_FORMATS, Limits, exceeded
from beam_pipelines.sources.images import bmp, wholeness
from beam_pipelines.sources.images.options import ImageOptions
from beam_pipelines.sources.images.picture_error import PictureError
from beam_pipelines.sources.images.png import encode_pngs

# Pillow's name -> ours. Pillow calls a phone's JPEG with a second picture inside MPO.
FORMAT_FOR_PILLOW = {
    "JPEG": "jpeg",
    "MPO": "jpeg",
    "PNG": "png",
    "BMP": "bmp",
    "GIF": "gif",
    "WEBP": "webp",
}
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
_ORIENTATION = 0x0112  # EXIF tag
# Trait of an image -> what is found if files are stored as they are, and if 'image' changes them.
FINDINGS = {
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
      format: ``jpeg``, ``png``, ``bmp``, ``gif`` or ``webp``.
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
        return ["turned"] * is_turned + ["16 bits"] * image.mode.startswith("I")


def probe(data: bytes, limits: Limits = Limits()) -> Look:  # noqa: B008 (it is frozen)
    """Decodes an image; returns format and size.

    A JPEG is decoded at an eighth of its size, which reads every byte and computes few pixels.

    Raises:
      PictureError: no image of a known format, one that TensorFlow does not decode, or one of more
        pixels than ``limits`` allow.
    """
    with opened(data, limits) as image:
        format_ = FORMAT_FOR_PILLOW[str(image.format)]
        return Look(format_, *wholeness.check_decodable(data, image, limits))


def convert(data: bytes, options: ImageOptions, limits: Limits = Limits()) -> tuple[bytes, Look]:  # noqa: B008 (it is frozen)
    """Turns an image upright, resizes, converts and encodes it.

    Returns:
      The new image, its format and size. An image that is already as the options ask keeps its
        bytes.

    Raises:
      PictureError: as ``probe`` does.
    """
    with opened(data, limits) as image:
        wholeness.check_whole(data, image, limits)
        look = Look(FORMAT_FOR_PILLOW[str(image.format)], *wholeness.colors_shape(image))
        format_ = options.format or ("jpeg" if look.format == "jpeg" else "png")
        mode = _target_mode(look, format_, options.mode)
        size = options.resize or (look.height, look.width)
        is_upright = image.getexif().get(_ORIENTATION, 1) == 1
        if (format_, *size, _CHANNELS[mode]) == look and is_upright and image.mode in _CHANNELS:
            return data, probe(data, limits)
        if options.resize:
            # At least twice the size in both directions, so that the final resize is smooth.
            image.draft(None, (2 * max(size), 2 * max(size)))
        grey = bmp.grey_pixels(data, image) if look.format == "bmp" else None
        picture = _in_mode(grey or ImageOps.exif_transpose(image), mode)
        if options.resize:
            picture = picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        encoded = _encode(picture, format_, options.quality)
        return encoded, Look(format_, picture.height, picture.width, _CHANNELS[mode])


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
