"""Charts and drift against straightforward counting."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.compare import BASELINE, Drift, measure_drift
from beam_pipelines.analysis.drift import bar_shares, common_axis, divergence
from beam_pipelines.analysis.report.charts import draw_distributions, draw_values, frequent_values
from beam_pipelines.analysis.statistics import ColumnStatistics, TableStatistics
from beam_pipelines.core.formatting import formatter_of, show_number

NUMBERS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(st.integers(-9, 40), min_size=1, max_size=60).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60).map(
        lambda v: pa.array(v, pa.float64())
    ),
    st.lists(st.floats(0, 1e9), min_size=1, max_size=60).map(
        lambda v: pa.array([x**3 for x in v], pa.float64())
    ),
)


def columns(*arrays: pa.Array) -> list[ColumnStatistics]:
    return [ColumnStatistics.of(array) for array in arrays]


def shares_of(values: list, keys: list) -> list[float]:
    counts = Counter(values)
    return [counts[key] / len(values) for key in keys]


def jensen_shannon(left: list[float], right: list[float]) -> float:
    """The definition, value by value."""
    total = 0.0
    for p, q in zip(left, right, strict=True):
        m = (p + q) / 2
        total += sum(x * math.log2(x / m) / 2 for x in (p, q) if x)
    return total


@given(NUMBERS, st.sampled_from([1, 24, 60]))
def test_bars_hold_every_value(array: pa.Array, number: int) -> None:
    """Edges ascend, bars are few enough and hold every value."""
    statistics = ColumnStatistics.of(array).values
    axis = common_axis([statistics], array.type, number)
    assert len(axis.edges) == 2 or (np.diff(axis.edges) >= 0).all()
    assert 1 <= len(axis.edges) - 1 <= number
    shares = bar_shares([statistics], [axis.edges])
    assert shares.sum() == pytest.approx(1)
    inner = [value for value in array.to_pylist() if axis.edges[0] < value < axis.edges[-1]]
    expected = np.histogram(np.array(inner, np.float64), axis.edges)[0]
    # All but the outermost bars hold what numpy counts there.
    assert (shares[1:-1] * len(array)).round().tolist() == expected[1:-1].tolist()


def test_small_ranges_of_integers_have_a_bar_each() -> None:
    """Months are twelve bars, and the axis ends at 12."""
    statistics = ColumnStatistics.of(pa.array(list(range(1, 13)) * 3)).values
    axis = common_axis([statistics], pa.int64(), 24)
    assert bar_shares([statistics], [axis.edges]).tolist() == [pytest.approx(1 / 12)] * 12
    assert (axis.low, axis.high) == (1, 12)


def test_bars_of_integers_stand_for_as_many_numbers_each() -> None:
    """Bars of whole numbers are equally wide."""
    statistics = ColumnStatistics.of(pa.array(list(range(1, 32)) * 3)).values
    axis = common_axis([statistics], pa.int64(), 24)
    assert np.diff(axis.edges).tolist() == [2] * 16
    assert (bar_shares([statistics], [axis.edges]) * 31).round(6).tolist() == [2] * 15 + [1]
    assert (axis.low, axis.high) == (1, 31)


def test_rounded_values_have_fewer_bars() -> None:
    """Temperatures in steps have bars of several steps, which show no comb."""
    rounded = ColumnStatistics.of(pa.array(np.arange(100) * 0.9)).values
    varied = ColumnStatistics.of(pa.array(np.arange(1000) * 0.09)).values
    assert [
        len(common_axis([values], pa.float64(), 60).edges) - 1 for values in (rounded, varied)
    ] == [20, 60]


def test_skewed_values_have_a_logarithmic_axis() -> None:
    """A column with most values at its start has a logarithmic axis."""
    skewed = columns(pa.array(np.random.default_rng(0).lognormal(3, 3, 1000)))
    even = columns(pa.array(np.arange(1000)))
    charts = draw_distributions([skewed, even], [show_number] * 2)
    assert [", logarithmic" in chart for chart in charts] == [True, False]


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=3), max_size=4))
def test_outlines_have_the_heights_of_their_bars(features: list[list[pa.Array]]) -> None:
    """Outlines are those of the shares, whatever is drawn with them."""
    charts = draw_distributions([columns(*arrays) for arrays in features], [str] * len(features))
    for arrays, chart in zip(features, charts, strict=True):
        numbers = [column.values for column in columns(*arrays)]
        edges = common_axis(numbers, arrays[0].type, 60).edges
        shares = [bar_shares([one], [edges]).tolist() for one in numbers]
        for own, outline in zip(shares, re.findall('d="M0 169(.*?)V169Z"', chart), strict=True):
            runs = re.findall(r"V(\d+)h(\d+)", outline)
            tops = [int(top) for top, bars in runs for _ in range(int(bars))]
            assert tops == [169 - round(167 * (one / max(map(max, shares)))) for one in own]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([], pa.int64()),
        pa.nulls(3, pa.float64()),
        pa.array([math.nan, math.inf]),
        pa.array(["a"]),
        pa.array([b"a"]),
    ],
)
def test_nothing_to_draw(array: pa.Array) -> None:
    """Without finite numbers there is no distribution."""
    assert draw_distributions([columns(array)], [show_number]) == [""]


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), min_size=1, max_size=3)
)
def test_frequent_texts(splits: list[list[str]]) -> None:
    """Texts come by their summed shares, with their counts in every split."""
    found = frequent_values(columns(*(pa.array(values) for values in splits)), 5, str)
    keys = sorted({value for values in splits for value in values})
    weights = {key: sum(shares_of(values, [key])[0] for values in splits) for key in keys}
    assert [round(weights[item.value], 9) for item in found] == sorted(
        (round(weight, 9) for weight in weights.values()), reverse=True
    )[:5]
    assert all(
        item.counts == tuple(values.count(item.value) for values in splits) for item in found
    )


def test_few_numbers_are_values() -> None:
    """Up to five numbers are shown one by one, in order."""
    few = frequent_values(columns(pa.array([3, 1, 2013])), 5, show_number)
    assert [item.value for item in few] == ["1", "3", "2,013"]
    truths = frequent_values(columns(pa.array([True, False])), 5, formatter_of(pa.bool_()))
    assert [item.value for item in truths] == ["false", "true"]
    for array in (pa.array(range(6)), pa.array([1, math.inf]), pa.array([b"x"])):
        assert frequent_values(columns(array), 5, show_number) == []
    apart = columns(pa.array([1, 2, 3]), pa.array([4, 5, 6]))
    assert frequent_values(apart, 5, show_number) == []
    assert [item.counts for item in frequent_values(apart, 6, str)] == [(1, 0)] * 3 + [(0, 1)] * 3


def test_bars_are_as_long_as_shares() -> None:
    """The longest bar of any split fills its line."""
    texts = columns(pa.array(["a", "a", "a", " "]), pa.array([" ", " "]))
    drawn = draw_values(frequent_values(texts, 5, str), [4, 2])
    shown = re.findall(r">(blank|a)<|(?:width|left):(\d+)|</p>([\d.]+%)", drawn)
    assert list(map("".join, shown)) == ["blank", "25", "100", "25.0%", "a", "75", "0", "75.0%"]


@given(*[st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40)] * 2)
def test_divergence_of_texts(left: list[str], right: list[str]) -> None:
    """Texts are compared value by value."""
    first, second = (ColumnStatistics.of(pa.array(values)) for values in (left, right))
    keys = list("abcdef")
    assert divergence(first, second).bits == pytest.approx(
        jensen_shannon(shares_of(left, keys), shares_of(right, keys))
    )


@given(*[st.lists(st.integers(0, 4), min_size=1, max_size=40)] * 2)
def test_divergence_of_few_numbers(left: list[int], right: list[int]) -> None:
    """Up to five numbers a split are compared one by one."""
    first, second = (ColumnStatistics.of(pa.array(values, pa.int64())) for values in (left, right))
    keys = list(range(5))
    assert divergence(first, second).bits == pytest.approx(
        jensen_shannon(shares_of(left, keys), shares_of(right, keys))
    )


@given(NUMBERS, NUMBERS)
def test_divergence_is_a_distance_from_0_to_1(left: pa.Array, right: pa.Array) -> None:
    """Divergence is symmetric, from 0 to 1, and 0 for equal columns."""
    first, second = (
        ColumnStatistics.of(array.cast(pa.float64(), safe=False)) for array in (left, right)
    )
    value = divergence(first, second)
    assert 0 <= value.beyond_chance <= value.bits <= 1
    assert value == pytest.approx(divergence(second, first))
    assert divergence(first, first)[:2] == (0, 0)


def test_one_large_value_is_no_drift() -> None:
    """An outlier is no drift; a shift of all values is."""
    generator = np.random.default_rng(0)
    first, second = (generator.exponential(10, 20_000).round() for _ in range(2))
    outlier = ColumnStatistics.of(pa.array(np.append(first, 1e6)))
    assert divergence(outlier, ColumnStatistics.of(pa.array(second))).bits < 0.01
    assert divergence(outlier, ColumnStatistics.of(pa.array(second + 30))).beyond_chance > 0.3


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([b"a"]), pa.array([b"a"])),
        (pa.array(["a"]), pa.array([1])),
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([1]), pa.nulls(2, pa.int64())),
        (pa.array(["a"]), pa.nulls(2, pa.string())),
        (pa.array([1.0]), pa.array([math.nan, math.inf])),
    ],
)
def test_what_cannot_be_compared(left: pa.Array, right: pa.Array) -> None:
    """Bytes, texts against numbers, and columns without values have no drift."""
    assert divergence(*(ColumnStatistics.of(array) for array in (left, right))) is None


def test_what_is_compared_with_what() -> None:
    """Each split is compared with the first one and with its baseline."""
    one = {"a": pa.array(["x"] * 500), "b": pa.array([1] * 500)}
    other = {"a": pa.array(["y"] * 500)}
    tables = [TableStatistics.of(pa.record_batch(columns)) for columns in (one, other)]
    found = measure_drift(
        {"train": tables[1], "eval": tables[1]}, {"eval": tables[0], "test": tables[0]}
    )
    assert found == {"a": (Drift("eval", "train", 0.0), Drift("eval", BASELINE, 0.999, True))}
    assert measure_drift({}, {}) == {}
