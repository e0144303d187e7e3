"""Joins by hash, by partition.

Rows with one key go to one partition, as Arrow IPC payloads of an exchange. A partition with many
left rows is joined in pieces, each with all right rows (``meet.cut_partition``). Right rows come
first and are indexed; left rows probe the index. If a partition has too many right rows, because
many have one key, they are indexed in parts; with times, they are indexed whole. A second exchange
sends the joined rows back to their range, where they get the order and the chunks that they had. So
the result equals that of one index, byte for byte. The chunks' row counts go straight into the
second exchange. Memory holds at a time: ``RIGHT_BYTES`` of right rows, ``FLUSH_BYTES`` of joined
rows, and the joined rows of one range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import empty_batch, take_rows
from beam_pipelines.core.arrow.ipc import PackedBatch, pack, unpack
from beam_pipelines.core.arrow.key_index import all_valid
from beam_pipelines.core.chunks import Chunk, add_counts
from beam_pipelines.joins import index as join_index
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.join.plan import JoinStep
from beam_pipelines.transforms.meet import cut_by_key, send_rows

# Joined rows of a partition in one message.
FLUSH_BYTES = 64 << 20
# Plain bytes of right rows in one index. A partition has 64 MiB of them, unless many have one key,
# or the estimate was wrong.
RIGHT_BYTES = 256 << 20
# First number in the order of a side's messages.
_RIGHT, _LEFT = 0, 1
# A row's place in its chunk, as a first column that no source can have.
_PLACE = pa.field("\0place", pa.int64(), nullable=False)


def send_right(chunk: Chunk, step: JoinStep) -> Message:
    """Sends the right rows of a chunk to their partitions.

    They come before the left rows. Rows with a null in the key match nothing and are not sent.
    """
    batch = chunk.batch.select(step.right_schema.names)
    keyed = np.flatnonzero(all_valid([batch.column(name) for name in step.join.right_on]))
    batch = batch if len(keyed) == batch.num_rows else take_rows(batch, keyed)
    parts = cut_by_key(batch, step.join.right_on, step.partitions)
    return send_rows((_RIGHT, *chunk[:2]), parts)


def send_left(chunk: Chunk, step: JoinStep) -> Message:
    """Sends the left rows of a chunk, with places, to their partitions."""
    places = pa.array(np.arange(chunk.batch.num_rows))
    batch = pa.RecordBatch.from_arrays(
        [places, *chunk.batch.columns], schema=pa.schema([_PLACE, *chunk.batch.schema])
    )
    about = {"range": chunk.range_number, "part": chunk.part}
    parts = cut_by_key(batch, step.join.left_on, step.partitions)
    return send_rows((_LEFT, *chunk[:2]), parts, about)


def join_partition(
    received: Received,
    step: JoinStep,
    flush_bytes: int = FLUSH_BYTES,
    right_bytes: int = RIGHT_BYTES,
) -> Iterator[Message]:
    """Joins the rows of one partition, or of a piece of it.

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
    waiting: dict[int, list[PackedBatch]] = {}
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
) -> Iterator[tuple[int, PackedBatch]]:
    """Yields the range of joined rows, and the rows."""
    join, number = step.join, step.number
    matches: dict[tuple[int, int], join_index.Matches] = {}
    for index, is_only in _indexes(received, step, right_bytes):
        for batch, about in _rows_of(received, _LEFT):
            if is_only:
                joined, counts = join_index.join_batch(batch, index, join, number)
                yield about["range"], PackedBatch(joined, {"part": about["part"], "counts": counts})
                continue
            address = (about["range"], about["part"])
            lows, highs = join_index.find_matches(batch, index, join)
            matches[address] = matches.get(address, 0) + highs - lows
            if not join.adds_columns:
                continue
            joined, _ = join_index.join_batch(batch, index, dataclasses.replace(join, how="inner"))
            if joined.num_rows:
                yield about["range"], PackedBatch(joined, {"part": about["part"], "counts": {}})
    if not matches:
        return
    # At last: the counts, and rows that no index had a match for, or of a semi join any.
    none = join_index.build_index(pa.Table.from_batches([], step.right_schema), join, step.added)
    for batch, about in _rows_of(received, _LEFT):
        found = matches[about["range"], about["part"]]
        counts = join_index.count_rows(batch, found, join, number)
        rows = batch.filter(pa.array((found > 0) == (join.how == "semi")))
        if join.how != "semi":
            rows, _ = join_index.join_batch(rows, none, join)
        yield about["range"], PackedBatch(rows, {"part": about["part"], "counts": counts})


def _indexes(
    received: Received, step: JoinStep, right_bytes: int
) -> Iterator[tuple[join_index.JoinIndex, bool]]:
    """Yields indexes of the right rows, in order, one in memory.

    Yields:
      An index, and whether it is the only one.
    """
    right: list[pa.RecordBatch] = []
    size, is_only = 0, True

    def build() -> join_index.JoinIndex:
        return join_index.build_index(
            pa.Table.from_batches(right, step.right_schema), step.join, step.added
        )

    for batch, _ in _rows_of(received, _RIGHT):
        if right and size + batch.nbytes > right_bytes and step.join.timed is None:
            is_only = False
            yield build(), is_only
            right, size = [], 0
        right.append(batch)
        size += batch.nbytes
    yield build(), is_only


def _rows_of(received: Received, side: int) -> Iterator[PackedBatch]:
    """Yields the rows of one side, by the order of its messages."""
    for payload in received.payloads(side):
        yield from unpack(payload)


def _joined_message(
    piece: tuple[int, ...], flush: int, waiting: Mapping[int, Sequence[PackedBatch]]
) -> Message:
    return Message(
        (1, *piece, flush), {number: pack(batches) for number, batches in waiting.items()}
    )


def restore_range(received: Received, step: JoinStep) -> Iterator[Chunk]:
    """Restores the chunks of one range from their joined rows.

    Yields:
      The range's chunks in order, with their counts; also chunks without rows.
    """
    counted: dict[int, Chunk] = {}
    joined: dict[int, list[PackedBatch]] = {}
    for packed in (packed for payload in received.payloads() for packed in unpack(payload)):
        part = packed.about["part"]
        if "path" in packed.about:
            counted[part] = Chunk.of(received.partition, *packed)
        else:
            joined.setdefault(part, []).append(packed)
    for part in sorted(counted):
        own = joined.pop(part, [])
        counts = dict.fromkeys(join_index.count_names(step.join.how, step.number), 0)
        for added in (counted[part].counts, *(packed.about["counts"] for packed in own)):
            counts = add_counts(added, counts)
        batch = _in_order([packed.batch for packed in own], step.schema)
        yield counted[part]._replace(batch=batch, counts=counts)


def _in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in order of their places, without the places.

    Rows of one place keep their order.
    """
    if not batches:
        return empty_batch(schema)
    batch = join_index.table_batch(pa.Table.from_batches(batches))
    order = np.argsort(batch.column(0).to_numpy(), kind="stable")
    return take_rows(batch, order).select(batch.schema.names[1:])
