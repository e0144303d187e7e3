"""Image files for tests, in every format.

They are scikit-learn's digits in class folders and its photographs, and files that are no images.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
FORMATS = ("png", "jpeg", "bmp", "gif", "webp")


def encode(pixels: npt.NDArray[np.uint8], format_: str, **options: Any) -> bytes:
    """Returns an image file of pixels [height, width] or [height, width, channels]."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format_, **options)
    return stream.getvalue()


def animation(frames: Sequence[npt.NDArray[np.uint8]], format_: str) -> bytes:
    """Returns an animated GIF or WebP."""
    first, *others = (Image.fromarray(frame) for frame in frames)
    stream = io.BytesIO()
    first.save(stream, format_, save_all=True, append_images=others, duration=50)
    return stream.getvalue()


def photographs() -> dict[str, npt.NDArray[np.uint8]]:
    """Returns ``china`` and ``flower``, 427 × 640 RGB."""
    samples = load_sample_images()
    return {
        Path(name).stem: pixels
        for name, pixels in zip(samples.filenames, samples.images, strict=True)
    }


def write_digits(
    root: Path, count: int = 200, formats: Sequence[str] = ("png",)
) -> dict[str, tuple[str, bytes]]:
    """Writes digits, 8 × 8 grey, as ``<root>/<class>/<number>.<format>``, the formats in turn.

    Returns:
      Path below the root -> class and bytes.
    """
    digits = load_digits()
    written = {}
    for number in range(count):
        format_, name = formats[number % len(formats)], DIGIT_NAMES[digits.target[number]]
        path = root / name / f"{number:04}.{format_}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode((digits.images[number] * 15.9).astype(np.uint8), format_))
        written[f"{name}/{path.name}"] = (name, path.read_bytes())
    return written
