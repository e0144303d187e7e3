"""Lengths of texts in the report, against Python's ``len``."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.description import Lengths, text_lengths
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.text import TextStatistics


@given(st.lists(st.text(max_size=6), min_size=1))
def test_characters(texts: list[str]) -> None:
    """A letter of several bytes counts once."""
    unit, (found,) = text_lengths([TextStatistics.of(pa.array(texts))])
    sizes = [len(text) for text in texts]
    assert unit == "characters"
    assert found is not None
    assert (found.shortest, found.longest) == (min(sizes), max(sizes))
    assert found.mean == pytest.approx(sum(sizes) / len(sizes))


def test_bytes_where_characters_are_not_known() -> None:
    """All splits have one unit; bytes are no texts."""
    few = ColumnLimits(texts=1)
    splits = [
        TextStatistics.of(pa.array(["é", "ab"]), limits=few),
        TextStatistics.of(pa.array(["é"])),
        TextStatistics.of(pa.array([], pa.string())),
    ]
    expected = [Lengths(2, 2.0, 2), Lengths(2, 2.0, 2), None]
    assert text_lengths(splits) == ("bytes", expected)
    binary = TextStatistics.of(pa.array(["é".encode()]))
    assert text_lengths([binary]) == ("bytes", [Lengths(2, 2.0, 2)])
