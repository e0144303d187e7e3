"""Statistics of numbers against numpy."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import numeric
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from tests.analysis.statistics.support import arrays, three_ways

NUMBERS = (pa.int64(), pa.float32(), pa.float64())


def described(statistics: NumberStatistics) -> tuple[object, ...]:
    """Everything exact that can be read from the statistics."""
    names = ("count", "zeros", "nans", "minus_infinities", "plus_infinities")
    names += ("minimum", "maximum", "distinct")
    return *(getattr(statistics, name) for name in names), statistics.quantiles(4)


@given(arrays(NUMBERS))
def test_agrees_with_numpy(array: pa.Array) -> None:
    """Counts, extremes, zeros and distinct values are numpy's, with NaN and infinities."""
    values = np.array(
        array.drop_null().to_pylist(), np.int64 if pa.types.is_int64(array.type) else np.float64
    )
    numbers = values[~np.isnan(values)]
    found = NumberStatistics.of(array)
    assert found.count == len(numbers)
    assert found.nans == len(values) - len(numbers)
    assert found.zeros == (values == 0).sum()
    assert found.distinct == len(set(numbers.tolist()))
    assert found.minimum == (numbers.min() if len(numbers) else None)
    assert found.maximum == (numbers.max() if len(numbers) else None)
    if len(numbers) and not np.isfinite(numbers).all():
        assert math.isnan(found.mean)
        assert math.isnan(found.standard_deviation)


@given(arrays(NUMBERS), st.integers(1, 12))
def test_quantiles_are_tfx_bsls(array: pa.Array, number: int) -> None:
    """An exact quantile is the first value that exceeds its share.

    More than its share of values is at or below it.
    """
    values = np.array(array.drop_null().to_pylist(), np.float64)
    values = np.sort(values[~np.isnan(values)])
    found = NumberStatistics.of(array).quantiles(number)
    ranks = (
        [min(k * len(values) // number, len(values) - 1) for k in range(number + 1)]
        if len(values)
        else []
    )
    assert found == [values[rank] for rank in ranks]


@given(arrays(NUMBERS), st.integers(0, 1000))
def test_three_ways_agree(array: pa.Array, seed: int) -> None:
    """Statistics are equal for all three ways of merging.

    They are at once, in any order, or stored. Means are equal up to rounding.
    """
    first, *others = three_ways(array, NumberStatistics.of, NumberStatistics.merged, seed)
    for other in others:
        assert described(other) == described(first)
        largest = np.abs(first.values, dtype=np.float64).max(initial=0)
        assert other.mean == pytest.approx(first.mean, abs=largest * 1e-12, nan_ok=True)
    assert others[0].moments == others[1].moments


@pytest.mark.parametrize("kind", ["normal", "lognormal", "integers", "mostly one value"])
def test_sketched_quantiles_keep_their_ranks(kind: str) -> None:
    """Sketched percentiles stay within 0.5 % of their rank after merging.

    They are beyond the exact bound; 20 parts are merged pairwise.
    """
    generator = np.random.default_rng(5)
    size = 20 * (numeric.MAX_DISTINCT + 5_000)
    values = {
        "normal": lambda: generator.normal(size=size),
        "lognormal": lambda: generator.lognormal(0, 3, size),
        "integers": lambda: generator.integers(-(2**62), 2**62, size),
        "mostly one value": lambda: np.where(
            generator.random(size) < 0.9, 7.0, generator.normal(size=size)
        ),
    }[kind]()
    merged = NumberStatistics.of(pa.array(values[:0]))
    for part in np.array_split(values, 20):
        merged = NumberStatistics.merged([merged, NumberStatistics.of(pa.array(part))])
    assert not merged.exact
    assert merged.distinct is None
    assert merged.counts.sum() == size
    assert (merged.minimum, merged.maximum) == (values.min(), values.max())
    assert merged.distribution.rank_error < 0.005
    ordered = np.sort(values).astype(np.float64)
    for percent, quantile in enumerate(merged.quantiles(100)):
        low, high = (
            np.searchsorted(ordered, quantile, "left"),
            np.searchsorted(ordered, quantile, "right"),
        )
        assert low / size - 0.005 <= percent / 100 <= high / size + 0.005
