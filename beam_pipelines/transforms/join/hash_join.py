"""Joins by hash: an index of keys, whole or by partition.

Keys compare as in DuckDB's joins: a null in any key column matches nothing, not even another null;
NaN equals NaN; -0.0 equals 0.0. The index finds candidates by a 64-bit hash, and compares their
values. A join with times has the rows of each key in their order, and a search narrows the matches
of a left row to those that it sees (``transforms/join/timed.py``).

In partitions, rows with one key go to one of them, as Arrow IPC payloads of an exchange. Right rows
come first and are indexed; left rows probe the index. If a partition has too many right rows,
because many have one key, they are indexed in parts; with times, they are indexed whole. A second
exchange sends the joined rows back to their range, where they get the order and the chunks that
they had. So the result equals that of one index, byte for byte. The chunks' row counts go straight
into the second exchange. Memory holds at a time: ``RIGHT_BYTES`` of right rows, ``FLUSH_BYTES`` of
joined rows, and the joined rows of one range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.arrow.ipc import PackedBatch, pack, unpack
from beam_pipelines.core.arrow.key_index import (
    NO_KEY,
    KeyIndex,
    Rows,
    all_valid,
    find_keys,
    index_keys,
)
from beam_pipelines.core.chunks import Chunk, add_counts
from beam_pipelines.recipe.joins import Join, JoinHow
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.join.plan import JoinStep
from beam_pipelines.transforms.join.timed import (
    TimeOrder,
    check_ties,
    count_ages,
    microseconds,
    order_by_time,
    see,
)
from beam_pipelines.transforms.join.windows import (
    Ranges,
    WindowIndex,
    columns_of,
    make_features,
)
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
# int64[n]: for each left row of a batch, how many right rows it matches.
Matches = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class JoinIndex:
    """The right side of a join, ready to be probed.

    Attributes:
      keys: its key columns.
      added: the columns that the join adds, under their names in the result; n rows.
      order: the times of its rows, of a join with times.
      windows: the rows of windows, whose columns ``added`` lacks.
    """

    keys: KeyIndex
    added: pa.RecordBatch
    order: TimeOrder | None = None
    windows: WindowIndex | None = None


def table_batch(table: pa.Table) -> pa.RecordBatch:
    """Returns the table as one batch."""
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )


def build_index(table: pa.Table, join: Join, added: Sequence[tuple[str, str]]) -> JoinIndex:
    """Indexes the right side of a join.

    Args:
      table: the rows; several matches of a left row are in their order.
      join: of the recipe.
      added: (column of the table, its name in the result).
    """
    batch, timed = table_batch(table), join.timed
    if timed is not None and batch.column(timed.right).null_count:
        batch = batch.filter(batch.column(timed.right).is_valid())
    fields = [table.schema.field(name).with_name(result) for name, result in added]
    columns = pa.RecordBatch.from_arrays(
        [batch.column(name) for name, _ in added], schema=pa.schema(fields)
    )
    keys = index_keys([batch.column(name) for name in join.right_on])
    if timed is None:
        return JoinIndex(keys, columns)
    keys, order = order_by_time(keys, batch, timed)
    if not join.features:
        return JoinIndex(keys, columns, order)
    rows = take_rows(batch.select(columns_of(join.parsed)), keys.rows)
    return JoinIndex(keys, columns, order, WindowIndex(keys.starts, rows))


def count_names(how: JoinHow, number: int) -> tuple[str, ...]:
    """Returns the names of the counts of join ``number``.

    They count left rows with a match, left rows without, added rows, and left rows whose key is
    null.
    """
    matched, unmatched = {
        "left": ("matched", "unmatched"),
        "anti": ("dropped", "unmatched"),
    }.get(how, ("matched", "dropped"))
    return tuple(f"{name}/{number}" for name in (matched, unmatched, "added", "null_keys"))


def count_null_keys(batch: pa.RecordBatch, on: Sequence[str]) -> int:
    """Returns the rows with a null in a key column."""
    return int(np.count_nonzero(~all_valid([batch.column(name) for name in on])))


def join_batch(
    batch: pa.RecordBatch, index: JoinIndex, join: Join, number: int = 0
) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Joins a batch with the indexed table.

    Args:
      batch: the left side.
      index: of the join; its key columns have the types of the batch's.
      join: of the recipe.
      number: of the join in the recipe, for the names of the counts.

    Returns:
      The left columns and the added ones: rows in the batch's order, several matches of a row in
        the table's order; and the counts of ``chunks.Chunk`` for this join.

    Raises:
      DataError: as ``timed.check_ties`` does.
    """
    lows, highs, ages = find_matches(batch, index, join)
    matches = highs - lows if join.window is None else np.minimum(highs - lows, 1)
    if join.adds_columns:
        left_rows, places = _pair_rows(lows, matches, join.how)
    else:
        left_rows, places = np.flatnonzero((matches > 0) == (join.how == "semi")), lows[:0]
    left = batch if left_rows is None else take_rows(batch, left_rows)
    if join.window is not None:
        kept = slice(None) if left_rows is None else left_rows
        right = _features(left, index, join, (lows[kept], highs[kept]))
    else:
        if index.order is not None:
            check_ties(left, index.order, places, join)
        right_rows = index.keys.rows[places] if len(index.keys.rows) else places
        right = index.added.take(pa.array(right_rows, mask=places < 0))
    schema = pa.schema([*left.schema, *right.schema])
    joined = pa.RecordBatch.from_arrays(left.columns + right.columns, schema=schema)
    return joined, _counts(batch, matches, join, number) | count_ages(ages, number)


def _features(
    left: pa.RecordBatch, index: JoinIndex, join: Join, seen: tuple[Matches, Matches]
) -> pa.RecordBatch:
    """Returns the features of the left rows' windows."""
    if index.order is None or index.windows is None:
        return pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    keys = np.searchsorted(index.keys.starts, seen[0], side="right") - 1
    at = microseconds(left.column(index.order.timed.left))
    ranges = Ranges(keys, *seen)
    arrays = make_features(index.windows, ranges, at, index.order.times, join)
    return pa.RecordBatch.from_arrays(list(arrays), names=list(join.parsed))


def _counts(batch: pa.RecordBatch, matches: Matches, join: Join, number: int) -> dict[str, int]:
    matched = int(np.count_nonzero(matches))
    added = int(matches.sum()) - matched if join.adds_columns else 0
    counts = matched, len(matches) - matched, added, count_null_keys(batch, join.left_keys)
    return dict(zip(count_names(join.how, number), counts, strict=True))


def find_matches(
    batch: pa.RecordBatch, index: JoinIndex, join: Join
) -> tuple[Matches, Matches, Matches]:
    """Returns the matches of each left row.

    Returns:
      int64[n]: begin and end of its matches in ``index.keys.rows``; and the ages in microseconds of
        the newest match of rows that have one, if the join has times.
    """
    keys = find_keys(index.keys, [batch.column(name) for name in join.left_on])
    starts = index.keys.starts
    lows = np.where(keys == NO_KEY, 0, starts[keys])
    highs = np.where(keys == NO_KEY, 0, starts[keys + 1])
    if index.order is None:
        return lows, highs, lows[:0]
    return see(index.order, lows, highs, batch, join)


def _pair_rows(lows: Rows, matches: Rows, how: JoinHow) -> tuple[Rows | None, Rows]:
    """Returns the left rows, and the place of each match or -1.

    Left rows are ``None`` if each occurs once, in order.
    """
    copies = np.maximum(matches, 1) if how == "left" else matches
    places = np.where(matches > 0, lows, -1)
    if np.all(copies == 1):
        return None, places
    left_rows = np.repeat(np.arange(len(lows)), copies)
    ends = np.cumsum(copies)
    nth = np.arange(len(left_rows)) - np.repeat(ends - copies, copies)
    return left_rows, places[left_rows] + nth


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
    matches: dict[tuple[int, int], Matches] = {}
    for index, is_only in _indexes(received, step, right_bytes):
        for batch, about in _rows_of(received, _LEFT):
            if is_only:
                joined, counts = join_batch(batch, index, join, number)
                yield about["range"], PackedBatch(joined, {"part": about["part"], "counts": counts})
                continue
            address = (about["range"], about["part"])
            lows, highs, _ = find_matches(batch, index, join)
            matches[address] = matches.get(address, 0) + highs - lows
            if not join.adds_columns:
                continue
            joined, _ = join_batch(batch, index, dataclasses.replace(join, how="inner"))
            if joined.num_rows:
                yield about["range"], PackedBatch(joined, {"part": about["part"], "counts": {}})
    if not matches:
        return
    # At last: the counts, and rows that no index had a match for, or of a semi join any.
    none = build_index(pa.Table.from_batches([], step.right_schema), join, step.added)
    for batch, about in _rows_of(received, _LEFT):
        found = matches[about["range"], about["part"]]
        counts = _counts(batch, found, join, number)
        rows = batch.filter(pa.array((found > 0) == (join.how == "semi")))
        if join.how != "semi":
            rows, _ = join_batch(rows, none, join)
        yield about["range"], PackedBatch(rows, {"part": about["part"], "counts": counts})


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
        return build_index(pa.Table.from_batches(right, step.right_schema), step.join, step.added)

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
    partition: int, flush: int, waiting: Mapping[int, Sequence[PackedBatch]]
) -> Message:
    return Message(
        (1, partition, flush), {number: pack(batches) for number, batches in waiting.items()}
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
        counts = dict.fromkeys(count_names(step.join.how, step.number), 0)
        for added in (counted[part].counts, *(packed.about["counts"] for packed in own)):
            counts = add_counts(added, counts)
        batch = _in_order([packed.batch for packed in own], step.schema)
        yield counted[part]._replace(batch=batch, counts=counts)


def _in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in order of their places, without the places.

    Rows of one place keep their order.
    """
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    batch = table_batch(pa.Table.from_batches(batches))
    order = np.argsort(batch.column(0).to_numpy(), kind="stable")
    return take_rows(batch, order).select(batch.schema.names[1:])
