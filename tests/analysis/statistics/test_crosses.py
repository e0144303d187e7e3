"""Covariance and correlation of pairs of columns, against numpy and fractions."""

from __future__ import annotations

import fractions
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics.crosses import CrossMoments, cross_moments
from beam_pipelines.analysis.statistics.plan import StatisticsPlan, plan_statistics
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.sample import sample_rows
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from tests.analysis.statistics.support import three_ways

PLAN = StatisticsPlan(cross=(("x", "y"),))
NUMBERS = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
FLOATS = st.floats(-1e9, 1e9) | st.sampled_from([math.nan, 0.1, 1e15])
PAIRS = st.lists(st.tuples(st.none() | NUMBERS, st.none() | FLOATS), max_size=20)


def table(pairs: list[Any]) -> pa.RecordBatch:
    x, y = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.record_batch({"x": pa.array(x, pa.int64()), "y": pa.array(y, pa.float64())})


def exact(pairs: list[tuple[Any, Any]]) -> tuple[fractions.Fraction, list[fractions.Fraction]]:
    """Returns covariance and variances as fractions."""
    columns = [
        [fractions.Fraction(value) for value in column] for column in zip(*pairs, strict=True)
    ]
    means = [sum(column) / len(pairs) for column in columns]
    near = [[v - mean for v in column] for column, mean in zip(columns, means, strict=True)]
    products = [a * b for a, b in zip(*near, strict=True)]
    return sum(products) / len(pairs), [sum(v * v for v in column) / len(pairs) for column in near]


@settings(deadline=None)
@given(PAIRS)
@example([(0, 3.4178841934645715e-236), (1, 0.0)])
@example([(0, 0.1), (1, 0.1), (2**53 + 1, 0.1)])
def test_moments_are_those_of_fractions(pairs: list[tuple[Any, Any]]) -> None:
    """Merged parts are close to exact fractions."""
    found = [
        of.crosses[0]
        for of in three_ways(table(pairs), lambda b: TableStatistics.of(b, PLAN), TableStatistics.merged)
    ]  # fmt: skip
    kept = [(x, y) for x, y in pairs if x is not None and y is not None and not math.isnan(y)]
    for cross in found:
        assert cross.x.count == len(kept)
        if not kept:
            assert (cross.covariance, cross.correlation) == (0, None)
            continue
        covariance, variances = exact(kept)
        # As fractions: products of variances underflow as floats.
        error = fractions.Fraction(cross.covariance) - covariance
        bound = (variances[0] * variances[1] / 10**18, fractions.Fraction(1, 10**600))
        assert error * error <= max(bound)
        if cross.correlation is not None and min(variances) and len(kept) > 1:
            # Variances of tiny numbers are 0 as floats; their ratio to the covariance is not.
            root = math.sqrt(covariance * covariance / (variances[0] * variances[1]))
            assert abs(cross.correlation - math.copysign(root, covariance)) < 1e-6
    stored, plan = from_bytes(to_bytes(TableStatistics.of(table(pairs), PLAN), PLAN), "file")
    assert plan == PLAN
    assert stored.crosses == (found[0],)


@pytest.mark.parametrize(
    ("x", "y", "count", "covariance", "correlation"),
    [
        ([1, 2, 3], [2.0, 4.0, 6.0], 3, 4 / 3, 1.0),
        ([1, 2, 3], [6.0, 4.0, 2.0], 3, -4 / 3, -1.0),
        ([1, 1, 1], [6.0, 4.0, 2.0], 3, 0, None),
        ([1, 2, None], [1.0, None, 2.0], 1, 0, None),
        ([], [], 0, 0, None),
        ([1, 2], [math.inf, 1.0], 2, math.nan, None),
        ([1, 2], [math.nan, 1.0], 1, 0, None),
        ([0, 1], [1e300, -1e300], 2, -5e299, -1.0),
        ([0, 1], [1e-300, 3e-300], 2, 5e-301, 1.0),
        ([2**62, 2**62 + 2], [1.0, 3.0], 2, 1, 1.0),
    ],
)
def test_a_pair(x: Any, y: Any, count: int, covariance: float, correlation: float | None) -> None:
    """A proto has count, covariance and, with variation, correlation."""
    [proto] = to_proto({"": TableStatistics.of(table(list(zip(x, y, strict=True))), PLAN)}).values()
    [cross] = proto.datasets[0].cross_features
    assert (list(cross.path_x.step), list(cross.path_y.step)) == (["x"], ["y"])
    assert cross.count == count
    assert cross.HasField("num_cross_stats") == bool(count)
    in_proto = math.copysign(math.inf, covariance) if abs(covariance) > 1e40 else covariance
    np.testing.assert_allclose(cross.num_cross_stats.covariance, in_proto, rtol=1e-6, atol=1e-40)
    assert cross.num_cross_stats.correlation == pytest.approx(correlation or 0)


def test_rows_with_one_value_count() -> None:
    """Rows with exactly one value count; booleans are integers."""
    batch = pa.record_batch(
        {
            "x": pa.array([[1], [1, 2], [], None, [4]], pa.list_(pa.int64())),
            "y": pa.array([True, True, True, True, False]),
        }
    )
    found = cross_moments(batch, ("x", "y"))
    assert (found.x.count, found.covariance) == (2, -0.75)


def test_slices_and_samples() -> None:
    """Slices and samples have the pairs of their rows."""
    batch = pa.record_batch({"k": ["a", "b"] * 50, "x": range(100), "y": range(100)})
    plan = StatisticsPlan(slice_by=("k",), cross=(("x", "y"),), sample=0.5)
    found = TableStatistics.of(batch, plan, (1, 2))
    chosen = sample_rows(0.5, (1, 2), 100)
    assert found.crosses[0].x.count == chosen.sum()
    assert [of.crosses[0].x.count for of in found.slices.values()] == [
        chosen[::2].sum(), chosen[1::2].sum(),
    ]  # fmt: skip


def test_without_pairs_nothing_is_stored() -> None:
    """Without the key, no word of it is stored."""
    stored = to_bytes(TableStatistics.of(table([(1, 1.0)])), StatisticsPlan())
    assert b"cross" not in stored


@pytest.mark.parametrize(
    ("cross", "message"),
    [
        ("[[x, t]]", "found column 't' of type text, expected a column of numbers"),
        ("[[x, z]]", "found 'z', expected a column that is written"),
        ("[[x, x]]", "expected pairs of two columns"),
        ("[x, y]", "expected pairs of two columns"),
        ("x", "expected pairs of two columns"),
    ],
)
def test_pairs_that_are_wrong(cross: str, message: str) -> None:
    """A pair has two columns of numbers."""
    text = f"name: d\nsources: {{d: d.csv}}\nstatistics: {{cross: {cross}}}\n"
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("t", pa.string())])
    with pytest.raises((RecipeProblems, RecipeError), match=message):
        plan_statistics(parse_recipe(text, "r.yaml").statistics, schema, None)


def test_the_order_of_a_pair_does_not_matter() -> None:
    """Pairs are in order of the names, each once."""
    text = "name: d\nsources: {d: d.csv}\nstatistics: {cross: [[b, a], [a, b], [c, a]]}\n"
    assert parse_recipe(text, "r.yaml").statistics.cross == (("a", "b"), ("a", "c"))


def test_an_empty_cross() -> None:
    """Without rows there is nothing to divide by."""
    empty = cross_moments(table([]), ("x", "y"))
    assert (empty.covariance, empty.correlation) == (0.0, None)
    assert isinstance(empty, CrossMoments)
