"""Distributions beyond their bound: ranks stay within the stated error."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics.distribution import Distribution
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.transforms.meet import FAN_IN, Node
from beam_pipelines.transforms.statistics import Tree
from tests.analysis.statistics.support import three_ways

TIGHT = ColumnLimits(numbers=40, points=10)


def largest_error(found: Distribution, values: np.ndarray, weights: np.ndarray) -> float:
    """Returns the largest error of the weight at or below any number."""
    order = np.argsort(values)
    true = np.concatenate([[0], np.cumsum(weights[order])])
    stated = np.concatenate([[0], np.cumsum(found.weights)])
    probes = np.concatenate([values, found.values])
    for side in ("left", "right"):
        difference = (
            stated[np.searchsorted(found.values, probes, side)]
            - true[np.searchsorted(values[order], probes, side)]
        )
        assert np.abs(difference).max() <= found.error + 1e-9 * true[-1]
    return found.error


def distribution_of(
    values: np.ndarray, weights: np.ndarray, limits: ColumnLimits = TIGHT
) -> Distribution:
    distinct, places = np.unique(values, return_inverse=True)
    sums = np.bincount(places, weights)
    return Distribution.of(distinct, sums.astype(weights.dtype), limits)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 60), st.sampled_from([1, 2, 50])), max_size=80),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
    st.randoms(),
)
def test_the_stated_error_holds(
    parts: list[list[tuple[int, int]]], are_weights: bool, random: object
) -> None:
    """No rank is off by more than ``error`` in any grouping.

    Total and ends are exact.
    """
    dtype = np.float64 if are_weights else np.int64
    pairs = [
        (np.array([v for v, _ in part], np.int64), np.array([w for _, w in part], dtype))
        for part in parts
    ]
    nodes = [distribution_of(values, weights) for values, weights in pairs]
    while len(nodes) > 1:
        random.shuffle(nodes)
        number = random.randint(2, len(nodes))
        nodes = [Distribution.merged(nodes[:number], TIGHT), *nodes[number:]]
    values, weights = (np.concatenate(column) for column in zip(*pairs, strict=True))
    if len(values):
        assert nodes[0].total == weights.sum()
        assert (nodes[0].values[0], nodes[0].values[-1]) == (values.min(), values.max())
        largest_error(nodes[0], values, weights)
        assert len(nodes[0].values) <= 40
    assert nodes[0].exact == (nodes[0].error == 0)


STREAMS = {
    "ascending": lambda n, _: np.arange(n, dtype=np.float64),
    "descending": lambda n, _: np.arange(n, 0, -1, dtype=np.float64),
    "closing in": lambda n, _: np.where(np.arange(n) % 2, 1, -1) / np.arange(1, n + 1),
    "spreading out": lambda n, _: np.where(np.arange(n) % 2, 1, -1) * np.arange(1, n + 1.0) ** 3,
    "mostly one value": lambda n, r: np.where(r.random(n) < 0.7, 7.0, r.normal(size=n)),
    "heavy tail": lambda n, r: r.standard_cauchy(n),
    "clusters": lambda n, r: r.integers(0, 50, n) * 1e9 + r.random(n),
    "a new range each time": lambda n, r: np.repeat(r.permutation(1000), n // 1000) + r.random(n),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_half_a_percent_after_a_thousand_parts(stream: str) -> None:
    """Ranks of a million values in a thousand parts are nearly right.

    The error is less than 0.5 % of all ranks.
    """
    number = 1_000_000
    values = STREAMS[stream](number, np.random.default_rng(1))
    tree = Tree()
    for place, part in enumerate(np.split(values, 1000)):
        table = TableStatistics(1000, {"x": _column(part)})
        tree.add(Node((place,), table))
    found = tree.merged().value.columns["x"].values.distribution
    assert not found.exact
    assert largest_error(found, values, np.ones(number)) < 0.005 * number
    assert found.rank_error < 0.005


def _column(values: np.ndarray) -> object:
    from beam_pipelines.analysis.statistics.column import ColumnStatistics

    return ColumnStatistics.of(pa.array(values))


@pytest.mark.parametrize(
    "limits", [TIGHT, ColumnLimits(numbers=10_000)], ids=["compacted", "exact"]
)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=300), st.integers(0, 1000))
def test_three_ways(limits: ColumnLimits, values: list[int], seed: int) -> None:
    """Three ways of merging agree within the error.

    They are at once, in sequence and in a stored tree. While exact, they are equal.
    """
    of = functools.partial(NumberStatistics.of, limits=limits)
    ways = three_ways(
        pa.array(values), of, functools.partial(NumberStatistics.merged, limits=limits), seed
    )
    for way in ways:
        largest_error(way.distribution, np.array(values), np.ones(len(values)))
        if limits.numbers > 200:
            assert way.quantiles(10) == ways[0].quantiles(10)
            assert way.distribution.exact


def test_the_tree_holds_few_nodes() -> None:
    """Each level of a tree keeps fewer nodes than the fan-in."""
    tree = Tree()
    table = TableStatistics.of(pa.record_batch({"x": [1, 2]}))
    for place in range(FAN_IN**2 + FAN_IN + 1):
        tree.add(Node((place,), table))
    assert tree.merged().value.rows == 2 * (FAN_IN**2 + FAN_IN + 1)
    assert len(pickle.dumps(tree)) < 4 * FAN_IN * len(pickle.dumps(table))
