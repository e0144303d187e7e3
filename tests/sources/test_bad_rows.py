"""Tests of how bad rows are found."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.faults.bad_rows import BadRow


@pytest.mark.parametrize("words", ["Row #{}: ", "changed in row {}", "nothing said {}"])
@settings(max_examples=40, deadline=None)
@given(bad=st.sets(st.integers(0, 1_999)), size=st.integers(0, 2_000), named=st.integers(-3, 2_000))
def test_sift_finds_the_bad_rows_and_no_others(words, bad, size, named):
    """Good rows come in stretches and bad ones alone, all in order.

    The error may name any row, or none.
    """

    def attempt(start: int, end: int) -> range:
        if wrong := [row for row in range(start, end) if row in bad]:
            raise pa.ArrowInvalid(words.format(wrong[0] - start + 1 if named < 0 else named))
        return range(start, end)

    found = list(bad_rows.sift(attempt, 0, size))
    assert [part.number for part in found if isinstance(part, BadRow)] == sorted(
        row for row in bad if row < size
    )
    numbers = [
        number for part in found for number in ([part.number] if isinstance(part, BadRow) else part)
    ]
    assert numbers == list(range(size))


@pytest.mark.parametrize(("words", "first"), [("Row #{}: bad", 1), ("bad in row {}", 0)])
def test_a_named_row_spares_attempts(words: str, first: int) -> None:
    """A single bad row among few takes four attempts.

    They are: all rows, the bad row, and the rest on both sides.
    """
    attempts = []

    def attempt(start: int, end: int) -> None:
        attempts.append((start, end))
        if start <= 200 < end:
            raise pa.ArrowInvalid(words.format(200 - start + first))

    found = list(bad_rows.sift(attempt, 0, 500))
    assert isinstance(found[1], BadRow)
    assert attempts == [(0, 500), (0, 200), (200, 201), (201, 500)]
