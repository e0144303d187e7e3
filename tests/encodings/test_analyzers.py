"""Moments and quantiles are equal in one pass and in parts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.encodings import analyzers
from beam_pipelines.encodings.analyzers import Moments, Quantiles, flat_numbers

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
FINITE = st.floats(-1e6, 1e6, width=32)


def cut(values: list[Any], places: list[int]) -> list[list[Any]]:
    """The values in parts that begin at the places."""
    ends = [0, *sorted(place % (len(values) + 1) for place in places), len(values)]
    return [values[start:end] for start, end in itertools.pairwise(ends)]


@given(st.lists(st.none() | FLOATS, max_size=40), st.lists(st.integers(0, 99), max_size=4))
def test_moments_in_parts_are_those_in_one_pass(values, places):
    """Merged moments of any partition equal exact arithmetic within 1e-12.

    The tolerance is relative to the largest magnitude.
    """
    parts = [Moments.of(pa.array(part, pa.float32())) for part in cut(values, places)]
    merged = Moments.merged(parts)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    assert merged.nulls == values.count(None)
    assert merged.weight == len(finite)
    if not finite:
        assert (merged.minimum, merged.maximum, merged.deviation) == (math.inf, -math.inf, 0.0)
        return
    assert (merged.minimum, merged.maximum) == (min(finite), max(finite))
    largest = max(map(abs, finite))
    mean = math.fsum(finite) / len(finite)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))
    assert abs(merged.mean - mean) <= 1e-12 * largest
    assert abs(merged.deviation - deviation) <= 1e-12 * largest + 1e-12 * deviation


@given(st.lists(FLOATS | st.none(), max_size=30), st.lists(st.integers(0, 99), max_size=3))
def test_quantiles_in_parts_are_those_in_one_pass(values, places):
    """The distribution is the same to the last bit."""
    parts = [Quantiles.of(pa.array(part, pa.float32())) for part in cut(values, places)]
    merged, whole = Quantiles.merged(parts), Quantiles.of(pa.array(values, pa.float32()))
    assert merged.values.tolist() == whole.values.tolist()
    assert merged.weights.tolist() == whole.weights.tolist()
    assert merged.nulls == whole.nulls == values.count(None)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.integers(2, 12))
def test_quantiles_and_boundaries_by_counting(values: list[int], number: int) -> None:
    """Quantiles and boundaries equal those found by counting.

    Quantile k is the least value with k/n at or below it. The share below boundary k is nearest
    to k/n.
    No boundary is the minimum.
    """
    distribution = Quantiles.of(pa.array(values))
    assert distribution.quantiles(number).tolist() == [
        min(
            value
            for value in values
            if sum(other <= value for other in values) * number >= k * len(values)
        )
        for k in range(number + 1)
    ]
    boundaries = set()
    for k in range(1, number) if min(values) < max(values) else ():
        below = {value: sum(other < value for other in values) for value in values}
        del below[min(values)]
        distances = {value: abs(n * number - k * len(values)) for value, n in below.items()}
        boundaries.add(max(v for v in below if distances[v] == min(distances.values())))
    assert distribution.boundaries(number).tolist() == sorted(boundaries)
    assert min(values) not in boundaries


def test_boundaries_are_the_nearest() -> None:
    """Each boundary is the nearest one to the wanted share.

    Of 18 times 1, 9 times 2, and 73 other values, the first of 5 buckets has 18, not 27.
    """
    values = np.array([1] * 18 + [2] * 9 + list(range(3, 76)))
    boundaries = Quantiles.of(pa.array(values)).boundaries(5)
    counts = np.bincount(np.searchsorted(boundaries, values, side="right"))
    assert counts.tolist() == [18, 22, 20, 20, 20]
    mostly_one = Quantiles.of(pa.array([0, 1, 1, 1, 1]))
    assert mostly_one.boundaries(2).tolist() == [1]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["normal", "heavy", "sorted"]), st.integers(1, 9))
def test_compressed_ranks_are_as_near_as_promised(seed, shape, parts):
    """A level of compression moves ranks by at most 1/(POINTS - 2).

    It moves no extreme.
    """
    generator = np.random.default_rng(seed)
    values = {
        "normal": lambda: generator.normal(size=900),
        "heavy": lambda: np.where(generator.random(900) < 0.3, 0.0, generator.lognormal(size=900)),
        "sorted": lambda: np.sort(generator.exponential(size=900)),
    }[shape]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyzers, "MAX_DISTINCT", 64)
        patch.setattr(analyzers, "POINTS", 32)
        cuts = np.array_split(np.arange(900), parts)
        leaves = [Quantiles.of(pa.array(values[rows])) for rows in cuts]
        merged = Quantiles.merged(
            [Quantiles.merged(leaves[:4]), Quantiles.merged(leaves[4:])] if parts > 4 else leaves
        )
        assert len(merged.values) <= 64
    levels = 3 if parts > 4 else 2
    allowed = levels * 900 / 30 + 1e-9
    assert math.isclose(merged.weights.sum(), 900, rel_tol=1e-12)
    quantiles = merged.quantiles(10)
    assert (quantiles[0], quantiles[-1]) == (values.min(), values.max())
    for k, quantile in enumerate(quantiles):
        assert (values < quantile).sum() <= k * 90 + allowed
        assert (values <= quantile).sum() >= k * 90 - allowed


@given(st.lists(st.none() | st.lists(FLOATS, max_size=3), max_size=12), st.integers(0, 5))
def test_items_of_lists_are_values(rows, skip):
    """Lists give their finite items; null lists give nothing."""
    array = pa.array(rows, pa.list_(pa.float32())).slice(skip)
    values, nulls = flat_numbers(array)
    items = itertools.chain.from_iterable(row or [] for row in rows[skip:])
    assert values.tolist() == list(filter(math.isfinite, items))
    assert nulls == 0


@pytest.mark.parametrize("value", [2.5, -7.0])
def test_nulls_count_as_their_fill_value(value: float) -> None:
    """A column with a fill value has the filled column's analyses.

    The column has nulls.
    """
    column, filled = pa.array([1.0, None, 4.0, None]), pa.array([1.0, value, 4.0, value])
    moments, expected = Moments.of(column).with_nulls_as(value), Moments.of(filled)
    assert (moments.weight, moments.minimum, moments.maximum, moments.nulls) == (
        4,
        min(1, value),
        max(4, value),
        0,
    )
    assert math.isclose(moments.mean, expected.mean)
    assert math.isclose(moments.deviation, expected.deviation)
    distribution = Quantiles.of(column).with_nulls_as(value)
    assert distribution.values.tolist() == sorted([1, value, 4])
    assert distribution.weights.sum() == 4
    assert distribution.nulls == 0


def test_integers_at_the_ends_of_int64_are_analyzed() -> None:
    """The extremes of int64 neither overflow nor upset the mean."""
    moments = Moments.of(pa.array([-(2**63), 2**63 - 1, None]))
    assert (moments.minimum, moments.maximum, moments.mean, moments.nulls) == (
        -(2.0**63),
        2.0**63,
        0.0,
        1,
    )
    assert moments.deviation == 2.0**63


@given(st.lists(st.tuples(st.booleans(), st.lists(st.none() | FLOATS, max_size=9)), max_size=5))
def test_numbers_come_back_to_the_last_bit(columns: list[tuple[bool, list[float | None]]]) -> None:
    """Moments and quantiles survive serialization to the last bit, without values too."""
    numbers = {
        (number, number % 2): (Moments if is_moments else Quantiles).of(
            pa.array(values, pa.float32())
        )
        for number, (is_moments, values) in enumerate(columns)
    }
    found = analyzers.numbers_from_bytes(analyzers.numbers_to_bytes(numbers))
    assert list(found) == list(numbers)
    for key, own in numbers.items():
        assert type(found[key]) is type(own)
        for name, value in vars(own).items():
            other = np.asarray(vars(found[key])[name])
            assert other.dtype == np.asarray(value, np.float64).dtype
            assert other.tobytes() == np.asarray(value, np.float64).tobytes()
