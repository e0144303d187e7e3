"""The functions that the trainers share without TensorFlow."""

from __future__ import annotations

import math

import feeding
import numpy as np
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40))
def test_area_under_curve(rows):
    """The AUC is the share of pairs that are in order."""
    labels, scores = (np.array(column, float) for column in zip(*rows, strict=True))
    ones, zeros = scores[labels > 0][:, None], scores[labels == 0][None]
    found = feeding.area_under_curve(labels, scores)
    if not ones.size or not zeros.size:
        assert math.isnan(found)
    else:
        assert math.isclose(found, ((ones > zeros) + (ones == zeros) / 2).mean())


def test_waiting(monkeypatch):
    """Only the time in ``next`` counts as waiting."""
    times = iter([0.0, 1.0, 3.0, 7.0, 8.0, 10.0])
    monkeypatch.setattr(feeding.time, "perf_counter", lambda: next(times))
    waiting = feeding.Waiting([5, 6])
    assert [next(waiting), next(waiting)] == [5, 6]
    assert waiting.seconds == 3.0
    assert str(waiting) == "waited for batches: 30.0% of 10.0 s"
