"""Drift beyond chance, and columns that are like ids."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from beam_pipelines.analysis.compare import measure_drift
from beam_pipelines.analysis.drift import chi_square_tail, divergence, divergence_of_counts
from beam_pipelines.analysis.statistics import ColumnStatistics, TableStatistics
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.view import (
    FeatureView,
    are_like_ids,
    is_like_ids,
    view_of_column,
)


def column(values: Any) -> ColumnStatistics:
    return ColumnStatistics.of(pa.array(values))


def view(values: Any) -> FeatureView:
    return view_of_column("x", column(values))


@pytest.mark.parametrize("freedom", [1, 2, 5, 23, 500])
def test_the_tail_of_chi_square(freedom: int) -> None:
    """The approximation is right to half a per cent."""
    for value in np.linspace(0, 3 * freedom + 20, 50).tolist():
        expected = stats.chi2.sf(value, freedom)
        assert chi_square_tail(value, freedom) == pytest.approx(expected, abs=0.006)
    assert chi_square_tail(3.0, 0) == 1.0


def test_the_statistic_is_pearsons() -> None:
    """Chi-square and its freedom are those of the contingency table.

    Values that are rare in the smaller sample share a column with those that are as frequent.
    """
    first, second = np.array([25.0, 0, 7, 11, 1, 0, 1]), np.array([8.0, 0, 12, 40, 0, 1, 0])
    found = divergence_of_counts(first, second)
    pooled = [[25.0, 7, 11, 2], [8, 12, 40, 1]]
    expected = stats.chi2_contingency(pooled, correction=False)
    assert found.chi_square == pytest.approx(expected.statistic)
    assert found.freedom == expected.dof
    assert divergence_of_counts(first, np.zeros(6)) is None


def test_the_variance_is_that_of_rows_dealt_at_random() -> None:
    """Many random tables with the same sums have its mean and variance."""
    random = np.random.default_rng(6)
    both, rows = np.array([40, 9, 8, 5, 5, 4, 3]), 30
    dealt = random.multivariate_hypergeometric(both, rows, size=20_000)
    found = [divergence_of_counts(*map(np.float64, (one, both - one))) for one in dealt]
    statistics = [one.chi_square for one in found]
    assert np.mean(statistics) == pytest.approx(found[0].freedom, rel=0.03)
    assert np.var(statistics) == pytest.approx(found[0].variance, rel=0.05)


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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([f"a{n % 30}" for n in range(3000)], [f"b{n % 30}" for n in range(60)]),
        ([f"a{n % 30}" for n in range(3000)], [f"b{n}" for n in range(5)]),
        ([f"a{n % 30}" for n in range(60)], [f"b{n % 30}" for n in range(60)]),
        ([f"a{n % 1000}" for n in range(6000)], [f"b{n % 333}" for n in range(2000)]),
    ],
)
def test_texts_that_are_all_replaced_drift(before: list[str], after: list[str]) -> None:
    """All texts are others, in few rows too."""
    found = divergence(column(before), column(after))
    assert found.beyond_chance > 0.4
    assert found.p_value < 1e-6


def test_texts_that_occur_once_tell_nothing() -> None:
    """Any two samples of them differ as much."""
    found = divergence(*(column([f"{side}{n}" for n in range(30)]) for side in "ab"))
    assert not found.is_known
    assert found.p_value == 1
    assert divergence(column(["a"] * 30), column(["a"] * 7)).is_known


def test_frequent_texts_against_all_texts() -> None:
    """Texts that one side does not keep are no drift."""
    random = np.random.default_rng(7)
    shares = 1 / np.arange(1, 20_001) ** 0.7
    draw = functools.partial(random.choice, 20_000, p=shares / shares.sum())
    few = ColumnLimits(texts=2000, kept_texts=500)
    parts = [pa.array([f"{word}{n}" for n in draw(30_000)]) for word in ("q", "q", "z")]
    sides = [
        ColumnStatistics.of(part, limits=limits)
        for part, limits in zip(parts, (None, few, few), strict=True)
    ]
    assert [side.values.exact for side in sides] == [True, False, False]
    for pair in (sides[:2], sides[1::-1]):
        assert divergence(*pair).beyond_chance < 0.05
    other = divergence(sides[0], sides[2])
    assert other.beyond_chance > 0.1
    assert other.p_value < 1e-6


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
        (pa.array(range(100), pa.date32()), False),
        (pa.array(range(40_000), pa.timestamp("us")), False),
        ([True, False] * 50, False),
    ],
)
def test_ids(values: Any, expected: bool) -> None:
    """Texts and whole numbers that all differ are like ids."""
    assert is_like_ids(view(values)) == expected


def test_few_rows_beside_many_ids() -> None:
    """A side with few rows has ids if all values differ."""
    many, few, twice = (view(values) for values in (range(100), range(900, 910), [1, 1, 2]))
    assert are_like_ids(many, few)
    assert not are_like_ids(many, twice)
    assert not are_like_ids(few, few)


def test_dates_of_a_baseline_are_not_highlighted() -> None:
    """Those of another split are."""
    first, later = (
        TableStatistics.of(pa.record_batch({"day": pa.array([day] * 200, pa.date32())}))
        for day in (20_000, 20_001)
    )
    found = measure_drift({"train": first, "eval": later}, {"train": later})
    assert [one.is_high for one in found["day"]] == [True, False]
    assert [one.value for one in found["day"]] == pytest.approx([1, 1], abs=0.01)


def test_ids_have_no_drift() -> None:
    """Those of other rows are always others."""
    tables = {
        split: TableStatistics.of(
            pa.record_batch({"id": pa.array(range(start, start + 200)), "x": [start] * 200})
        )
        for split, start in (("train", 0), ("eval", 10_000))
    }
    found = measure_drift(tables, {})
    assert {name: drifts[0].is_high for name, drifts in found.items()} == {"x": True}
