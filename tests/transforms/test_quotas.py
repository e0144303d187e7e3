"""Rows of classes divided by shares, against their definition."""

from __future__ import annotations

import fractions

from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.transforms.split.stratify import divide_classes

SHARES = st.sampled_from(
    [(0.8, 0.2), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3), (0.999, 0.001), (0.5, 0.25, 0.125, 0.125)]
)


@given(st.lists(st.integers(0, 1000), max_size=20), SHARES)
def test_a_class_is_divided_to_one_row(rows: list[int], shares: tuple[float, ...]) -> None:
    """A split has its share of a class within one row.

    All rows are divided. A split without a row of a class has one as soon as the rest allows it.
    """
    whole = sum(map(fractions.Fraction, map(repr, shares)))
    exact = [fractions.Fraction(repr(share)) / whole for share in shares]
    divided = divide_classes(rows, shares).tolist()
    assert [sum(own) for own in divided] == rows
    for count, own in zip(rows, divided, strict=True):
        assert all(abs(got - count * share) < 1 for got, share in zip(own, exact, strict=True))
        if len(shares) == 2 and count > 1:
            assert min(own) > 0


@given(
    st.lists(st.integers(20, 90), min_size=50, max_size=200), SHARES.filter(lambda s: min(s) > 0.05)
)
def test_sums_are_near_the_shares(rows: list[int], shares: tuple[float, ...]) -> None:
    """The roundings of many classes even out."""
    whole = sum(shares)
    sums = divide_classes(rows, shares).sum(axis=0)
    for got, share in zip(sums.tolist(), shares, strict=True):
        assert abs(got - sum(rows) * share / whole) < len(shares)
