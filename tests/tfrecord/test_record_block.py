"""Records in the bytes of a TFRecord file are a sequence.

Its slices share its bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.tfrecord.framing import RecordBlock


def block_of(records: list[bytes]) -> RecordBlock:
    """Returns records in frames, with a beginning of another one behind them."""
    framed = _native.frame(pa.array(records, pa.binary())).to_pylist()
    return RecordBlock(
        b"".join(framed) + b"\1\0\0", np.cumsum([0, *map(len, framed)], dtype=np.int64)
    )


@given(st.lists(st.binary(max_size=20), max_size=6), st.integers(-8, 8), st.integers(-8, 8))
def test_is_a_sequence_of_its_records(records: list[bytes], start: int, stop: int) -> None:
    """A record block has the length, items and slices of a list.

    This includes places from either end, slices of slices and iteration.
    """
    block = block_of(records)
    assert len(block) == len(records)
    assert list(block) == [block[place] for place in range(len(records))] == records
    assert [block[place - len(records)] for place in range(len(records))] == records
    part = block[start:stop]
    assert list(part) == records[start:stop]
    assert list(part[1:]) == records[start:stop][1:]
    assert part.framed_bytes == sum(len(record) + 16 for record in records[start:stop])
    assert (
        part.frames().to_pylist()
        == _native.frame(pa.array(records[start:stop], pa.binary())).to_pylist()
    )


def test_places_that_it_does_not_have() -> None:
    """A place out of range is an error, as is a step."""
    block = block_of([b"a", b"b"])
    for place in (2, -3):
        with pytest.raises(IndexError):
            block[place]
    with pytest.raises(ValueError, match="found a step of 2"):
        block[::2]
