"""Repeated rows are left out, against a loop."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.checks.meet import Meet, RowDrop, hash_name, hash_values, repeats
from beam_pipelines.core.chunks import ROW, Chunk, Rejected
from beam_pipelines.transforms import equal_rows
from beam_pipelines.transforms.equal_rows import decide, send_hashes, send_places
from beam_pipelines.transforms.exchange import Message, Received

MEET = Meet("m", (), repeats)


def received(messages: list[Message], partition: int) -> Received:
    own = sorted(message for message in messages if partition in message.payloads)
    payloads = tuple(bytes(message.payloads[partition]) for message in own)
    return Received(partition, payloads, tuple(message.order for message in own))


class _Drop(equal_rows._Drop):
    """Leaves out the positions, for which a source would be read."""

    def _rejected(self, chunk, batch, rows):  # noqa: ARG002 - as in the base class
        return iter(Rejected("s", "f", f"row {row}", "", "", "") for row in rows.tolist())


def kept(chunks: list[Chunk], partitions: int) -> list[Chunk]:
    hashes = [send_hashes(chunk, ("m",), partitions) for chunk in chunks]
    places = [
        send_places(decide(received(hashes, number), MEET), number)
        for number in range(partitions)
        if any(number in message.payloads for message in hashes)
    ]
    places += [equal_rows._send_chunk(chunk, hash_name("m")) for chunk in chunks]
    drop = _Drop(RowDrop("duplicates", "", ""), None)
    ranges = sorted({chunk.range_number for chunk in chunks})
    return [chunk for number in ranges for chunk in drop(received(places, number))]


VALUES = st.none() | st.integers(0, 4)


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
