"""Counts of numbers over parts: kernel and reference against a loop."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native

if not _native.KERNELS_AVAILABLE:
    pytest.skip("the extension is not built: there is no compiler", allow_module_level=True)

from tests.support.kernels import without_kernels

FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.5])
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
COUNTS = st.sampled_from([1, 2, 3, 255, 256, 2**40])


PARTS = st.sampled_from([FLOATS, INTEGERS]).flatmap(
    lambda numbers: st.lists(
        st.tuples(*[st.dictionaries(numbers, COUNTS, max_size=30)] * 3), min_size=1, max_size=6
    )
)


def arrays_of(columns: tuple[dict[Any, int], ...], dtype: type) -> tuple[np.ndarray, ...]:
    pairs = [pair for column in columns for pair in sorted(column.items())]
    counts = np.array([count for _, count in pairs], np.int64)
    ends = np.cumsum(list(map(len, columns)))
    small = counts.astype(np.uint8) if counts.max(initial=0) < 256 else counts
    return np.array([value for value, _ in pairs], dtype), small, ends


@given(PARTS, st.integers(2, 40), st.integers(2, 12))
def test_counts_against_a_loop(
    parts: list[tuple[dict[Any, int], ...]], most: int, points: int
) -> None:
    """All values are there, or points that keep ends and total."""
    is_float = any(isinstance(value, float) for part in parts for one in part for value in one)
    arrays = [arrays_of(part, float if is_float else np.int64) for part in parts]
    found = _native.merge_counts(arrays, most, points)
    with without_kernels():
        expected = _native.merge_counts(arrays, most, points)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
    values, counts, ends, moved = (one.tolist() for one in found)
    for column, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        whole: Counter[Any] = Counter()
        for part in parts:
            whole.update(part[column])
        own = list(zip(values[start:end], counts[start:end], strict=True))
        if len(whole) <= most:
            assert (own, moved[column]) == (sorted(whole.items()), 0)
        else:
            assert [own[0], own[-1]] == [min(whole.items()), max(whole.items())]
            assert sum(counts[start:end]) == whole.total()
            assert moved[column] > 0


def test_parts_that_contradict_themselves_are_refused() -> None:
    """No byte behind the values is read."""
    values, counts, ends = np.arange(3), np.ones(3, np.int64), np.array([1, 3])
    good = values, counts, ends
    for parts, words in [
        ([], "no parts"),
        ([good, (values, counts, ends[1:])], "other columns"),
        ([(values, counts, np.array([4, 3]))], "ends before it begins"),
        ([(values, counts, ends[:1])], "do not end where the values end"),
        ([(values, counts[1:], ends)], "other counts"),
        ([(values, counts * 0, ends)], "below 1"),
        ([(values, counts << 62, ends)], "beyond int64"),
        ([good, (values * 1.0, counts, ends)], "format g"),
    ]:
        with pytest.raises(ValueError, match=words):
            _native.merge_counts(parts, 2, 2)
