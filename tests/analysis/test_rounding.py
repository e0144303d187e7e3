"""analysis/rounding.py finds numbers that are not what they were."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.analysis.alerts import MERGED, WHOLE
from beam_pipelines.analysis.rounding import find_merged, find_whole

IDS = pa.array([17031000001, None, 17031000002, 17031000003])


def merged(before: pa.Array, is_scaled: bool = False) -> list[Any]:
    """The alerts of a column that is written as float32."""
    after = before.cast(pa.float32(), safe=False)
    return list(find_merged("amount", "old name", before, after, is_scaled))


@pytest.mark.parametrize(
    ("before", "is_scaled", "remedy"),
    [
        (IDS, False, "leave 'cast: float32' out"),
        (IDS.cast(pa.float64()), False, "'types: {\"old name\": int64}'"),
        (pa.array([1700000000.25, 1700000000.5]), False, "'types: {\"old name\": text}'"),
        (IDS, True, "take 'bucketize'"),
    ],
)
def test_merged_numbers_are_told(before: pa.Array, is_scaled: bool, remedy: str) -> None:
    """The alert has counts, an example with all digits, and the remedy."""
    (alert,) = merged(before, is_scaled)
    assert (alert.feature, alert.what) == ("amount", MERGED)
    assert f"{len(before.drop_null())} different numbers of sampled rows become 1" in alert.found
    low, high = (str(value).removesuffix(".0") for value in before.drop_null()[:2].to_pylist())
    assert f"as {low} and {high} become" in alert.found
    assert remedy in alert.found


def test_numbers_that_encodings_merge_are_told() -> None:
    """Integers beyond 2**53 keep their digits; the remedy is another step."""
    before = pa.array([2**60, 2**60 + 1])
    after = before.cast(pa.float64(), safe=False)
    (alert,) = find_merged("amount", "amount", before, after, is_scaled=True)
    assert f"as {2**60} and {2**60 + 1} become {2**60}; the encoding computes" in alert.found
    assert "take 'bucketize'" not in alert.found


@given(st.lists(st.none() | st.floats() | st.floats(1e9, 1e9 + 99), max_size=60))
@settings(max_examples=80, deadline=None)
def test_merged_numbers_are_counted(values: list[Any]) -> None:
    """The counts are those of sets of numbers."""
    column = pa.array(values, pa.float64())
    with np.errstate(over="ignore"):
        pairs = {
            Fraction(value): float(np.float32(value))
            for value in values
            if value is not None and np.isfinite(np.float32(value))
        }
    lost = len(pairs) - len(set(pairs.values()))
    found = merged(column)
    assert bool(found) == (lost > len(pairs) / 100)
    for alert in found:
        start = f"{len(pairs):,} different numbers of sampled rows become {len(pairs) - lost:,}, "
        assert alert.found.startswith(start)


def test_chance_is_not_told() -> None:
    """Few neighbours of random numbers are equal in float32."""
    rng = np.random.default_rng(3)
    for numbers in (rng.normal(size=20_000), rng.uniform(size=20_000), np.arange(20_000) / 100):
        assert merged(pa.array(numbers)) == []


@pytest.mark.parametrize(
    ("column", "is_whole"),
    [
        (pa.array([5.0, None, 7.0]), True),
        (pa.array([5.0, 7.0]), False),
        (pa.array([5.5, None]), False),
        (pa.array([None], pa.float64()), False),
        (pa.array([float("nan"), 1.0, None]), False),
        (pa.array([2.0**60, None]), False),
        (pa.array([5, None]), False),
        (pa.array([5.0, None], pa.float32()), False),
        (pa.array(["5.0", None]), False),
    ],
)
def test_whole_floats(column: pa.Array, is_whole: bool) -> None:
    """Whole float64 with nulls are told, with the line that makes integers."""
    found = list(find_whole("new", "old", column))
    assert bool(found) == is_whole
    for alert in found:
        assert alert.what == WHOLE
        assert "types: {old: int64}" in alert.found
