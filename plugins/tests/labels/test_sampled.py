"""Relations of sampled rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines_plugins.labels.card import describe_label
from beam_pipelines_plugins.labels.leaking import leaking_features


def sample_of(label="y"):
    """Returns rows in which one column tells the label."""
    numbers = np.random.default_rng(3)
    y = numbers.integers(0, 2, 2_000)
    rows = pa.record_batch({"y": y, "told": y * 3 + 1, "other": numbers.normal(size=len(y))})
    return SampledSplits(rows, rows, EncodePlan(rows.schema, (), tuple(rows.schema.names)), label)


def test_the_report_and_leaks_take_sampled_rows():
    """The report has all columns, ``leaks`` the one that tells."""
    sample = sample_of()
    card, leaks = describe_label(sample), list(leaking_features(sample, 0.99))
    assert card.order["told"] == pytest.approx(1, abs=0.01)
    assert card.order["other"] == pytest.approx(0, abs=0.01)
    assert [data["column"] for _, data in leaks] == ["told"]
    assert describe_label(sample_of(None)) is None
