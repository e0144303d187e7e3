"""core/slices.py cuts bytes to the size that an engine takes.

It also joins them again.
"""

from __future__ import annotations

import pickle
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.slices import (
    MAX_ELEMENT_BYTES,
    SLICE_BYTES,
    Slice,
    concatenate,
    cut,
    slices_to_value,
    value_to_slices,
)


@given(st.integers(0, 3 * SLICE_BYTES + 1), st.randoms(use_true_random=False))
def test_bytes_come_back_in_any_order(size: int, rng: random.Random) -> None:
    """Slices stay below the bound and join in any order.

    They are pickled in the way of a runner.
    """
    data = bytes(range(251)) * (size // 251 + 1)
    slices = list(cut(data[:size]))
    assert all(len(pickle.dumps((((1, 2), 3), each))) <= MAX_ELEMENT_BYTES for each in slices)
    rng.shuffle(slices)
    assert concatenate(slices) == data[:size]


def test_buffers_are_concatenated() -> None:
    """Several buffers, also Arrow's, are cut as if they were one."""
    assert (
        concatenate(cut([b"a", pa.py_buffer(b"b" * SLICE_BYTES), b""])) == b"a" + b"b" * SLICE_BYTES
    )


@pytest.mark.parametrize("numbers", [[0], [1], [0, 0], [0, 1, 1]])
def test_lost_and_repeated_slices_are_noticed(numbers: list[int]) -> None:
    """A runner that loses or repeats an element fails the run."""
    with pytest.raises(ValueError, match=f"found slices \\{numbers}, expected 0 to 1"):
        concatenate([Slice(number, 2, b"x") for number in numbers])


def test_values_come_back() -> None:
    """A value of several slices is the same behind the runner."""
    value = {"a": list(range(1_000_000)), "b": None}
    slices = list(value_to_slices(value))
    assert len(slices) > 2
    assert slices_to_value(reversed(slices)) == value
