"""Whether an image is whole, and whether TensorFlow decodes it.

Pillow passes over much that ends an epoch of a trainer: a JPEG whose end is zeros, a GIF or PNG
without its last bytes, a BMP of 16 bits. The checks here are those of ``tf.io.decode_image``,
without TensorFlow, which workers do not load. Warnings of libjpeg-turbo are errors.
"""

from __future__ import annotations

import io
import re

import simplejpeg
from PIL import Image

from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.sources.images import bmp, whole_gif, whole_png
from beam_pipelines.sources.images.picture_error import PictureError

# Shape of the pixels that ``tf.io.decode_image`` returns: height, width, channels.
Shape = tuple[int, int, int]
# Pillow's modes with a grey value for a pixel, and those with an alpha channel.
_GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16B")
_ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
# TensorFlow refuses a JPEG with as many values. It takes some more in other formats.
_MAX_VALUES = 1 << 29
_ANIMATION_FLAG = 0x02
# A marker that is no part of pixels: neither a stuffed 0, nor RST, nor a fill byte.
_JPEG_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
_JPEG_END = b"\xd9"


def check_whole(data: bytes, image: Image.Image, limits: Limits) -> Shape:
    """Checks what decoding by Pillow does not find.

    Args:
      data: the file.
      image: opened and not decoded. A BMP or WebP has to be decoded besides.

    Returns:
      Height, width and channels: of a GIF those of its largest frame.

    Raises:
      ValueError: the image is not whole.
      PictureError: the frames of a GIF have more pixels than ``limits`` allow.
    """
    if image.format == "PNG":
        return whole_png.check_png(data)
    if image.format == "GIF":
        return _check_gif(data, limits)
    if image.format in ("JPEG", "MPO"):
        _check_jpeg(data)
    return colors_shape(image)


def colors_shape(image: Image.Image) -> Shape:
    """Returns height, width and channels.

    Of a palette they are those of its colors, of GIF and CMYK 3.
    """
    has_alpha = image.mode in _ALPHA_MODES or (image.mode == "P" and "transparency" in image.info)
    is_grey = image.mode in _GREY_MODES
    channels = 3 if image.format == "GIF" else (1 if is_grey else 3) + has_alpha
    return image.height, image.width, channels


def check_decodable(data: bytes, image: Image.Image, limits: Limits) -> Shape:
    """Checks that an image is whole, and that TensorFlow decodes its format.

    Returns:
      Height, width and channels of the pixels that ``tf.io.decode_image`` returns.

    Raises:
      ValueError: the image is not whole.
      PictureError: TensorFlow does not decode it.
    """
    shape = check_whole(data, image, limits)
    if image.format == "BMP":
        bmp.grey_pixels(data, image) or image.load()
        # TensorFlow reads no palette: its pixels are the numbers of colors.
        shape = (*shape[:2], bmp.read_header(data).bits // 8)
        if problem := bmp.tensorflow_problem(data):
            raise PictureError(problem, bmp.CURE)
    elif image.format == "WEBP" and data[12:16] == b"VP8X" and data[20] & _ANIMATION_FLAG:
        raise PictureError(
            "found an animated WebP image, which TensorFlow does not decode, expected one picture",
            bmp.CURE,
        )
    if image.width * image.height * len(image.getbands()) >= _MAX_VALUES:
        raise PictureError(
            f"found {image.width:,} × {image.height:,} pixels, which TensorFlow does not decode, "
            "expected fewer",
            "Resize images by the recipe, 'image: {resize: …}', or leave the file out.",
        )
    if image.format == "WEBP":
        image.load()
    return shape


def _check_jpeg(data: bytes) -> None:
    """Decodes a JPEG; a warning of libjpeg is an error.

    At an eighth of the size it reads every byte and computes few pixels.
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


def _check_gif(data: bytes, limits: Limits) -> Shape:
    """Decodes all frames of a GIF, as TensorFlow does."""
    frames = list(whole_gif.frames(data))
    # TensorFlow holds all of them in memory at once.
    pixels = sum(frame.height * frame.width for frame in frames)
    if pixels > limits.image_pixels:
        what = f"a GIF of {len(frames):,} frames with {pixels:,} pixels"
        raise PictureError(exceeded(limits, "image_pixels", what))
    for frame in frames:
        whole_gif.check_frame(frame)
    return max(frame.height for frame in frames), max(frame.width for frame in frames), 3
