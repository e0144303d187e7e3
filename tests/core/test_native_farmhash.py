"""The native fingerprints equal those of encodings/_native.py.

tests/encodings/test_text.py compares them with TensorFlow's.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from tests.support.kernels import without_kernels

pytestmark = pytest.mark.skipif(
    not _native.KERNELS_AVAILABLE, reason="the extension is not built: there is no compiler"
)

TYPES = [pa.binary(), pa.large_binary()]
# Every class of lengths, and several blocks.
TEXTS = st.binary(max_size=8) | st.binary(max_size=80) | st.binary(min_size=60, max_size=400)


def in_numpy(array: pa.Array) -> list[int]:
    """The fingerprints without the kernel."""
    with without_kernels():
        hashes: list[int] = _native.fingerprints(array).tolist()
    return hashes


@settings(max_examples=120, deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=20), st.sampled_from(TYPES), st.integers(0, 3))
def test_kernel_and_numpy_give_the_same(values, type_, skipped):
    """The kernel and the vectorized formula have equal fingerprints, also of nulls."""
    array = pa.array(values, type_).slice(skipped)
    expected = in_numpy(array.cast(pa.binary()))
    assert _native.fingerprints(array).tolist() == expected


def test_other_values_have_no_fingerprint() -> None:
    """Values that are no texts are refused."""
    with pytest.raises(TypeError):
        _native.fingerprints(pa.array([1]))
