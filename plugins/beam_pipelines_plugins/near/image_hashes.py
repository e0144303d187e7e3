"""Hashes of images that resemble each other: the difference hash, dHash.

An image is made grey, resized to 9 by 8 pixels, and has a bit for each pixel that is brighter than
its left neighbour (Krawetz, "Kind of like that", 2013). Images that were compressed or resized anew
differ in few of the 64 bits. The bits are those of the package imagehash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from PIL import Image

from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.images.options import PictureError
from beam_pipelines.sources.images.pictures import opened

__all__ = ["PictureError", "image_hash", "image_hashes"]

_WIDTH, _HEIGHT = 9, 8


def image_hash(data: bytes, limits: Limits = Limits()) -> int:  # noqa: B008 (it is frozen)
    """Returns the dHash of an encoded image, 64 bits.

    Raises:
      PictureError: no image of a known format, or one of more pixels than ``limits`` allow.
    """
    with opened(data, limits) as image:
        grey = image.convert("L").resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS)
        pixels = np.asarray(grey)
    bits = np.packbits(pixels[:, 1:] > pixels[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


def image_hashes(images: pa.Array, limits: Limits = Limits()) -> pa.Array:  # noqa: B008 (it is frozen)
    """Returns the dHash of each image, uint64; null of a null.

    Raises:
      PictureError: as ``image_hash`` does.
    """
    hashes = [None if data is None else image_hash(data, limits) for data in images.to_pylist()]
    return pa.array(hashes, pa.uint64())
