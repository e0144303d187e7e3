"""Information of columns on the label, against plain Python."""

from __future__ import annotations

import collections
import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines_plugins.labels.relations import Label, places_of


def bits(column: pa.Array, label: pa.Array) -> float | None:
    return Label(label).bits(column)


def information(pairs: list[tuple[object, object]]) -> float:
    """Returns the mutual information of pairs in bits."""
    both, left, right = (
        collections.Counter(key) for key in (pairs, [p[0] for p in pairs], [p[1] for p in pairs])
    )
    rows = len(pairs)
    return sum(
        count / rows * math.log2(count * rows / (left[x] * right[y]))
        for (x, y), count in both.items()
    )


VALUES = {"texts": ["a", "b", None], "numbers": [1, 2, None], "flags": [True, False, None]}
PAIRS = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.lists(
        st.tuples(st.sampled_from(VALUES[kind]), st.sampled_from(["no", "yes"])), min_size=2
    ).filter(lambda pairs: any(x is not None for x, _ in pairs))
)


@given(PAIRS)
def test_values_and_two_classes(pairs: list[tuple[object, str]]) -> None:
    """Information is what Python counts, without the part of chance."""
    xs, ys = zip(*pairs, strict=True)
    chance = (len(set(xs)) - 1) * (len(set(ys)) - 1) / (2 * len(pairs) * math.log(2))
    expected = pytest.approx(max(0.0, information(pairs) - chance), abs=1e-9)
    assert bits(pa.array(xs), pa.array(ys)) == expected


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.booleans()), min_size=30, max_size=200),
    st.integers(0, 99),
)
def test_ranges_of_numbers(pairs: list[tuple[int, bool]], seed: int) -> None:
    """The order of rows, and another unit, say nothing."""
    column, label = (pa.array(values) for values in zip(*pairs, strict=True))
    order = pa.array(np.random.default_rng(seed).permutation(len(pairs)))
    found = bits(column, label)
    assert bits(column.take(order), label.take(order)) == pytest.approx(found)
    assert bits(pa.array(np.exp(column.to_numpy() / 9)), label) == pytest.approx(found)


def test_a_column_that_says_nothing_or_all() -> None:
    """Independent columns have no bits, a copy has the label's."""
    generator = np.random.default_rng(3)
    label = generator.integers(0, 2, 20_000)
    assert bits(pa.array(generator.normal(size=20_000)), pa.array(label)) < 0.001
    assert bits(pa.array(label), pa.array(label)) == pytest.approx(1, abs=0.001)
    price = pa.array(np.arange(1_000.0))
    assert bits(price, price) == pytest.approx(math.log2(10), abs=0.1)


def test_kinds_of_labels() -> None:
    """Many numbers are no classes, unless these have names."""
    numbers = pa.array(range(100))
    assert not Label(numbers).has_classes
    assert len(set(Label(numbers).codes.tolist())) == 10
    assert Label(numbers, has_names=True).has_classes
    assert Label(pa.array([True, None, False])).codes.tolist() == [0, 1]


def test_rows_without_a_label_do_not_count() -> None:
    """Null labels are left out; NaN is a missing value."""
    column = pa.array([1.0, math.nan, 2.0, None] * 50)
    label = pa.array(["a", "b", None, "b"] * 50)
    assert bits(column, label) == pytest.approx(information([(1, 1), (0, 0), (0, 0)]), abs=0.01)


@pytest.mark.parametrize(
    "column", [pa.array([[1], [2]]), pa.array([b"a", b"b"]), pa.nulls(2, pa.string())]
)
def test_columns_that_are_not_compared(column: pa.Array) -> None:
    """Lists, bytes and empty columns have no relation."""
    assert bits(column, pa.array([0, 1])) is None


def test_many_texts_and_dates() -> None:
    """Rare texts share a place; dates are numbers."""
    texts = pa.array([*(f"t{i % 40}" for i in range(400)), None])
    assert np.bincount(places_of(texts, 12)).tolist() == [10] * 11 + [290, 1]
    assert set(places_of(pa.array(map(str, range(40))), 12)) == {0}
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 100) for i in range(400)]
    label = pa.array([i % 100 < 50 for i in range(400)])
    assert bits(pa.array(days), label) == pytest.approx(1, abs=0.05)
