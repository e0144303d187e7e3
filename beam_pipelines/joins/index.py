"""Joins of a batch with an index of the right side's rows.

Keys compare as in DuckDB's joins: a null in any key column matches nothing, not even another null;
NaN equals NaN; -0.0 equals 0.0. The index finds candidates by a 64-bit hash, and compares their
values. A join with times has the rows of each key in their order, and a search narrows the matches
of a left row to those that it sees (``joins/timed.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow import key_index
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.joins import timed as timed_joins
from beam_pipelines.joins.windows import Ranges, WindowIndex, columns_of, make_features
from beam_pipelines.recipe.joins import Join, JoinHow

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

    keys: key_index.KeyIndex
    added: pa.RecordBatch
    order: timed_joins.TimeOrder | None = None
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
    keys = key_index.index_keys([batch.column(name) for name in join.right_on])
    if timed is None:
        return JoinIndex(keys, columns)
    keys, order = timed_joins.order_by_time(keys, batch, timed)
    if not join.features:
        return JoinIndex(keys, columns, order)
    rows = take_rows(batch.select(columns_of(join.parsed)), keys.rows)
    return JoinIndex(keys, columns, order, WindowIndex(keys.starts, rows))


def count_names(how: JoinHow, number: int) -> tuple[str, ...]:
    """Returns the names of the counts of join ``number``.

    They count left rows with a match, left rows without, added rows, and left rows whose key is
    null.
    """
    known = {"left": ("matched", "unmatched"), "anti": ("dropped", "unmatched")}
    matched, unmatched = known.get(how, ("matched", "dropped"))
    return tuple(f"{name}/{number}" for name in (matched, unmatched, "added", "null_keys"))


def count_null_keys(batch: pa.RecordBatch, on: Sequence[str]) -> int:
    """Returns the rows with a null in a key column."""
    return int(np.count_nonzero(~key_index.all_valid([batch.column(name) for name in on])))


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
    lows, highs = find_matches(batch, index, join)
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
            timed_joins.check_ties(left, index.order, index.added, places, join)
        right_rows = index.keys.rows[places] if len(index.keys.rows) else places
        right = index.added.take(pa.array(right_rows, mask=places < 0))
    schema = pa.schema([*left.schema, *right.schema])
    joined = pa.RecordBatch.from_arrays(left.columns + right.columns, schema=schema)
    return joined, count_rows(batch, matches, join, number)


def _features(
    left: pa.RecordBatch, index: JoinIndex, join: Join, seen: tuple[Matches, Matches]
) -> pa.RecordBatch:
    """Returns the features of the left rows' windows."""
    if index.order is None or index.windows is None:
        return pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    keys = np.searchsorted(index.keys.starts, seen[0], side="right") - 1
    at = timed_joins.microseconds(left.column(index.order.timed.left))
    ranges = Ranges(keys, *seen)
    arrays = make_features(index.windows, ranges, at, index.order.times, join)
    return pa.RecordBatch.from_arrays(list(arrays), names=list(join.parsed))


def count_rows(batch: pa.RecordBatch, matches: Matches, join: Join, number: int) -> dict[str, int]:
    """Returns the counts of ``count_names`` for a batch."""
    matched = int(np.count_nonzero(matches))
    added = int(matches.sum()) - matched if join.adds_columns else 0
    counts = matched, len(matches) - matched, added, count_null_keys(batch, join.left_keys)
    return dict(zip(count_names(join.how, number), counts, strict=True))


def find_matches(batch: pa.RecordBatch, index: JoinIndex, join: Join) -> tuple[Matches, Matches]:
    """Returns the matches of each left row.

    Returns:
      int64[n]: begin and end of its matches in ``index.keys.rows``.
    """
    keys = key_index.find_keys(index.keys, [batch.column(name) for name in join.left_on])
    starts = index.keys.starts
    lows = np.where(keys == key_index.NO_KEY, 0, starts[keys])
    highs = np.where(keys == key_index.NO_KEY, 0, starts[keys + 1])
    if index.order is None:
        return lows, highs
    return timed_joins.see(index.order, lows, highs, batch, join)


def _pair_rows(
    lows: key_index.Rows, matches: key_index.Rows, how: JoinHow
) -> tuple[key_index.Rows | None, key_index.Rows]:
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
