"""The resize kernel gives Pillow's bytes, and refuses wrong boxes."""

from __future__ import annotations

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import PIL.Image
import pytest
from hypothesis import given

from beam_pipelines.core import _native

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

_images = st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3])).flatmap(
    lambda shape: npst.arrays(np.uint8, shape)
)
_shares = st.tuples(*[st.floats(0, 1)] * 4)


@given(_images, _shares, st.tuples(st.integers(1, 30), st.integers(1, 30)))
def test_bytes_are_those_of_pillow(pixels, shares, size):
    """Any part of any image has the bytes of Pillow's BILINEAR."""
    height, width, channels = pixels.shape
    left, right = sorted(width * share for share in shares[:2])
    top, bottom = sorted(height * share for share in shares[2:])
    box = (left, top, right, bottom) if min(right - left, bottom - top) > 0.1 else None
    box = box or (0, 0, width, height)
    image = PIL.Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
    expected = np.asarray(image.resize(size[::-1], PIL.Image.Resampling.BILINEAR, box))
    found = _native.resize(pixels, box, size)
    assert found.shape == (*size, channels)
    assert (found == expected.reshape(found.shape)).all()


@pytest.mark.parametrize(
    ("shape", "box", "size"),
    [
        ((4, 4, 3), (0, 0, 5, 4), (2, 2)),
        ((4, 4, 3), (-1, 0, 4, 4), (2, 2)),
        ((4, 4, 3), (2, 0, 2, 4), (2, 2)),
        ((4, 4, 3), (0, 0, float("nan"), 4), (2, 2)),
        ((4, 4, 3), (0, 0, 4, 4), (0, 2)),
        ((4, 4, 2), (0, 0, 4, 4), (2, 2)),
        ((0, 4, 3), (0, 0, 4, 4), (2, 2)),
    ],
)
def test_wrong_parts(shape, box, size):
    """A box outside of the image, or two channels, are refused."""
    with pytest.raises(ValueError, match="found"):
        _native.resize(np.zeros(shape, np.uint8), box, size)
