"""Equal rows, found by hashes in partitions, against a loop over rows."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.checks.meet import Meet, hash_name, hash_values, repeats
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.places import Place, Repeats
from beam_pipelines.transforms import equal_rows
from beam_pipelines.transforms.equal_rows import meet_rows, merge_met, send_hashes
from beam_pipelines.transforms.exchange import Received


def found_of(chunks: list[Chunk], count: int, partitions: int) -> tuple[Repeats, ...]:
    meets = [Meet(str(number), (), repeats) for number in range(count)]
    names = [each.name for each in meets]
    messages = sorted(send_hashes(chunk, names, partitions) for chunk in chunks)
    found = []
    for partition in range(count * partitions):
        own = [message for message in messages if partition in message.payloads]
        if own:
            contents = tuple(bytes(message.payloads[partition]) for message in own)
            orders = tuple(message.order for message in own)
            found.extend(meet_rows(Received(partition, contents, orders), meets, partitions))
    merged = merge_met(found)
    return tuple(merged.get(name, {}).get((0, 0), Repeats()) for name in names)


VALUES = st.none() | st.sampled_from(["", "a", "b", "ab", "abcdefgh", "abcdefghi"])


@given(
    st.lists(st.lists(st.tuples(VALUES, VALUES), max_size=8), min_size=1, max_size=4),
    st.integers(1, 5),
    st.booleans(),
)
def test_repeats_against_a_loop(
    rows: list[list[tuple[str | None, str | None]]], partitions: int, skips_null: bool
) -> None:
    """The first row by position is the first."""
    chunks, seen, expected = [], {}, []
    for number, own in enumerate(rows):
        columns = [pa.array([row[place] for row in own], pa.string()) for place in range(2)]
        hashes = hash_values(columns, skips_null)
        batch = pa.record_batch([hashes], [hash_name("0")])
        chunks.append(Chunk(number // 2, number % 2, batch, {}))
        for index, row in enumerate(own):
            place = Place(number // 2, number % 2, index)
            if not (skips_null and None in row) and seen.setdefault(row, place) != place:
                expected.append((seen[row], place))
    (found,) = found_of(chunks[::-1], 1, partitions)
    assert found == Repeats(len(expected), tuple(expected[:10]))


def test_columns_do_not_meet() -> None:
    """The hashes of one column are not those of another."""
    batch = pa.record_batch(
        [hash_values([pa.array([1, 1])], True), hash_values([pa.array([1, 2])], True)],
        [hash_name("0"), hash_name("1")],
    )
    assert [each.rows for each in found_of([Chunk(0, 0, batch, {})], 2, 3)] == [1, 0]


def test_numbers_are_equal_as_in_sql() -> None:
    """NaN equals NaN, and both zeros are one."""
    array = pa.array([math.nan, 0.0, math.nan, -0.0, 1.0])
    batch = pa.record_batch([hash_values([array], True)], [hash_name("0")])
    (found,) = found_of([Chunk(0, 0, batch, {})], 1, 1)
    assert [(first.row, row.row) for first, row in found.pairs] == [(0, 2), (1, 3)]


@pytest.mark.parametrize("other", [(1, 3), (1 | 1 << 48, 2), (1 | 1 << 63, 3)])
def test_a_part_of_the_hash_does_not_decide(other: tuple[int, int]) -> None:
    """Rows are equal by all 128 bits, also the unsorted ones."""
    rows = [(1, 2), other, (1, 2), other, (2, 2)]
    sent = np.array([(*row, number, 0) for number, row in enumerate(rows)], equal_rows._SENT)
    received = Received(0, (sent.tobytes(),), ((0, 0),))
    [met] = meet_rows(received, [Meet("0", (), repeats)], 1)
    found = met.rows[0, 0]
    assert [(first.row, row.row) for first, row in found.pairs] == [(0, 2), (1, 3)]


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_slices_of_a_chunk(offset: int) -> None:
    """A sliced batch sends its own rows."""
    array = hash_values([pa.array([1, 2, None, 1, 2, 1])], True)
    whole = pa.record_batch([array], [hash_name("0")])
    (found,) = found_of([Chunk(0, 0, whole.slice(offset), {})], 1, 2)
    values = [1, 2, None, 1, 2, 1][offset:]
    known = [value for value in values if value is not None]
    assert found.rows == len(known) - len(set(known))
