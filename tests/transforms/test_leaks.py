"""Rows of several splits, against a loop over rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.checks.meet import Meet, hash_name, hash_values, later_splits
from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.core.places import Place, Repeats
from beam_pipelines.transforms.equal_rows import meet_rows, merge_met, send_hashes
from beam_pipelines.transforms.exchange import Received

ROWS = st.lists(
    st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(0, 2)), max_size=8),
    min_size=1,
    max_size=4,
)


@given(ROWS, st.integers(1, 4), st.booleans())
def test_leaks_against_a_loop(
    rows: list[list[tuple[int | None, int]]], partitions: int, skips_null: bool
) -> None:
    """A row leaks if an earlier split has its values."""
    messages, known = [], []
    for number, own in enumerate(rows):
        array = pa.array([value for value, _ in own], pa.int64())
        # Places as if one row before each had been left out.
        places = pa.array([2 * index for index in range(len(own))], pa.int64())
        batch = pa.record_batch([hash_values([array], skips_null), places], [hash_name("m"), PLACE])
        splits = pa.array([split for _, split in own], pa.uint8()).to_numpy()
        messages.append(send_hashes(Chunk(number, 0, batch, {}), ("m",), partitions, splits))
        known += [
            (value, split, Place(number, 0, 2 * index))
            for index, (value, split) in enumerate(own)
            if not (skips_null and value is None)
        ]
    found = []
    for partition in range(partitions):
        own = [message for message in messages if partition in message.payloads]
        if own:
            payloads = tuple(bytes(message.payloads[partition]) for message in own)
            orders = tuple(message.order for message in own)
            received = Received(partition, payloads, orders)
            found.extend(meet_rows(received, [Meet("m", (), later_splits)], partitions))
    expected: dict[tuple[int, int], list[tuple[Place, Place]]] = {}
    for value, split, place in known:
        earliest, first = min((other, spot) for same, other, spot in known if same == value)
        if earliest < split:
            expected.setdefault((earliest, split), []).append((first, place))
    assert merge_met(found).get("m", {}) == {
        key: Repeats(len(pairs), tuple(pairs[:10])) for key, pairs in expected.items()
    }
