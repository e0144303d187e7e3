"""Relations of columns to the label, against plain Python."""

from __future__ import annotations

import collections
import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines_plugins.labels.relations import Label, Relation, relations


def relation(
    column: pa.Array, label: pa.Array, weights: list[float] | None = None
) -> Relation | None:
    found = dict(
        relations(
            pa.record_batch({"x": column}),
            Label("y", label),
            ["x"],
            None if weights is None else np.array(weights),
        )
    )
    return found.get("x")


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


PAIRS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["no", "yes"])), min_size=2
).filter(lambda pairs: len({y for _, y in pairs}) == 2 and any(x for x, _ in pairs))


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_texts_and_two_classes(pairs: list[tuple[str | None, str]]) -> None:
    """Information, shares and rates are those that Python counts."""
    xs, ys = zip(*pairs, strict=True)
    found = relation(pa.array(xs), pa.array(ys))
    assert found is not None
    by_bucket = collections.defaultdict(list)
    for x, y in pairs:
        by_bucket[x or "missing"].append(y)
    chance = (len(by_bucket) - 1) / (2 * len(pairs) * math.log(2))
    assert found.bits == pytest.approx(max(0.0, information(pairs) - chance), abs=1e-9)
    assert {bucket.name: (bucket.share, bucket.rate) for bucket in found.buckets} == {
        name: (
            pytest.approx(len(labels) / len(pairs)),
            pytest.approx(labels.count("yes") / len(labels)),
        )
        for name, labels in by_bucket.items()
    }


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-50, 50), st.booleans()), min_size=30, max_size=200),
    st.randoms(use_true_random=False),
)
def test_ranges_of_numbers(pairs: list[tuple[int, bool]], random: object) -> None:
    """Ranges are in order and hold all rows, in any order."""
    column, label = (pa.array(values) for values in zip(*pairs, strict=True))
    if len(set(label.to_pylist())) < 2:
        return
    found = relation(column, label)
    assert found is not None
    assert sum(bucket.share for bucket in found.buckets) == pytest.approx(1)
    rate = sum(bucket.share * bucket.rate for bucket in found.buckets)
    assert rate == pytest.approx(sum(label.to_pylist()) / len(pairs))
    lows = [int(bucket.name.split(" – ")[0].replace("−", "-")) for bucket in found.buckets]
    assert lows == sorted(lows)
    order = pa.array(np.random.default_rng(0).permutation(len(pairs)))
    again = relation(column.take(order), label.take(order))
    assert again is not None
    assert [bucket.name for bucket in again.buckets] == [bucket.name for bucket in found.buckets]
    assert again.bits == pytest.approx(found.bits)


def test_a_column_that_says_nothing_or_all() -> None:
    """Independent columns have no bits, a copy has the label's."""
    generator = np.random.default_rng(3)
    label = generator.integers(0, 2, 20_000)
    noise = relation(pa.array(generator.normal(size=20_000)), pa.array(label))
    copy = relation(pa.array(label), pa.array(label))
    assert noise is not None
    assert copy is not None
    assert noise.bits < 0.001
    assert (copy.bits, copy.share) == (pytest.approx(1, abs=0.001), pytest.approx(1, abs=0.001))


def test_kinds_of_labels() -> None:
    """Classes have a rate or a most frequent one, numbers a mean."""
    classes = ["cat", "dog", "dog", "owl"]
    found = relation(pa.array(["x", "y", "y", "y"]), pa.array(classes))
    assert found is not None
    assert [(b.name, b.best, round(b.rate, 3)) for b in found.buckets] == [
        ("y", "dog", 0.667),
        ("x", "cat", 1.0),
    ]
    numbers = Label("price", pa.array(np.arange(100.0)))
    assert (numbers.kind, numbers.title) == ("mean", "Mean of price")
    two = Label("late", pa.array([True, None, False]))
    assert (two.kind, two.title) == ("rate", "late = true")
    assert Label("y", pa.array([0, 1, 1]), ["cat", "dog"]).title == "y = dog"
    mean = relation(pa.array(["low"] * 50 + ["high"] * 50), pa.array(np.arange(100.0)))
    assert mean is not None
    assert {b.name: b.rate for b in mean.buckets} == {"low": 24.5, "high": 74.5}


def test_weights_count_like_copies() -> None:
    """A row of weight 3 counts as three rows."""
    weighted = relation(pa.array(["a", "a", "b"]), pa.array([0, 1, 1]), [3.0, 1.0, 2.0])
    copied = relation(pa.array(["a"] * 4 + ["b"] * 2), pa.array([0, 0, 0, 1, 1, 1]))
    assert weighted is not None
    assert copied is not None
    assert sorted(weighted.buckets) == sorted(copied.buckets)


def test_rows_without_a_label_do_not_count() -> None:
    """Null labels are left out; NaN is a missing value."""
    column = pa.array([1.0, math.nan, 2.0, None])
    found = relation(column, pa.array(["a", "b", None, "b"]))
    assert found is not None
    assert [(b.name, round(b.share, 2), b.rate) for b in found.buckets] == [
        ("1", 0.33, 0.0),
        ("missing", 0.67, 1.0),
    ]


@pytest.mark.parametrize(
    "column", [pa.array([[1], [2]]), pa.array([b"a", b"b"]), pa.nulls(2, pa.string())]
)
def test_columns_that_are_not_compared(column: pa.Array) -> None:
    """Lists, bytes and empty columns have no relation."""
    assert relation(column, pa.array([0, 1])) is None


def test_many_texts_and_dates() -> None:
    """Rare texts share a bucket; dates have ranges of dates."""
    texts = [f"t{i % 40}" for i in range(400)]
    found = relation(pa.array(texts), pa.array([i % 2 for i in range(400)]))
    assert found is not None
    assert len(found.buckets) == 12
    assert found.buckets[-1].name == "29 others"
    all_differ = relation(pa.array(map(str, range(40))), pa.array([0, 1] * 20))
    assert all_differ is not None
    assert [bucket.name for bucket in all_differ.buckets] == ["40 different texts"]
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 100) for i in range(400)]
    dates = relation(pa.array(days), pa.array([i % 2 for i in range(400)]))
    assert dates is not None
    assert dates.buckets[0].name == "2024-01-01 – 2024-01-10"
