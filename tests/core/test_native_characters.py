"""Tests of the kernel that adds up weights of characters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

WEIGHTS = np.arange(256, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@given(st.lists(st.none() | st.binary()), st.integers(0, 3))
def test_equals_a_loop(values: list[bytes | None], start: int) -> None:
    """Sums wrap around, and a null has none."""
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array(values, kind).slice(start)
        expected = [
            sum(int(WEIGHTS[byte]) for byte in value or b"") % 2**64 for value in values[start:]
        ]
        assert _native.sum_weights(array, WEIGHTS).tolist() == expected


def test_wrong_arguments() -> None:
    """Another type or number of weights is an error."""
    with pytest.raises(TypeError, match="found int64, expected a binary or string array"):
        _native.sum_weights(pa.array([1]), WEIGHTS)
    with pytest.raises(ValueError, match="found other weights"):
        _native.sum_weights(pa.array(["a"]), WEIGHTS[:7])
