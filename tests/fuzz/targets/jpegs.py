"""JPEGs by the kernel against Pillow and simplejpeg, or left to them.

Input: height and width of the result, a byte of switches, and a JPEG.
"""

from __future__ import annotations

import io
import random
import warnings

import numpy as np
import PIL.Image
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.reader import images
from tests.fuzz import mutations
from tests.fuzz.finding import require
from tests.fuzz.target import Target

HEAD = 3
_CROPS = (None, "center", "random")
# A picture of more would take longer to compare than its finding is worth.
_MOST_PIXELS = 1 << 18


def run(data: bytes) -> None:
    """Compares the kernel's pixels with the definition's."""
    head, content = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    size = 1 + head[0] % 64, 1 + head[1] % 64
    image = images.Image(size, _CROPS[head[2] % 3], 3 if head[2] & 128 else 1)
    shape = *size, image.channels
    epochs = np.array([head[2]])
    found = _native.decode_jpegs(
        pa.array([content], pa.large_binary()), shape, image.crop, 1, epochs, _MOST_PIXELS, 1
    )
    if found is None or len(found[1]):
        return
    expected = np.zeros(shape, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        images._decode(content, image, (1, head[2]), expected)
    pixels = np.frombuffer(found[0].buffers()[1], np.uint8, expected.size).reshape(shape)
    require(np.array_equal(pixels, expected), "jpegs: other pixels", f"{image} {pixels.tolist()}")


def seeds() -> list[bytes]:
    """Small JPEGs of every kind, to be cropped and resized."""
    pixels = np.random.default_rng(0).integers(0, 256, (35, 50, 4), np.uint8)
    made = []
    for mode in ("RGB", "L", "CMYK"):
        for progressive in (False, True):
            for sampling in (0, 1, 2) if mode == "RGB" else (0,):
                data = io.BytesIO()
                bands = np.ascontiguousarray(
                    pixels[..., : len(PIL.Image.new(mode, (1, 1)).getbands())]
                )
                PIL.Image.frombytes(mode, (50, 35), bands.tobytes()).save(
                    data, "JPEG", quality=20, progressive=progressive, subsampling=sampling
                )
                made.append(bytes((4, 5, 128 + len(made))) + data.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes the picture's bytes, its markers above all."""
    markers = [bytes((255, code)) for code in (0xC0, 0xC2, 0xC4, 0xD9, 0xDA, 0xDB, 0xDD)]
    body = bytearray(data[HEAD:])
    if body and chance.randrange(3):
        for _ in range(chance.choice((1, 1, 3))):
            body[chance.randrange(len(body))] = chance.randrange(256)
        changed = bytes(body)
    else:
        changed = mutations.splice(bytes(body), [*markers, b"\xff", b"\0"], chance)
    return mutations.keep_head(data, HEAD, changed, chance)


TARGET = Target(run, seeds, mutate)
