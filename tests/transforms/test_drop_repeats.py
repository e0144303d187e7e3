"""Repeated rows are left out, against a loop."""

from __future__ import annotations

import os
import tempfile

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.checks.meet import Drop, Meet, repeats
from beam_pipelines.core import slices
from beam_pipelines.core.chunks import ROW, Chunk, Rejected
from beam_pipelines.transforms import drop_repeats
from beam_pipelines.transforms.drop_repeats import hold_numbered, load_numbered, send_places
from beam_pipelines.transforms.exchange import Message, Received, Sent
from beam_pipelines.transforms.meet import decide, send_hashes
from beam_pipelines.transforms.meet_hashes import hash_name, hash_values

MEET = Meet("m", (), repeats)


def received(messages: list[Message], partition: int) -> Received:
    own = sorted(message for message in messages if partition in message.payloads)
    payloads = tuple(bytes(message.payloads[partition]) for message in own)
    return Received(partition, payloads, tuple(message.order for message in own))


class _Dropper(drop_repeats.RowDropper):
    """Leaves out the positions, for which a source would be read."""

    def _rejected(self, chunk, batch, rows, reasons):  # noqa: ARG002 - as in the base class
        return iter(Rejected("s", "f", f"row {row}", "", "", "") for row in rows.tolist())


def kept(chunks: list[Chunk], partitions: int) -> list[Chunk]:
    hashes = [send_hashes(chunk, ("m",), partitions) for chunk in chunks]
    places = [
        send_places(decide(received(hashes, number), MEET), number)
        for number in range(partitions)
        if any(number in message.payloads for message in hashes)
    ]
    sent = [
        (number, [Sent(message.order, "", slices.Slice(0, 1, bytes(payload)))])
        for message in places
        for number, payload in message.payloads.items()
    ]
    drop = drop_repeats._Drop(Drop("duplicates", "", ""), None, None, True)
    drop._dropper = _Dropper("duplicates", None, "")
    with tempfile.TemporaryDirectory() as folder:
        held = [hold_numbered(chunk, "m", folder) for chunk in chunks]
        groups = [
            (
                number,
                {
                    "places": [each for partition, each in sent if partition == number],
                    "held": [each for own, each in held if own == number],
                },
            )
            for number in sorted({chunk.range_number for chunk in chunks})
        ]
        return [chunk for group in groups for chunk in drop.process(group)]


VALUES = st.none() | st.integers(0, 4)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(VALUES, max_size=6), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_the_first_row_by_position_stays(
    rows: list[list[int | None]], partitions: int, parts: int
) -> None:
    """Chunks keep their addresses, and the order of their other rows."""
    chunks, seen, expected = [], set(), []
    for number, own in enumerate(rows):
        array = pa.array(own, pa.int64())
        batch = pa.record_batch(
            [array, pa.array(range(len(own)), pa.int64()), hash_values([array], False)],
            ["n", ROW, hash_name("m")],
        )
        counts = {"read": len(own)}
        chunks.append(Chunk(number // parts, number % parts, batch, counts, pieces=((1,),)))
        left = [value for value in own if not (value in seen or seen.add(value))]
        expected.append((number // parts, number % parts, left, len(own) - len(left)))
    found = kept(chunks[::-1], partitions)
    assert [
        (
            chunk.range_number,
            chunk.part,
            chunk.batch.column("n").to_pylist(),
            chunk.counts.get("left_out/duplicates", 0),
        )
        for chunk in found
    ] == expected
    for chunk in found:
        assert chunk.batch.schema.names == ["n", ROW]
        assert [*map(list, chunk.pieces)] == [[1]]
        assert len(chunk.rejected) == chunk.counts.get("left_out/duplicates", 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), unique=True, max_size=6).map(sorted), st.booleans())
def test_a_held_chunk_keeps_its_numbers(numbers: list[int], deletes: bool) -> None:
    """It does so whether or not some are missing between them."""
    array = pa.array(numbers, pa.int64())
    batch = pa.record_batch([array, array], ["n", ROW])
    hashed = batch.append_column(hash_name("m"), hash_values([array], False))
    with tempfile.TemporaryDirectory() as folder:
        _, numbered = hold_numbered(Chunk(3, 2, hashed, {"read": 9}), "m", folder)
        (loaded,) = load_numbered(numbered, deletes)
        assert loaded[:4] == (3, 2, batch, {"read": 9})
        assert os.path.exists(numbered.held.file) != deletes
