"""Statistics of texts against a Counter."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import text as texts
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.text import TextStatistics
from tests.analysis.statistics.support import arrays, three_ways


@pytest.fixture(autouse=True, scope="module", params=[texts._MERGED_BYTES, 100])
def merged_bytes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Merges all parts at once, or a few at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_MERGED_BYTES", request.param)
        yield


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def described(statistics: TextStatistics) -> tuple[object, ...]:
    """Everything that can be read from the statistics."""
    lengths = (statistics.count, statistics.total_bytes, statistics.min_bytes, statistics.max_bytes)
    return lengths, statistics.distinct, statistics.exact, statistics.top(10), statistics.undercount


def skewed_texts(size: int, seed: int) -> pa.Array:
    """Texts with ten frequent ones.

    Ten texts make up one half; nearly all texts of the other half differ.
    """
    generator = np.random.default_rng(seed)
    frequent = generator.integers(0, 10, size)
    rare = generator.integers(10, 2**40, size)
    return pa.array(np.where(generator.random(size) < 0.5, frequent, rare).astype(str))


@given(arrays((pa.string(), pa.binary())), st.integers(0, 1000))
def test_agrees_with_a_counter(array: pa.Array, seed: int) -> None:
    """Counts, lengths and top values equal a Counter's, however merged."""
    values = array.drop_null().to_pylist()
    counts = collections.Counter(values)
    lengths = [len(as_bytes(value)) for value in values]
    ordered = sorted(counts.items(), key=lambda item: (item[1], as_bytes(item[0])), reverse=True)
    for found in three_ways(array, TextStatistics.of, TextStatistics.merged, seed):
        assert (found.count, found.total_bytes) == (len(values), sum(lengths))
        assert (found.min_bytes, found.max_bytes) == (
            min(lengths, default=0),
            max(lengths, default=0),
        )
        assert found.exact
        assert found.distinct == len(counts)
        for number in (0, 1, 3, 1000):
            assert found.top(number) == ordered[:number]


def bounded(**limits: int) -> tuple[Any, Any]:
    """Returns ``of`` and ``merged`` with other bounds."""
    chosen = ColumnLimits(**limits)
    return functools.partial(TextStatistics.of, limits=chosen), functools.partial(
        TextStatistics.merged, limits=chosen
    )


def test_beyond_the_bounds_frequent_values_stay() -> None:
    """Sketched counts are low by at most ``undercount``.

    Distinct is off by at most 5 %.
    """
    of, merged = bounded(texts=10_000, kept_texts=500)
    array = skewed_texts(120_000, seed=3)
    counts = collections.Counter(array.to_pylist())
    parts = [of(array.slice(start, 20_000)) for start in range(0, 120_000, 20_000)]
    found = merged([merged(parts[:4]), merged(parts[4:])])
    assert not found.exact
    assert found.count == 120_000
    assert len(found.values) <= 500
    assert 0 < found.undercount <= 120_000 / 500 * 2
    assert {value for value, _ in found.top(10)} == {str(number) for number in range(10)}
    for value, count in found.top(500):
        assert count <= counts[value] <= count + found.undercount
    assert found.distinct == pytest.approx(len(counts), rel=0.05)


def test_weights_beyond_the_bounds() -> None:
    """Sums of weights are low by at most their own undercount."""
    limits = ColumnLimits(texts=1000, kept_texts=100)
    array = skewed_texts(20_000, seed=5)
    weights = np.random.default_rng(6).random(20_000)
    sums: dict[str, float] = collections.defaultdict(float)
    for value, weight in zip(array.to_pylist(), weights, strict=True):
        sums[value] += weight
    parts = [
        TextStatistics.of(array.slice(s, 4000), weights[s : s + 4000], limits)
        for s in range(0, 20_000, 4000)
    ]
    found = TextStatistics.merged(parts, limits).weighted
    assert found is not None
    assert not found.exact
    for value, weight in found.top(100):
        assert weight - 1e-9 <= sums[value] <= weight + found.undercount + 1e-9
    assert {value for value, _ in found.top(10)} == {str(number) for number in range(10)}


@pytest.mark.parametrize(
    "limits", [{"texts": 1000}, {"text_bytes": 1000 * (16 + 12)}], ids=["number", "bytes"]
)
def test_whether_bounds_are_exceeded_does_not_depend_on_order(limits: dict[str, int]) -> None:
    """The order does not decide whether a bound is exceeded.

    Below a bound every way is exact; above it none is, and all estimate distinct alike.
    """
    for number, exact in ((1000, True), (1001, False)):
        array = pa.array([f"{value % number:016d}" for value in range(3 * number)])
        ways = three_ways(array, *bounded(**limits), seed=number)
        assert [way.exact for way in ways] == [exact] * 3
        assert len({way.distinct for way in ways}) == 1


def test_kept_texts_take_no_more_than_their_bytes() -> None:
    """Fewer long frequent texts are kept than short ones, within the undercount."""
    of, _ = bounded(texts=100, kept_texts=100, kept_bytes=5000)
    texts = [f"{number:0500d}" for number in range(300) for _ in range(1 + number // 3)]
    found = of(pa.array(texts))
    assert 0 < sum(len(text) for text in found.values.to_pylist()) <= 5000
    counts = collections.Counter(texts)
    for value, count in found.top(100):
        assert count <= counts[value] <= count + found.undercount


def test_fixed_order_gives_the_same_result_again() -> None:
    """Two merges in the same order agree in everything, sketched or not."""
    of, merged = bounded(texts=1000, kept_texts=100)
    parts = [of(skewed_texts(5_000, seed)) for seed in range(5)]
    assert described(merged(parts)) == described(merged(parts))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_long_values_are_told_apart_within_the_bounds(kind: pa.DataType) -> None:
    """Values above 1,024 bytes count like others, as on TFDV's Beam path."""
    array = pa.array([b"a" * 1024, b"b" * 1025, b"c" * 5000, None, b"c" * 5000]).cast(kind)
    for found in three_ways(array, TextStatistics.of, TextStatistics.merged):
        assert found.exact
        assert found.distinct == 3
        assert found.top(1) == [(array[2].as_py(), 2)]
        assert (found.total_bytes, found.max_bytes) == (1024 + 1025 + 5000 + 5000, 5000)


def test_long_values_are_one_beyond_the_bounds() -> None:
    """Beyond the bounds, values above 1,024 bytes count as one.

    TFDV's sketches do the same.
    """
    texts = ["b" * 1025, "c" * 5000, "c" * 5000, *map(str, range(200))]
    for found in three_ways(pa.array(texts), *bounded(texts=100, kept_texts=1000)):
        assert found.top(1) == [("__LARGE_BYTES__", 3)]
        assert found.count == 203
        assert found.distinct == 202


def test_large_binaries_are_not_hoarded() -> None:
    """Large distinct binaries are counted but not kept.

    The limit is a megabyte of distinct values in a bytes column.
    """
    generator = np.random.default_rng(0)
    found = TextStatistics.of(pa.array([generator.bytes(500) for _ in range(4000)]))
    assert len(found.values) == 0
    assert found.count == 4000
    assert found.distinct == pytest.approx(4000, rel=0.05)
