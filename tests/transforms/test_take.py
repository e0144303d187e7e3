"""Which rows a share of the base source has."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.transforms.take import sample_rows


@given(st.floats(0.001, 1), st.tuples(st.integers(0, 1 << 40), st.integers(0, 9)))
def test_a_sample_has_its_share_of_the_rows(share: float, address: tuple[int, int]) -> None:
    """A share is met within five standard deviations.

    Larger samples contain smaller ones.
    """
    rows = 20_000
    chosen = sample_rows(share, address, rows)
    assert abs(chosen.sum() - share * rows) <= 5 * np.sqrt(rows * share * (1 - share)) + 1
    assert not (chosen & ~sample_rows(min(1, share * 1.5), address, rows)).any()
    assert (sample_rows(share, address, 100) == chosen[:100]).all()


def test_the_sample_never_changes() -> None:
    """Positions of a sample are those of every version and platform."""
    assert np.flatnonzero(sample_rows(0.1, (3, 1), 60)).tolist() == [
        2,
        5,
        11,
        21,
        31,
        44,
        49,
        55,
        57,
    ]
    assert sample_rows(1, (0, 0), 1000).all()
