"""Texts of ISO 8601 dates and times have one type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_pipelines.sources.inference import time_type


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024-01-31", None], pa.date32()),
        (["2024-01-31", "2024-01-31T10:00:00"], pa.timestamp("us")),
        (["2024-01-31 10:00", "2024-01-31T10:00:00.5"], pa.timestamp("us")),
        (["2024-01-31T10:00:00Z", "2024-01-31 10:00:00+02:00"], pa.timestamp("us", "UTC")),
        (["2024-01-31", "2024-01-31T10:00:00Z"], None),
        (["2024-01-31T10:00:00", "2024-01-31T10:00:00Z"], None),
        (["2024-02-30"], None),
        (["2024-1-31"], None),
        (["2024"], None),
        (["x", "2024-01-31"], None),
        ([None], None),
    ],
)
def test_texts_of_dates_and_times_have_one_type(texts, expected):
    """All texts are of one type, or they are texts."""
    assert time_type(pa.array(texts, pa.string())) == expected
