"""The native fingerprints and ids equal those of the reference.

tests/encodings/test_text.py compares them with TensorFlow's.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from tests.support.kernels import without_kernels

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

TYPES = [pa.binary(), pa.large_binary()]
# Every class of lengths, and several blocks.
TEXTS = st.binary(max_size=8) | st.binary(max_size=80) | st.binary(min_size=60, max_size=400)


def in_numpy(array: pa.Array) -> list[int]:
    """The fingerprints without the kernel."""
    with without_kernels():
        hashes: list[int] = _native.fingerprints(array).tolist()
    return hashes


@settings(max_examples=120)
@given(st.lists(st.none() | TEXTS, max_size=20), st.sampled_from(TYPES), st.integers(0, 3))
def test_kernel_and_numpy_give_the_same(values, type_, skipped):
    """The kernel and the vectorized formula have equal fingerprints, also of nulls."""
    array = pa.array(values, type_).slice(skipped)
    expected = in_numpy(array.cast(pa.binary()))
    assert _native.fingerprints(array).tolist() == expected


@settings(max_examples=120)
@given(
    st.lists(TEXTS, unique=True, max_size=40),
    st.lists(st.none() | TEXTS, max_size=40),
    st.sampled_from(TYPES),
    st.sampled_from([0, 1, 2, 3, 1000, 1 << 62]),
)
def test_ids_are_those_of_the_reference(known, values, type_, num_oov):
    """Ids of known and other texts are those of Arrow's search."""
    vocabulary = pa.array([b"unused", *known], pa.binary())[1:]
    texts = pa.array([None, *values, *known], type_)[1:]
    found = _native.look_up(texts, vocabulary, _native.index_texts(vocabulary), num_oov)
    with without_kernels():
        index = _native.index_texts(vocabulary)
        assert found.equals(_native.look_up(texts, vocabulary, index, num_oov))


def test_an_index_of_other_texts_is_refused() -> None:
    """Slots that are no index, and those of more texts, are errors."""
    texts = pa.array([b"a", b"b"])
    index = _native.index_texts(texts)
    for known, slots, num_oov in [
        (texts[:1], index, 0),
        (texts, index[:0], 0),
        (texts, index[1:], 0),
        (texts, pa.array([1.0]), 0),
        (texts, index, (1 << 63) - 1),
    ]:
        with pytest.raises(ValueError, match="found"):
            _native.look_up(texts, known, slots, num_oov)


def test_other_values_have_no_fingerprint() -> None:
    """Values that are no texts are refused."""
    numbers, texts = pa.array([1]), pa.array([b"a"])
    index = _native.index_texts(texts)
    for refused in (
        lambda: _native.fingerprints(numbers),
        lambda: _native.index_texts(numbers),
        lambda: _native.look_up(numbers, texts, index, 1),
        lambda: _native.look_up(texts, numbers, index, 1),
    ):
        with pytest.raises(TypeError):
            refused()
