"""The hash-partitioned join: both sides cut by key into partitions, joined one by one, and sent back to where they came from.

Rows with one key meet in one partition, as Arrow IPC payloads of an exchange; the right ones come first and are indexed,
the left ones pass by. A second exchange takes the joined rows back to their range, where they are put into the order and
the pieces they had: so the result is the broadcast join's, byte by byte. The pieces' accounts take the short way, straight
into the second exchange. In memory are, at a time: the right rows of one partition, ``FLUSH_BYTES`` of joined rows, and
the joined rows of one range.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines import hashing
from beam_pipelines.exchange import Delivery, Parcel
from beam_pipelines.join_index import build_index, count_names, join_batch, table_batch
from beam_pipelines.join_plan import JoinStep
from beam_pipelines.pieces import Piece, Rejected, add_counts

# Another seed than that of indexes and splits.
PARTITION_SEED = 0x6A6F696E  # "join"
# Joined rows of a partition that wait for a file of their own.
FLUSH_BYTES = 64 << 20
# A row's place in its piece, as a first column that no source can have.
_PLACE = pa.field("\0place", pa.int64(), nullable=False)
_METADATA_KEY = b"beam_pipelines"


class Packed(NamedTuple):
    """A batch in a payload, and what is said about it (JSON-ready)."""

    batch: pa.RecordBatch
    about: Mapping[str, Any]


def pack(batches: Sequence[Packed]) -> bytes:
    """Writes batches of one schema as an Arrow IPC stream, compressed with lz4."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].batch.schema, options=options) as writer:
        for batch, about in batches:
            writer.write_batch(batch, {_METADATA_KEY: json.dumps(about)})
    return bytes(sink.getvalue())


def unpack(payload: bytes) -> Iterator[Packed]:
    """Yields what ``pack`` was given."""
    with pa.ipc.open_stream(payload) as reader:
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield Packed(batch, json.loads(metadata[_METADATA_KEY]))


def cut_by_key(batch: pa.RecordBatch, on: Sequence[str], partitions: int) -> dict[int, pa.RecordBatch]:
    """Cuts a batch into partitions by the hash of its key columns; rows keep their order; nulls hash as one value."""
    hashes = hashing.hash_rows([batch.column(name) for name in on], PARTITION_SEED)
    numbers = (hashes % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=partitions)
    grouped = batch.take(pa.array(order))
    starts = np.cumsum(sizes) - sizes
    return {partition: grouped.slice(int(starts[partition]), int(size)) for partition, size in enumerate(sizes) if size}


def send_right(piece: Piece, on: Sequence[str], partitions: int) -> Parcel:
    """Sends the right rows of a piece to their partitions; they sort before the left ones."""
    parts = cut_by_key(piece.batch, on, partitions)
    return Parcel(
        (0, piece.range_number, piece.part),
        {partition: pack([Packed(batch, {"side": "right"})]) for partition, batch in parts.items()},
    )


def send_left(piece: Piece, on: Sequence[str], partitions: int) -> Parcel:
    """Sends the left rows of a piece to their partitions, each with its place in the piece."""
    places = pa.array(np.arange(piece.batch.num_rows))
    batch = pa.RecordBatch.from_arrays([places, *piece.batch.columns], schema=pa.schema([_PLACE, *piece.batch.schema]))
    about = {"side": "left", "range": piece.range_number, "part": piece.part}
    parts = cut_by_key(batch, on, partitions)
    return Parcel(
        (1, piece.range_number, piece.part),
        {partition: pack([Packed(part, about)]) for partition, part in parts.items()},
    )


def send_account(piece: Piece) -> Parcel:
    """Sends the account of a piece to its range; accounts sort before rows."""
    about = {
        "part": piece.part,
        "counts": dict(piece.counts),
        "rejected": piece.rejected,
        "crc32c": piece.crc32c,
        "path": piece.path,
    }
    empty = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return Parcel((0, piece.range_number, piece.part), {piece.range_number: pack([Packed(empty, about)])})


def join_partition(delivery: Delivery, step: JoinStep, flush_bytes: int = FLUSH_BYTES) -> Iterator[Parcel]:
    """Joins the rows of one partition.

    Yields:
      The joined rows for their ranges, in parcels of about ``flush_bytes``.
    """
    right: list[pa.RecordBatch] = []
    index = None
    waiting: dict[int, list[Packed]] = {}
    waiting_bytes = flushes = 0
    for batch, about in (packed for payload in delivery.payloads() for packed in unpack(payload)):
        if about["side"] == "right":
            right.append(batch)
            continue
        if index is None:
            index = build_index(pa.Table.from_batches(right, step.source_plan.schema), step.right_on, step.added)
            right.clear()
        joined, counts = join_batch(batch, index, step.left_on, step.join.how, step.number)
        waiting.setdefault(about["range"], []).append(Packed(joined, {"part": about["part"], "counts": counts}))
        waiting_bytes += joined.nbytes
        if waiting_bytes > flush_bytes:
            yield _joined_parcel(delivery.partition, flushes, waiting)
            waiting, waiting_bytes, flushes = {}, 0, flushes + 1
    if waiting:
        yield _joined_parcel(delivery.partition, flushes, waiting)


def _joined_parcel(partition: int, flush: int, waiting: Mapping[int, Sequence[Packed]]) -> Parcel:
    return Parcel((1, partition, flush), {number: pack(batches) for number, batches in waiting.items()})


def restore_range(delivery: Delivery, step: JoinStep) -> Iterator[Piece]:
    """Puts the joined rows of one range back into their pieces.

    Yields:
      The range's pieces in order, accounts and all; one without rows as well.
    """
    accounts: dict[int, Mapping[str, Any]] = {}
    joined: dict[int, list[Packed]] = {}
    for packed in (packed for payload in delivery.payloads() for packed in unpack(payload)):
        part = packed.about["part"]
        if "path" in packed.about:
            accounts[part] = packed.about
        else:
            joined.setdefault(part, []).append(packed)
    for part in sorted(accounts):
        yield _restore_piece(delivery.partition, accounts[part], joined.pop(part, []), step)


def _restore_piece(range_number: int, account: Mapping[str, Any], joined: Sequence[Packed], step: JoinStep) -> Piece:
    counts = add_counts(account["counts"], dict.fromkeys(count_names(step.join.how, step.number), 0))
    for packed in joined:
        counts = add_counts(counts, packed.about["counts"])
    rejected = tuple(Rejected(*row) for row in account["rejected"])
    batch = _in_order([packed.batch for packed in joined], step.schema)
    return Piece(range_number, account["part"], batch, counts, rejected, account["crc32c"], account["path"])


def _in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows by their places, which are left out; rows of one place keep their order."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    batch = table_batch(pa.Table.from_batches(batches))
    order = np.argsort(batch.column(0).to_numpy(), kind="stable")
    return pa.RecordBatch.from_arrays(batch.take(pa.array(order)).columns[1:], schema=schema)
