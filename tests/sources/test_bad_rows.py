"""Tests of how bad rows are found."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.bad_input.bad_rows import BadRow


@given(bad=st.sets(st.integers(0, 1_999)), size=st.integers(0, 2_000))
def test_sift_finds_the_bad_rows_and_no_others(bad, size):
    """Good rows come in stretches and bad ones alone, all in order."""

    def attempt(start: int, end: int) -> range:
        if not bad.isdisjoint(range(start, end)):
            raise pa.ArrowInvalid("bad")
        return range(start, end)

    found = list(bad_rows.sift(attempt, 0, size))
    assert [part.number for part in found if isinstance(part, BadRow)] == sorted(
        row for row in bad if row < size
    )
    numbers = [
        number for part in found for number in ([part.number] if isinstance(part, BadRow) else part)
    ]
    assert numbers == list(range(size))
