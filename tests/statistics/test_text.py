"""Statistics of texts against a Counter."""

from __future__ import annotations

import collections

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.statistics import text
from beam_pipelines.statistics.text import TextStatistics
from tests.statistics.support import arrays, three_ways


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def described(statistics: TextStatistics) -> tuple[object, ...]:
    """Everything that can be read from the statistics."""
    lengths = (statistics.count, statistics.total_bytes, statistics.min_bytes, statistics.max_bytes)
    return lengths, statistics.distinct, statistics.large, statistics.exact, statistics.top(10), statistics.undercount


def skewed_texts(size: int, seed: int) -> pa.Array:
    """Half of the values from ten frequent texts, the others nearly all different."""
    generator = np.random.default_rng(seed)
    frequent = generator.integers(0, 10, size)
    rare = generator.integers(10, 2**40, size)
    return pa.array(np.where(generator.random(size) < 0.5, frequent, rare).astype(str))


@given(arrays((pa.string(), pa.binary())), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_agrees_with_a_counter(array: pa.Array, seed: int) -> None:
    """Counts, lengths and top values, ties by value descending, are a Counter's, whichever way they were merged."""
    values = array.drop_null().to_pylist()
    counts = collections.Counter(values)
    lengths = [len(as_bytes(value)) for value in values]
    ordered = sorted(counts.items(), key=lambda item: (item[1], as_bytes(item[0])), reverse=True)
    for found in three_ways(array, TextStatistics.of, TextStatistics.merged, seed):
        assert (found.count, found.total_bytes) == (len(values), sum(lengths))
        assert (found.min_bytes, found.max_bytes) == (min(lengths, default=0), max(lengths, default=0))
        assert found.exact
        assert found.distinct == len(counts)
        for number in (0, 1, 3, 1000):
            assert found.top(number) == ordered[:number]


def test_beyond_the_bounds_frequent_values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketched counts are too low by at most ``undercount``, no frequent value is lost, and distinct is 5 % off at most."""
    monkeypatch.setattr(text, "MAX_DISTINCT", 10_000)
    monkeypatch.setattr(text, "KEPT_VALUES", 500)
    array = skewed_texts(120_000, seed=3)
    counts = collections.Counter(array.to_pylist())
    parts = [TextStatistics.of(array.slice(start, 20_000)) for start in range(0, 120_000, 20_000)]
    found = TextStatistics.merged([TextStatistics.merged(parts[:4]), TextStatistics.merged(parts[4:])])
    assert not found.exact
    assert found.count == 120_000
    assert len(found.values) <= 500
    assert 0 < found.undercount <= 120_000 / 500 * 2
    assert {value for value, _ in found.top(10)} == {str(number) for number in range(10)}
    for value, count in found.top(500):
        assert count <= counts[value] <= count + found.undercount
    assert found.distinct == pytest.approx(len(counts), rel=0.05)


def test_whether_bounds_are_exceeded_does_not_depend_on_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the bound every way is exact, above it none is, and the estimate of distinct values is the same."""
    monkeypatch.setattr(text, "MAX_DISTINCT", 1000)
    for number, exact in ((1000, True), (1001, False)):
        array = pa.array([str(value % number) for value in range(3 * number)])
        ways = three_ways(array, TextStatistics.of, TextStatistics.merged, seed=number)
        assert [way.exact for way in ways] == [exact] * 3
        assert len({way.distinct for way in ways}) == 1


def test_fixed_order_gives_the_same_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two merges in the same order agree in everything, sketched or not."""
    monkeypatch.setattr(text, "MAX_DISTINCT", 1000)
    monkeypatch.setattr(text, "KEPT_VALUES", 100)
    parts = [TextStatistics.of(skewed_texts(5_000, seed)) for seed in range(5)]
    assert described(TextStatistics.merged(parts)) == described(TextStatistics.merged(parts))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_long_values_are_not_told_apart(kind: pa.DataType) -> None:
    """Values above 1,024 bytes count as one value, as in TFDV's sketches; their lengths count as they are."""
    array = pa.array([b"a" * 1024, b"b" * 1025, b"c" * 5000, None, b"d"]).cast(kind)
    for found in three_ways(array, TextStatistics.of, TextStatistics.merged):
        assert found.large == 2
        assert not found.exact
        assert found.top(1) == [(pa.scalar(text.LARGE_VALUE).cast(kind).as_py(), 2)]
        assert (found.total_bytes, found.max_bytes) == (1024 + 1025 + 5000 + 1, 5000)


def test_large_binaries_are_not_hoarded() -> None:
    """Of a bytes column beyond a megabyte of distinct values none is kept, but they are counted."""
    generator = np.random.default_rng(0)
    found = TextStatistics.of(pa.array([generator.bytes(500) for _ in range(4000)]))
    assert len(found.values) == 0
    assert found.count == 4000
    assert found.distinct == pytest.approx(4000, rel=0.05)
