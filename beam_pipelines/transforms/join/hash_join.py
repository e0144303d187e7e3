"""The hash join: cuts both sides into partitions by key.

Rows with one key go to one partition, as Arrow IPC payloads of an exchange. Right rows come first
and are indexed; left rows probe the index. If a partition has too many right rows, because many
have one key, they are indexed in parts. A second exchange sends the joined rows back to their
range, where they get the order and the chunks that they had. So the result equals the broadcast
join's, byte for byte. The chunks' row counts go straight into the second exchange. Memory holds at
a time: ``RIGHT_BYTES`` of right rows, ``FLUSH_BYTES`` of joined rows, and the joined rows of one
range.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.chunks import Chunk, Rejected, add_counts
from beam_pipelines.core.columns import take_rows
from beam_pipelines.core.key_index import all_valid
from beam_pipelines.transforms.exchange import Message, Received, load_payload
from beam_pipelines.transforms.join.index import (
    JoinIndex,
    build_index,
    count_matches,
    count_names,
    count_null_keys,
    join_batch,
    summed_matches,
    table_batch,
)
from beam_pipelines.transforms.join.plan import JoinStep

# Another seed than that of indexes and splits.
PARTITION_SEED = 0x6A6F696E  # "join"
# Joined rows of a partition in one message.
FLUSH_BYTES = 64 << 20
# Plain bytes of right rows in one index. A partition has 64 MiB of them, unless many have one key,
# or the estimate was wrong.
RIGHT_BYTES = 256 << 20
# First number in the order of a side's messages.
_SIDES = {"right": 0, "left": 1}
# A row's place in its chunk, as a first column that no source can have.
_PLACE = pa.field("\0place", pa.int64(), nullable=False)
_METADATA_KEY = b"beam_pipelines"


# int64[n]: for each left row of a batch, how many right rows it matches.
Matches = npt.NDArray[np.int64]


class Packed(NamedTuple):
    """A batch in a payload, with metadata for JSON."""

    batch: pa.RecordBatch
    about: Mapping[str, Any]


def pack(batches: Sequence[Packed], compression: str | None = "lz4") -> bytes:
    """Writes batches of one schema as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    write_packed(sink, batches, compression)
    return bytes(sink.getvalue())


def write_packed(
    sink: BinaryIO | pa.NativeFile, batches: Sequence[Packed], compression: str | None
) -> None:
    """Writes what ``pack`` returns to a file."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].batch.schema, options=options) as writer:
        for batch, about in batches:
            writer.write_batch(batch, {_METADATA_KEY: json.dumps(about)})


def unpack(payload: bytes) -> Iterator[Packed]:
    """Yields the batches of a ``pack`` payload."""
    with pa.ipc.open_stream(payload) as reader:
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield Packed(batch, json.loads(metadata[_METADATA_KEY]))


def cut_by_key(
    batch: pa.RecordBatch, on: Sequence[str], partitions: int
) -> dict[int, pa.RecordBatch]:
    """Cuts a batch into partitions by the hash of its key columns.

    Rows keep their order; nulls hash as one value.
    """
    hashes = _native.hash_rows([batch.column(name) for name in on], PARTITION_SEED)
    numbers = (hashes % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=partitions)
    grouped = take_rows(batch, order)
    starts = np.cumsum(sizes) - sizes
    return {
        partition: grouped.slice(int(starts[partition]), int(size))
        for partition, size in enumerate(sizes)
        if size
    }


def send_right(chunk: Chunk, on: Sequence[str], partitions: int) -> Message:
    """Sends the right rows of a chunk to their partitions.

    They come before the left rows. Rows with a null in the key match nothing and are not sent.
    """
    keyed = np.flatnonzero(all_valid([chunk.batch.column(name) for name in on]))
    batch = chunk.batch if len(keyed) == chunk.batch.num_rows else take_rows(chunk.batch, keyed)
    parts = cut_by_key(batch, on, partitions)
    return Message(
        (_SIDES["right"], chunk.range_number, chunk.part),
        {partition: pack([Packed(part, {})]) for partition, part in parts.items()},
    )


def send_left(chunk: Chunk, on: Sequence[str], partitions: int) -> Message:
    """Sends the left rows of a chunk, with places, to their partitions."""
    places = pa.array(np.arange(chunk.batch.num_rows))
    batch = pa.RecordBatch.from_arrays(
        [places, *chunk.batch.columns], schema=pa.schema([_PLACE, *chunk.batch.schema])
    )
    about = {"range": chunk.range_number, "part": chunk.part}
    parts = cut_by_key(batch, on, partitions)
    return Message(
        (_SIDES["left"], chunk.range_number, chunk.part),
        {partition: pack([Packed(part, about)]) for partition, part in parts.items()},
    )


def send_counts(chunk: Chunk) -> Message:
    """Sends the row counts of a chunk to its range.

    They come before its rows.
    """
    empty = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return Message(
        (0, chunk.range_number, chunk.part),
        {chunk.range_number: pack([Packed(empty, about_chunk(chunk))])},
    )


def about_chunk(chunk: Chunk) -> dict[str, Any]:
    """Returns a chunk without its rows and range, as JSON data."""
    return {
        "part": chunk.part,
        "counts": dict(chunk.counts),
        "rejected": chunk.rejected,
        "crc32c": chunk.crc32c,
        "path": chunk.path,
        "pieces": chunk.pieces,
    }


def chunk_about(range_number: int, batch: pa.RecordBatch, about: Mapping[str, Any]) -> Chunk:
    """Returns the chunk of ``about_chunk`` with rows."""
    return Chunk(
        range_number,
        about["part"],
        batch,
        about["counts"],
        tuple(Rejected(*row) for row in about["rejected"]),
        about["crc32c"],
        about["path"],
        pieces=tuple(about["pieces"]),
    )


def join_partition(
    received: Received,
    step: JoinStep,
    flush_bytes: int = FLUSH_BYTES,
    right_bytes: int = RIGHT_BYTES,
) -> Iterator[Message]:
    """Joins the rows of one partition.

    Args:
      received: rows of both sides, the right ones first.
      step: the join.
      flush_bytes: of joined rows in a message.
      right_bytes: of right rows in one index. If there are more, as with many rows of one key, the
        left rows probe several indexes in turn. The result is the same, because the matches of a
        row are in the order of the right rows.

    Yields:
      The joined rows for their ranges, in messages of about ``flush_bytes``.
    """
    waiting: dict[int, list[Packed]] = {}
    waiting_bytes = flushes = 0
    for range_number, packed in _joined_rows(received, step, right_bytes):
        waiting.setdefault(range_number, []).append(packed)
        waiting_bytes += packed.batch.nbytes
        if waiting_bytes > flush_bytes:
            yield _joined_message(received.partition, flushes, waiting)
            waiting, waiting_bytes, flushes = {}, 0, flushes + 1
    if waiting:
        yield _joined_message(received.partition, flushes, waiting)


def _joined_rows(
    received: Received, step: JoinStep, right_bytes: int
) -> Iterator[tuple[int, Packed]]:
    """Yields the range of joined rows, and the rows."""
    how, number = step.join.how, step.number
    matches: dict[tuple[int, int], Matches] = {}
    for index, is_only in _indexes(received, step, right_bytes):
        for batch, about in _rows_of(received, "left"):
            if is_only:
                joined, counts = join_batch(batch, index, step.left_on, how, number)
                yield about["range"], Packed(joined, {"part": about["part"], "counts": counts})
                continue
            address = (about["range"], about["part"])
            matches[address] = matches.get(address, 0) + count_matches(batch, index, step.left_on)
            joined, _ = join_batch(batch, index, step.left_on, "inner")
            if joined.num_rows:
                yield about["range"], Packed(joined, {"part": about["part"], "counts": {}})
    if not matches:
        return
    # At last: rows without a match in any index, and the counts.
    none = build_index(
        pa.Table.from_batches([], step.source_plan.schema), step.right_on, step.added
    )
    for batch, about in _rows_of(received, "left"):
        found = matches[about["range"], about["part"]]
        summed = (*summed_matches(found), count_null_keys(batch, step.left_on))
        counts = dict(zip(count_names(how, number), summed, strict=True))
        joined, _ = join_batch(batch.filter(pa.array(found == 0)), none, step.left_on, how)
        yield about["range"], Packed(joined, {"part": about["part"], "counts": counts})


def _indexes(
    received: Received, step: JoinStep, right_bytes: int
) -> Iterator[tuple[JoinIndex, bool]]:
    """Yields indexes of the right rows, in order, one in memory.

    Yields:
      An index, and whether it is the only one.
    """
    right: list[pa.RecordBatch] = []
    size, is_only = 0, True

    def build() -> JoinIndex:
        return build_index(
            pa.Table.from_batches(right, step.source_plan.schema), step.right_on, step.added
        )

    for batch, _ in _rows_of(received, "right"):
        if right and size + batch.nbytes > right_bytes:
            is_only = False
            yield build(), is_only
            right, size = [], 0
        right.append(batch)
        size += batch.nbytes
    yield build(), is_only


def _rows_of(received: Received, side: str) -> Iterator[Packed]:
    """Yields the rows of one side, by the order of its messages."""
    for content, order in zip(received.contents, received.orders, strict=True):
        if order[0] == _SIDES[side]:
            yield from unpack(load_payload(content))


def _joined_message(partition: int, flush: int, waiting: Mapping[int, Sequence[Packed]]) -> Message:
    return Message(
        (1, partition, flush), {number: pack(batches) for number, batches in waiting.items()}
    )


def restore_range(received: Received, step: JoinStep) -> Iterator[Chunk]:
    """Restores the chunks of one range from their joined rows.

    Yields:
      The range's chunks in order, with their counts; also chunks without rows.
    """
    source_counts: dict[int, Mapping[str, Any]] = {}
    joined: dict[int, list[Packed]] = {}
    for packed in (packed for payload in received.payloads() for packed in unpack(payload)):
        part = packed.about["part"]
        if "path" in packed.about:
            source_counts[part] = packed.about
        else:
            joined.setdefault(part, []).append(packed)
    for part in sorted(source_counts):
        yield _restore_chunk(received.partition, source_counts[part], joined.pop(part, []), step)


def _restore_chunk(
    range_number: int, row_counts: Mapping[str, Any], joined: Sequence[Packed], step: JoinStep
) -> Chunk:
    counts = add_counts(
        row_counts["counts"], dict.fromkeys(count_names(step.join.how, step.number), 0)
    )
    for packed in joined:
        counts = add_counts(counts, packed.about["counts"])
    rejected = tuple(Rejected(*row) for row in row_counts["rejected"])
    batch = _in_order([packed.batch for packed in joined], step.schema)
    return Chunk(
        range_number,
        row_counts["part"],
        batch,
        counts,
        rejected,
        row_counts["crc32c"],
        row_counts["path"],
    )


def _in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in order of their places, without the places.

    Rows of one place keep their order.
    """
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    batch = table_batch(pa.Table.from_batches(batches))
    order = np.argsort(batch.column(0).to_numpy(), kind="stable")
    return take_rows(batch, order).select(batch.schema.names[1:])
