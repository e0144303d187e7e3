"""Hashes of images, against the package imagehash where it is installed."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from beam_pipelines.sources.images.options import PictureError
from beam_pipelines_plugins.near.image_hashes import image_hash, image_hashes
from beam_pipelines_plugins.near.near_hashes import differing


def picture(seed: int, size: int = 96) -> Image.Image:
    """Returns an image of soft spots."""
    random = np.random.default_rng(seed)
    spots = Image.fromarray(random.integers(0, 256, (6, 6, 3), np.uint8))
    return spots.resize((size, size), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, kind: str = "PNG", **options: int) -> bytes:
    sink = io.BytesIO()
    image.save(sink, kind, **options)
    return sink.getvalue()


def test_the_definition() -> None:
    """A bit is set where a pixel is brighter than before."""
    pixels = np.tile(np.arange(0, 90, 10, np.uint8), (8, 1))
    pixels[0] = pixels[0, ::-1]
    assert image_hash(encoded(Image.fromarray(pixels))) == (1 << 56) - 1


def test_copies_are_near_and_others_are_not() -> None:
    """Of 200 images each is near its copies alone."""
    originals = [picture(seed) for seed in range(200)]
    hashes = np.array([image_hash(encoded(image)) for image in originals], np.uint64)
    copies = {
        "smaller": lambda image: encoded(image.resize((60, 60))),
        "jpeg": lambda image: encoded(image, "JPEG", quality=40),
        "brighter": lambda image: encoded(image.point(lambda value: value * 0.8 + 40)),
        "grey": lambda image: encoded(image.convert("L"), "WEBP", quality=80),
    }
    for name, copy in copies.items():
        bits = differing(hashes, np.array([image_hash(copy(one)) for one in originals], np.uint64))
        assert (bits <= 6).mean() >= 0.99, name
    rows, columns = np.triu_indices(200, 1)
    assert (differing(hashes[rows], hashes[columns]) > 6).mean() >= 0.999


def test_imagehash_has_the_same_bits() -> None:
    """The bits are those of imagehash.dhash."""
    imagehash = pytest.importorskip("imagehash")
    for seed in range(20):
        image = picture(seed, 50 + seed)
        expected = int(str(imagehash.dhash(image)), 16)
        assert image_hash(encoded(image)) == expected


def test_nulls_and_other_bytes() -> None:
    """Nulls have no hash, and other bytes are an error."""
    images = pa.array([None, encoded(picture(1))], pa.binary())
    assert image_hashes(images).is_valid().to_pylist() == [False, True]
    with pytest.raises(PictureError):
        image_hashes(pa.array([b"no image"], pa.binary()))
