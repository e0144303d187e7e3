"""The C++ kernel for JPEGs, over the libjpeg-turbo that Pillow loads."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import imported, kernels

__all__ = ["cut_jpegs", "decode_jpegs"]

# In the order of `libjpeg::Functions`.
_FUNCTIONS = (
    "jpeg_std_error",
    "jpeg_CreateDecompress",
    "jpeg_mem_src",
    "jpeg_read_header",
    "jpeg_start_decompress",
    "jpeg_read_scanlines",
    "jpeg_crop_scanline",
    "jpeg_skip_scanlines",
    "jpeg_finish_decompress",
    "jpeg_destroy_decompress",
)
_CROPS = {None: 0, "center": 1, "random": 2}


@functools.cache
def _libjpeg() -> tuple[int, ...] | None:
    """Returns addresses of functions; ``None`` without a libjpeg of its own."""
    library = ctypes.CDLL(importlib.import_module("PIL._imaging").__file__)
    try:  # also finds functions of the libraries that it needs
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    except AttributeError:  # linked statically, or without JPEG
        return None
    return tuple(address or 0 for address in found)


def decode_jpegs(
    contents: pa.Array,
    size: tuple[int, int, int],
    crop: str | None,
    seed: int,
    epochs: npt.NDArray[np.int64],
    most_pixels: int,
    threads: int,
    *,
    only_cuts: bool = False,
) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
    """Decodes, crops and resizes the JPEGs among contents, or declines to.

    Args:
      contents: n binary or large_binary values, files of pictures.
      size: height, width and channels (1 or 3) of the result.
      crop: ``None``, ``center`` or ``random``, by the definition in ``reader/images.py``.
      seed: of random crops, 0 or more.
      epochs: int64[n], numbers of the rows' epochs, 0 or more.
      most_pixels: JPEGs with more are left out.
      threads: to decode in.
      only_cuts: for ``cut_jpegs``: what would be cut, in the place of pixels.

    Returns:
      uint8[n · height · width · channels], whose memory nothing else uses; and int64, in order: the
      rows that were left out. Their pixels are anything. They are null, no JPEG, damaged, or of a
      rare kind. ``None`` if there is no libjpeg that the kernel can call.

    Raises:
      TypeError: contents of another type.
      ValueError: a wrong size, another number of epochs, or buffers that contradict themselves.
      MemoryError: there is no memory for the pixels.
    """
    libjpeg = _libjpeg()
    if libjpeg is None:
        return None
    contents.validate()
    words = seed.to_bytes(max(1, -(-seed.bit_length() // 32)) * 4, "little")
    found = kernels.decode_jpegs(
        contents.__arrow_c_array__(),
        pa.array(epochs).__arrow_c_array__(),
        size,
        _CROPS[crop],
        words,
        most_pixels,
        libjpeg,
        threads,
        only_cuts,
    )
    left = imported(found[1])
    return imported(found[0]), np.frombuffer(left.buffers()[1], np.int64, len(left))


def cut_jpegs(
    contents: pa.Array, *how: Any
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] | None:
    """Finds what ``decode_jpegs`` would cut out of JPEGs, by their headers.

    Args:
      contents, how: the arguments of ``decode_jpegs``.

    Returns:
      float32 [n, 5]: left, top, right and bottom of the cut, in pixels, and by which factor
      ``decode_jpegs`` decodes the picture smaller; and int64, in order: the rows that were left
      out, those in RGB as well. ``None`` if there is no libjpeg that the kernel can call.

    Raises:
      TypeError, ValueError, MemoryError: as ``decode_jpegs``.
    """
    found = decode_jpegs(contents, *how, only_cuts=True)
    if found is None:
        return None
    cuts = np.frombuffer(found[0].buffers()[1], np.float32, 5 * len(contents))
    return cuts.reshape(-1, 5).copy(), found[1]
