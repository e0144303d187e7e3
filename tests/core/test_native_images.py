"""The JPEG kernel gives the definition's pixels, or leaves a row out."""

from __future__ import annotations

import functools
import io
import os

import hypothesis.strategies as st
import numpy as np
import PIL.Image
import pyarrow as pa
import pytest
from hypothesis import example, given

from beam_pipelines.core import _native
from beam_pipelines.reader import images
from beam_pipelines.reader.images import Image

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

MOST_PIXELS = 1 << 40


# Ways to sample the colors of "RGB": 4:4:4, 4:2:2, 4:2:0, and RGB itself.
_SAMPLINGS = [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"keep_rgb": True}]


def encoded(size=(9, 16), mode="RGB", sampling=0, quality=90, progressive=False, seed=0):
    """Returns a JPEG of noise."""
    shape = (*size, len(PIL.Image.new(mode, (1, 1)).getbands()))
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    data = io.BytesIO()
    PIL.Image.frombytes(mode, size[::-1], pixels.tobytes()).save(
        data,
        "JPEG",
        quality=quality,
        progressive=progressive,
        **(_SAMPLINGS[sampling] if mode == "RGB" else {}),
    )
    return data.getvalue()


def decoded(contents, image, seed=0, epochs=0, most_pixels=MOST_PIXELS, threads=1):
    """Returns the kernel's pixels, and the rows that it left out."""
    epochs = np.full(len(contents), epochs)
    array = pa.array(contents, pa.large_binary())
    shape = *image.size, image.channels
    pixels, left = _native.decode_jpegs(
        array, shape, image.crop, seed, epochs, most_pixels, threads
    )
    return np.frombuffer(pixels.buffers()[1], np.uint8, len(pixels)).reshape(-1, *shape), left


def defined(content, image, seed=0, epoch=0):
    """Returns the pixels by the definition, in Python."""
    pixels = np.empty((*image.size, image.channels), np.uint8)
    images._decode(content, image, (seed, epoch), pixels)
    return pixels


_sizes = st.one_of(*(st.tuples(*[st.integers(1, most)] * 2) for most in (20, 150)))
_images = st.builds(
    Image, _sizes, st.sampled_from([None, "center", "random"]), st.sampled_from([1, 3])
)
_files = st.fixed_dictionaries(
    {
        "size": _sizes,
        "mode": st.sampled_from(["RGB", "L"]),
        "sampling": st.integers(0, 3),
        "quality": st.integers(1, 99),
        "progressive": st.booleans(),
    }
)


@given(_files, _images, st.integers(0, 1 << 90), st.integers(0, 1 << 40))
@example({"size": (2, 2)}, Image((1, 1)), 0, 0)
@example({"size": (150, 3)}, Image((4, 4), "random"), 0, 0)
@example({"size": (16, 16)}, Image((16, 16)), 0, 0)
def test_pixels_are_those_of_the_definition(options, image, seed, epoch):
    """Any JPEG, size, crop, seed and epoch has the definition's pixels."""
    content = encoded(**options)
    pixels, left = decoded([content], image, seed, epoch)
    assert not len(left)
    assert np.array_equal(pixels[0], defined(content, image, seed, epoch))


@given(st.data())
def test_damage_is_left_out_or_has_the_same_pixels(data):
    """Changed and cut bytes never give other pixels."""
    content = bytearray(encoded((40, 50), "RGB", 2, 30, data.draw(st.booleans())))
    for place in data.draw(st.lists(st.integers(2, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    content = bytes(content[: data.draw(st.integers(0, len(content)))])
    image = Image((7, 5), "random")
    pixels, left = decoded([content], image)
    if not len(left):
        assert np.array_equal(pixels[0], defined(content, image))


def test_rows_that_are_left_out():
    """PNG, CMYK, rare samplings, nulls, damage and large ones are left."""
    png = io.BytesIO()
    PIL.Image.new("RGB", (8, 8)).save(png, "PNG")
    sampled = encoded().replace(b"\x01\x11\x00\x02\x11\x01", b"\x01\x31\x00\x02\x11\x01")
    whole = encoded()
    contents = [whole, png.getvalue(), encoded(mode="CMYK"), sampled, None, b"", whole[:-9], whole]
    assert sampled != whole
    for threads in (1, 3):
        pixels, left = decoded(contents, Image((4, 4)), threads=threads)
        assert left.tolist() == [1, 2, 3, 4, 5, 6]
        assert np.array_equal(pixels[0], pixels[7])
    assert decoded([whole], Image((4, 4)), most_pixels=9 * 16)[1].tolist() == []
    assert decoded([whole], Image((4, 4)), most_pixels=9 * 16 - 1)[1].tolist() == [0]


@given(_files, _images, st.integers(0, 1 << 90), st.integers(0, 1 << 40))
def test_cuts_are_those_of_the_definition(options, image, seed, epoch):
    """Cuts of a header are the boxes that the definition has."""
    content = encoded(**options)
    array = pa.array([content], pa.large_binary())
    how = (*image.size, image.channels), image.crop, seed, np.array([epoch]), MOST_PIXELS, 1
    (cut,), left = _native.cut_jpegs(array, *how)
    height, width = options["size"]
    box = images._box(content, height, width, image, (seed, epoch))
    if options["mode"] == "RGB" and "keep_rgb" in _SAMPLINGS[options["sampling"]]:
        assert left.tolist() == [0]
        return
    assert not len(left)
    assert np.array_equal(cut[:4], np.array(box, np.float32))
    scale = min((box[3] - box[1]) / image.size[0], (box[2] - box[0]) / image.size[1])
    assert cut[4] == next((factor for factor in (8, 4, 2) if factor <= scale), 1)


def test_cuts_that_are_left_out():
    """Headers that devices may read otherwise are left."""
    rgb = encoded(sampling=next(n for n, one in enumerate(_SAMPLINGS) if "keep_rgb" in one))
    contents = pa.array([encoded(), rgb, encoded(mode="CMYK"), b"", None], pa.large_binary())
    how = (4, 4, 3), None, 0, np.zeros(5, np.int64), MOST_PIXELS, 2
    assert _native.cut_jpegs(contents, *how)[1].tolist() == [1, 2, 3, 4]
    assert _native.decode_jpegs(contents, *how)[1].tolist() == [2, 3, 4]


def test_rows_of_threads():
    """Several threads give each row its own picture and epoch."""
    contents = [encoded(seed=number) for number in range(100)]
    image = Image((5, 6), "random")
    epochs = np.arange(100) % 7
    pixels, left = decoded(contents, image, 3, epochs, threads=4)
    assert not len(left)
    for number, content in enumerate(contents):
        assert np.array_equal(pixels[number], defined(content, image, 3, number % 7))


def test_fork_has_threads_of_its_own():
    """A fork of a process that has decoded decodes as well."""
    decode = functools.partial(decoded, [encoded()] * 20, Image((5, 6)), threads=2)
    expected, _ = decode()
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(decode()[0], expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_wrong_arguments():
    """Other sizes, lengths, types and hostile offsets are refused."""
    whole = pa.array([encoded()] * 2, pa.large_binary())
    epochs = np.zeros(2, np.int64)
    for size in ((0, 1, 3), (1, 0, 3), (1, 1, 2)):
        with pytest.raises(ValueError, match="found a wrong size"):
            _native.decode_jpegs(whole, size, None, 0, epochs, MOST_PIXELS, 1)
    with pytest.raises(ValueError, match="another number of epochs"):
        _native.decode_jpegs(whole, (1, 1, 3), None, 0, epochs[:1], MOST_PIXELS, 1)
    with pytest.raises(TypeError):
        _native.decode_jpegs(pa.array([1, 2]), (1, 1, 3), None, 0, epochs, MOST_PIXELS, 1)
    offsets = pa.py_buffer(np.array([0, 90, 4], np.int64))
    hostile = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(bytes(4))])
    for threads in (1, 2):
        with pytest.raises(ValueError, match="found"):
            _native.decode_jpegs(hostile, (1, 1, 3), None, 0, epochs, MOST_PIXELS, threads)
