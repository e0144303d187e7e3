"""Drift beyond chance, and columns that are like ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_pipelines.analysis.drift import chi_square_tail, divergence, divergence_of_counts
from beam_pipelines.analysis.ids import are_like_ids, is_like_ids
from beam_pipelines.analysis.report.drift import measure_drift
from beam_pipelines.analysis.statistics import ColumnStatistics, TableStatistics


def column(values: Any) -> ColumnStatistics:
    return ColumnStatistics.of(pa.array(values))


@pytest.mark.parametrize("freedom", [1, 2, 5, 23, 500])
def test_the_tail_of_chi_square(freedom: int) -> None:
    """The approximation is right to half a per cent."""
    for value in np.linspace(0, 3 * freedom + 20, 50).tolist():
        expected = stats.chi2.sf(value, freedom)
        assert chi_square_tail(value, freedom) == pytest.approx(expected, abs=0.006)
    assert chi_square_tail(3.0, 0) == 1.0


def test_the_statistic_is_pearsons() -> None:
    """Chi-square and its freedom are those of the contingency table.

    Values that are rare in the smaller sample are one column of it.
    """
    first, second = np.array([25.0, 0, 7, 11, 1, 2]), np.array([8.0, 0, 12, 40, 3, 0])
    found = divergence_of_counts(first, second)
    pooled = [[25.0, 7, 11, 3], [8, 12, 40, 3]]
    expected = stats.chi2_contingency(pooled, correction=False)
    assert found.chi_square == pytest.approx(expected.statistic)
    assert found.freedom == expected.dof
    assert divergence_of_counts(first, np.zeros(6)) is None


@pytest.mark.parametrize(
    "draw",
    [
        lambda random, rows: random.normal(size=rows),
        lambda random, rows: random.integers(0, 4, rows),
        lambda random, rows: random.zipf(1.3, rows).clip(max=10**6).astype(str).tolist(),
        lambda random, rows: random.integers(0, 300, rows).astype(str).tolist(),
    ],
    ids=["normal", "few", "skewed texts", "many texts"],
)
@pytest.mark.parametrize("rows", [(40, 40), (2000, 60), (3000, 4000)])
def test_samples_of_one_distribution_do_not_drift(draw: Any, rows: tuple[int, int]) -> None:
    """Chance explains their difference, whatever their sizes are."""
    random = np.random.default_rng(3)
    found = [divergence(*(column(draw(random, number)) for number in rows)) for _ in range(60)]
    assert np.mean([one.p_value < 0.01 for one in found]) <= 0.05
    high = [one.p_value < 0.01 and one.beyond_chance >= 0.1 for one in found]
    assert np.mean(high) <= 0.02


def test_points_of_a_distribution_do_not_drift() -> None:
    """The error of a sketch of many numbers is no significant difference."""
    random = np.random.default_rng(5)
    parts = [[column(random.normal(size=50_000)) for _ in range(8)] for _ in range(8)]
    sides = [ColumnStatistics.merged(some) for some in parts]
    assert not sides[0].values.exact
    found = [divergence(sides[0], other) for other in sides[1:]]
    assert min(one.p_value for one in found) > 0.001


def test_a_shift_is_found_in_few_and_in_many_rows() -> None:
    """The drift is large and significant in both."""
    random = np.random.default_rng(4)
    for rows in (100, 20_000):
        first, second = (column(random.normal(at, 1, rows)) for at in (0, 1.5))
        found = divergence(first, second)
        assert found.beyond_chance > 0.2
        assert found.p_value < 1e-6


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([f"u{number}" for number in range(100)], True),
        ([f"u{number % 90}" for number in range(100)], False),
        (range(7, 107), True),
        ([*range(99), 5], False),
        (np.arange(100) * 0.5, False),
        (range(30), False),
        (range(40_000), True),
        (np.random.default_rng(0).integers(0, 20_000, 60_000), False),
        ([b"%d" % number for number in range(100)], False),
        (pa.nulls(100, pa.string()), False),
    ],
)
def test_ids(values: Any, expected: bool) -> None:
    """Texts and whole numbers that all differ are like ids."""
    assert is_like_ids(column(values)) == expected


def test_few_rows_beside_many_ids() -> None:
    """A side with few rows has ids if all values differ."""
    many, few, twice = (column(values) for values in (range(100), range(900, 910), [1, 1, 2]))
    assert are_like_ids(many, few)
    assert not are_like_ids(many, twice)
    assert not are_like_ids(few, few)


def test_ids_are_not_highlighted() -> None:
    """The report shows their drift, and does not call it high."""
    tables = {
        split: TableStatistics.of(
            pa.record_batch({"id": pa.array(range(start, start + 200)), "x": [start] * 200})
        )
        for split, start in (("train", 0), ("eval", 10_000))
    }
    found = measure_drift(tables, {})
    assert [found[name][0].is_high for name in ("id", "x")] == [False, True]
