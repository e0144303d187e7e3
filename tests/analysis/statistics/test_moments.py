"""ExactMoments against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics.distribution import ExactMoments


def moments_of(values: list[float] | list[int], dtype: type = np.float64) -> ExactMoments:
    array = np.sort(np.array(values, dtype))
    return ExactMoments.of(array, np.ones(len(array), np.int64))


def oracle(values: list[float] | list[int]) -> tuple[float, float]:
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    root = Fraction(math.isqrt((variance.numerator << 4400) // variance.denominator), 1 << 2200)
    return float(mean), float(root)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_agree_with_fractions(values: list[float]) -> None:
    """Mean and deviation of finite floats are right to 12 digits.

    The digits are those of the largest value; subnormals and 1e308 are included.
    """
    mean, deviation = oracle(values)
    moments = moments_of(values)
    largest = max(abs(value) for value in values)
    assert moments.mean == pytest.approx(mean, rel=1e-12, abs=largest * 1e-12)
    assert moments.standard_deviation == pytest.approx(deviation, rel=1e-9, abs=largest * 1e-12)


@given(
    st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.integers(2**63 - 9, 2**63 - 1),
        min_size=1,
        max_size=20,
    )
)
def test_integers_do_not_overflow(values: list[int]) -> None:
    """Means of int64 values are correctly rounded.

    Deviations are right to 12 digits.
    """
    mean, deviation = oracle(values)
    moments = moments_of(values, np.int64)
    assert moments.mean == mean
    assert moments.standard_deviation == pytest.approx(deviation, rel=1e-12)


@given(
    st.lists(st.lists(st.floats(-1e300, 1e300), max_size=5), min_size=1, max_size=6), st.randoms()
)
def test_any_order_gives_the_same_bits(parts: list[list[float]], random: object) -> None:
    """Merging moments in any order and grouping gives equal values.

    They are equal to the last bit.
    """
    moments = [moments_of(part) for part in parts]
    together = ExactMoments.merged(moments)
    random.shuffle(moments)
    half = len(moments) // 2
    assert (
        ExactMoments.merged(
            [ExactMoments.merged(moments[half:]), ExactMoments.merged(moments[:half])]
        )
        == together
    )


def test_a_small_deviation_far_from_zero_survives() -> None:
    """Values around 1e15 that differ by 1 have deviation 0.5.

    The textbook formula finds 0.
    """
    assert moments_of([1e15, 1e15 + 1]).standard_deviation == 0.5
    assert moments_of([2**62, 2**62 + 1], np.int64).standard_deviation == 0.5


def test_counts_weigh() -> None:
    """A value with a count of three equals the value three times."""
    weighted = ExactMoments.of(np.array([1.0, 5.0]), np.array([3, 1]))
    assert weighted.mean == 2.0
    assert weighted.standard_deviation == pytest.approx(np.std([1, 1, 1, 5]))
