"""Decodes, crops and resizes compressed images, in threads.

A kernel does so with JPEGs, a group of batches in one call. The code here defines its pixels, and
decodes what it leaves out: other formats, rare JPEGs (CMYK, some samplings), damaged files.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.limits import IMAGE_FORMATS
from beam_pipelines.reader.arrays import WrongRowError, array_of

Pixels = npt.NDArray[np.uint8]
# Left, top, right, bottom.
Box = tuple[float, float, float, float]

# Module -> package to install.
_PACKAGES = {"PIL": "pillow", "simplejpeg": "simplejpeg"}
_MODES = {1: "L", 3: "RGB"}
# Share of the area, and ratio of width to height, of a random crop: those of Inception's training.
_SCALE = 0.08, 1.0
_RATIO = 3 / 4, 4 / 3
_TRIES = 10
# The end of a file tells pictures apart, and is hashed sooner than all of it.
_HASHED_BYTES = 4096
# Pillow's limit, for a process whose conversion has taken it away.
_USUAL_PIXELS = 89_478_485


class Image(NamedTuple):
    """How compressed images of any sizes become pixels of one size.

    Attributes:
      size: (height, width) of the result.
      crop: ``None`` resizes the whole image, and does not keep its proportions. ``center`` cuts the
        largest centered rectangle of the result's proportions. ``random`` cuts a random rectangle:
        8 to 100 % of the area, 3:4 to 4:3.
      channels: 3 (RGB) or 1 (grey). Alpha is dropped.
      device: ``cuda``: the device of ``batches`` decodes JPEGs, to nearly the same pixels.
    """

    size: tuple[int, int]
    crop: Literal["center", "random"] | None = None
    channels: int = 3
    device: Literal["cuda"] | None = None


def check_image(name: str, image: Image) -> None:
    """Checks how a feature is decoded.

    Raises:
      ValueError: it is no ``Image``, or one with a wrong size, crop or number of channels; or a
        package that decodes images is not installed.
    """
    where = f"images: found {image!r} for feature '{name}', expected"
    if not isinstance(image, Image):
        raise ValueError(f"{where} bp.Image(size=(height, width)).")  # noqa: TRY004
    size = image.size
    if (
        not isinstance(size, tuple)
        or len(size) != 2
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in size)
    ):
        raise ValueError(f"{where} a size of (height, width) in pixels.")
    if image.crop not in {None, "center", "random"}:
        raise ValueError(f"{where} a crop of None, 'center' or 'random'.")
    if image.channels not in _MODES:
        raise ValueError(f"{where} channels of 1 (grey) or 3 (RGB).")
    if image.device not in {None, "cuda"}:
        raise ValueError(f"{where} a device of None or 'cuda'.")
    for module, package in _PACKAGES.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(
                f"images: found no {package} that can be imported ({error}). Install "
                f"{' and '.join(_PACKAGES.values())}."
            ) from error


class Pictures(NamedTuple):
    """Pictures of a batch; a device decodes its JPEGs.

    Attributes:
      files: uint8 [bytes], one behind the other.
      sizes: int64 [rows], bytes of each.
      epochs: int64 [rows], number of each row's epoch.
      cuts: float32 [rows, 5], as ``_native.cut_jpegs`` returns them.
      others: int64, rows that are decoded here: other formats, rare JPEGs.
      pixels: uint8 [others, height, width, channels], of these.
    """

    files: Any
    sizes: Any
    epochs: Any
    cuts: Any
    others: Any
    pixels: Any


class PicturesColumn:
    """Pictures of a group of batches."""

    def __init__(self, contents: pa.Array, rest: Pictures) -> None:
        self._offsets, self._rest = offsets_of(contents), rest
        count = int(self._offsets[-1])
        self._bytes = array_of(
            pa.Array.from_buffers(pa.uint8(), count, [None, contents.buffers()[2]])
        )

    def cut(self, start: int, end: int) -> Pictures:
        """Returns the pictures of some rows."""
        offsets, rest = self._offsets[start : end + 1], self._rest
        first, behind = np.searchsorted(rest.others, (start, end))
        return Pictures(
            self._bytes[offsets[0] : offsets[-1]],
            np.diff(offsets),
            rest.epochs[start:end],
            rest.cuts[start:end],
            rest.others[first:behind] - start,
            rest.pixels[first:behind],
        )


def prepare_pictures(
    name: str, contents: pa.Array, image: Image, seed: int, epochs: npt.NDArray[np.int64]
) -> PicturesColumn:
    """Finds the cuts of JPEGs for a device, and decodes other pictures.

    Args:
      name, contents, image, seed, epochs: as ``decode_images``.

    Raises:
      WrongRowError: a content that is no JPEG is no image that can be decoded.
    """
    found = _native.cut_jpegs(contents, *_arguments(image, seed, epochs))
    cuts, others = found or (np.zeros((len(contents), 5), np.float32), np.arange(len(contents)))
    pixels = np.empty((len(others), *image.size, image.channels), np.uint8)
    _decode_rows(name, contents, image, seed, epochs, others, list(pixels))
    return PicturesColumn(contents, Pictures(None, None, epochs, cuts, others, pixels))


def decode_images(
    name: str, contents: pa.Array, image: Image, seed: int, epochs: npt.NDArray[np.int64]
) -> Pixels:
    """Decodes pictures in threads, without the interpreter's lock.

    A random crop depends on the seed, the epoch and the picture alone: it is the same after a
    resume, on every rank and in any batch.

    Args:
      name: of the feature, for messages.
      contents: large_binary, files of images, one a row.
      image: the result.
      seed: of the crops, 0 or more.
      epochs: int64, number of each row's epoch.

    Returns:
      uint8 [rows, height, width, channels].

    Raises:
      WrongRowError: a content is no image that can be decoded.
    """
    found = _native.decode_jpegs(contents, *_arguments(image, seed, epochs))
    shape = *image.size, image.channels
    if found is None:
        pixels, left = np.empty((len(contents), *shape), np.uint8), np.arange(len(contents))
    else:
        pixels, left = array_of(found[0]).reshape(-1, *shape), found[1]
    results = [pixels[row] for row in left.tolist()]
    _decode_rows(name, contents, image, seed, epochs, left, results)
    return pixels


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return len(affinity) or os.cpu_count() or 1


def _arguments(image: Image, seed: int, epochs: npt.NDArray[np.int64]) -> tuple[Any, ...]:
    """Returns what the kernels take, but for the contents."""
    return (*image.size, image.channels), image.crop, seed, epochs, _most_pixels(), usable_cores()


def _most_pixels() -> int:
    import PIL.Image

    return 2 * (PIL.Image.MAX_IMAGE_PIXELS or _USUAL_PIXELS)


def _decode_rows(
    name: str,
    contents: pa.Array,
    image: Image,
    seed: int,
    epochs: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    results: list[Pixels],
) -> None:
    """Decodes rows that a kernel has left, each to its array."""

    def decode(row: int, result: Pixels) -> None:
        content = contents[row].as_py()
        try:
            _decode(content, image, (seed, int(epochs[row])), result)
        except Exception as error:  # Pillow raises errors of many kinds
            raise WrongRowError(
                row,
                f"feature '{name}': found {len(content):,} bytes that cannot be decoded "
                f"({error}), expected an image (JPEG, PNG, BMP, GIF or WebP). Re-encode images by "
                "the recipe, or leave it out of 'images'",
            ) from error

    if results:
        with ThreadPoolExecutor(min(len(results), usable_cores())) as pool:
            for _ in pool.map(decode, rows.tolist(), results):
                pass


def _decode(content: bytes, image: Image, key: tuple[int, int], result: Pixels) -> None:
    """Writes the pixels of a picture to [height, width, channels]."""
    if content[:2] == b"\xff\xd8":
        try:
            return _decode_jpeg(content, image, key, result)
        except ValueError:
            pass  # CMYK, or bytes that libjpeg warns of: Pillow decodes or refuses them
    import PIL.Image

    with PIL.Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as opened:
        _check_pixels(opened.width * opened.height)
        if opened.mode.startswith("I"):  # 16 bits: the higher 8
            whole = PIL.Image.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
        else:
            whole = opened.convert("RGB")  # drops alpha, of palettes as well
        box = _box(content, whole.height, whole.width, image, key)
        pixels = np.asarray(whole.convert(_MODES[image.channels]))
        _resize(pixels.reshape(*pixels.shape[:2], image.channels), box, result)
    return None


def _decode_jpeg(content: bytes, image: Image, key: tuple[int, int], result: Pixels) -> None:
    import simplejpeg

    height, width, _, _ = simplejpeg.decode_jpeg_header(content)
    _check_pixels(height * width)
    box = _box(content, height, width, image, key)
    scale = min((box[3] - box[1]) / image.size[0], (box[2] - box[0]) / image.size[1])
    # The inverse transform of 8 × 8 coefficients gives 4 × 4 pixels, or fewer, in less time.
    factor = next((factor for factor in (8, 4, 2) if factor <= scale), 1)
    found = -(-height // factor), -(-width // factor)
    mode = {1: "GRAY", 3: "RGB"}[image.channels]
    least = {"min_height": found[0], "min_width": found[1]} if factor > 1 else {}
    if found == image.size and box == (0, 0, width, height):
        simplejpeg.decode_jpeg(content, mode, buffer=result, **least)
        return
    pixels = simplejpeg.decode_jpeg(content, mode, **least)
    # The last pixels stand for fewer than `factor`, where it does not divide the size.
    left, top, right, bottom = (edge / factor for edge in box)
    _resize(pixels, (left, top, right, bottom), result)


def _resize(pixels: Pixels, box: Box, result: Pixels) -> None:
    """Writes a box of [height, width, channels] in the result's size.

    The filter is a triangle, widened where the image shrinks: bilinear with antialiasing.
    """
    height, width = result.shape[:2]
    if box == (0, 0, width, height) and pixels.shape == result.shape:
        result[:] = pixels
    else:
        result[:] = _native.resize(pixels, box, (height, width))


def _check_pixels(pixels: int) -> None:
    if pixels > (most := _most_pixels()):
        raise ValueError(f"{pixels:,} pixels, at most {most:,} are decoded")


def _box(content: bytes, height: int, width: int, image: Image, key: tuple[int, int]) -> Box:
    """Returns the rectangle that becomes the result."""
    if image.crop is None:
        return 0, 0, width, height
    if image.crop == "center":
        ratio = image.size[1] / image.size[0]
        return _centered(height, width, min(width, height * ratio), min(height, width / ratio))
    picture = len(content), zlib.crc32(content[-_HASHED_BYTES:])
    return _random_box(height, width, np.random.Philox(np.random.SeedSequence((*key, *picture))))


def _centered(height: int, width: int, across: float, down: float) -> Box:
    left, top = (width - across) / 2, (height - down) / 2
    return left, top, left + across, top + down


def _random_box(height: int, width: int, bits: np.random.Philox) -> Box:
    random = np.random.Generator(bits)
    for _ in range(_TRIES):
        area = height * width * random.uniform(*_SCALE)
        ratio = math.exp(random.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left = int(random.integers(width - across, endpoint=True))
            top = int(random.integers(height - down, endpoint=True))
            return left, top, left + across, top + down
    # A long image: the largest centered rectangle of an allowed ratio.
    ratio = min(max(width / height, _RATIO[0]), _RATIO[1])
    return _centered(height, width, min(width, height * ratio), min(height, width / ratio))


def image_bytes(image: Image) -> int:
    """Returns the bytes of a row's pixels."""
    return math.prod(image.size) * image.channels
