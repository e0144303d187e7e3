"""Alerts of numbers that float32 merges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.alerts import MERGED, find_merged

IDS = pa.array([17031000001, None, 17031000002, 17031000003])


def merged(before: pa.Array) -> list[Any]:
    """The alerts of a column that is written as float32."""
    after = before.cast(pa.float32(), safe=False)
    return list(find_merged("amount", "old name", before, after))


@pytest.mark.parametrize(
    ("before", "remedy"),
    [
        (IDS, "leave 'cast: float32' out"),
        (IDS.cast(pa.float64()), "'types: {\"old name\": int64}'"),
        (pa.array([1700000000.25, 1700000000.5]), "'types: {\"old name\": text}'"),
    ],
)
def test_merged_numbers_are_told(before: pa.Array, remedy: str) -> None:
    """The alert has counts, an example with all digits, and the remedy."""
    (alert,) = merged(before)
    assert (alert.feature, alert.what) == ("amount", MERGED)
    assert f"{len(before.drop_null())} different numbers of sampled rows become 1" in alert.found
    low, high = (str(value).removesuffix(".0") for value in before.drop_null()[:2].to_pylist())
    assert f"as {low} and {high} become" in alert.found
    assert remedy in alert.found


@given(st.lists(st.none() | st.floats() | st.floats(1e9, 1e9 + 99), max_size=60))
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
