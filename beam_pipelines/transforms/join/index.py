"""Indexes a table by key columns, and joins a batch with it.

Keys compare as in DuckDB's joins: a null in any key column matches nothing, not even another null;
NaN equals NaN; -0.0 equals 0.0. The index finds candidates by a 64-bit hash, and compares their
values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.core.columns import take_rows
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.key_index import NO_KEY, KeyIndex, Rows, all_valid, find_keys, index_keys
from beam_pipelines.core.python_values import python_value
from beam_pipelines.recipe.model import JoinHow


@dataclasses.dataclass(frozen=True)
class JoinIndex:
    """The right side of a join, ready to be probed.

    Attributes:
      keys: its key columns.
      added: the columns that the join adds, under their names in the result; n rows.
    """

    keys: KeyIndex
    added: pa.RecordBatch


def table_batch(table: pa.Table) -> pa.RecordBatch:
    """Returns the table as one batch."""
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )


def build_index(table: pa.Table, on: Sequence[str], added: Sequence[tuple[str, str]]) -> JoinIndex:
    """Indexes the right side of a join.

    Args:
      table: the rows; several matches of a left row are in their order.
      on: the key columns.
      added: (column of the table, its name in the result).
    """
    batch = table_batch(table)
    fields = [table.schema.field(name).with_name(result) for name, result in added]
    columns = pa.RecordBatch.from_arrays(
        [batch.column(name) for name, _ in added], schema=pa.schema(fields)
    )
    return JoinIndex(index_keys([batch.column(name) for name in on]), columns)


def count_names(how: JoinHow, number: int) -> tuple[str, str, str, str]:
    """Returns the names of the counts of join ``number``.

    They count left rows with a match, left rows without, added rows, and left rows whose key is
    null.
    """
    return (
        f"matched/{number}",
        f"{'unmatched' if how == 'left' else 'dropped'}/{number}",
        f"added/{number}",
        f"null_keys/{number}",
    )


def count_null_keys(batch: pa.RecordBatch, on: Sequence[str]) -> int:
    """Returns the rows with a null in a key column."""
    valid = int(np.count_nonzero(all_valid([batch.column(name) for name in on])))
    rows: int = batch.num_rows
    return rows - valid


def join_batch(
    batch: pa.RecordBatch, index: JoinIndex, on: Sequence[str], how: JoinHow, number: int = 0
) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Joins a batch with the indexed table.

    Args:
      batch: the left side.
      on: its key columns, of the same types as the index's, in their order.
      how: ``left`` keeps rows without match, with nulls; ``inner`` drops them.
      number: of the join in the recipe, for the names of the counts.

    Returns:
      The left columns and the added ones: rows in the batch's order, several matches of a row in
        the table's order; and the counts of ``chunks.Chunk`` for this join.
    """
    keys = find_keys(index.keys, [batch.column(name) for name in on])
    matches = _matches(index.keys, keys)
    left_rows, right_rows = _pair_rows(index.keys, keys, matches, how)
    left = batch if left_rows is None else take_rows(batch, left_rows)
    right = index.added.take(pa.array(right_rows, mask=right_rows < 0))
    joined = pa.RecordBatch.from_arrays(
        left.columns + right.columns, schema=joined_schema(left.schema, right.schema)
    )
    counts = (*summed_matches(matches), count_null_keys(batch, on))
    return joined, dict(zip(count_names(how, number), counts, strict=True))


def count_matches(batch: pa.RecordBatch, index: JoinIndex, on: Sequence[str]) -> Rows:
    """Returns int64[n]: the number of right rows that each left row matches."""
    return _matches(index.keys, find_keys(index.keys, [batch.column(name) for name in on]))


def summed_matches(matches: Rows) -> tuple[int, int, int]:
    """Returns the rows with a match, without one, and further matches."""
    matched = int(np.count_nonzero(matches))
    return matched, len(matches) - matched, int(matches.sum()) - matched


def _matches(index: KeyIndex, keys: Rows) -> Rows:
    matches: Rows = np.where(keys == NO_KEY, 0, np.diff(index.starts, append=0)[keys])
    return matches


def joined_schema(left: pa.Schema, added: pa.Schema) -> pa.Schema:
    """Returns the columns of the left side and then the added ones."""
    return pa.schema([*left, *added])


def _pair_rows(
    index: KeyIndex, keys: Rows, matches: Rows, how: JoinHow
) -> tuple[Rows | None, Rows]:
    """Returns the left rows, and the right row of each or -1.

    Left rows are ``None`` if each occurs once, in order.
    """
    copies = np.maximum(matches, 1) if how == "left" else matches
    firsts = np.where(matches > 0, index.starts[keys], 0)
    left_rows = None
    if np.any(copies != 1):
        left_rows = np.repeat(np.arange(len(keys)), copies)
        ends = np.cumsum(copies)
        nth = np.arange(len(left_rows)) - np.repeat(ends - copies, copies)
        firsts, matches = firsts[left_rows] + nth, matches[left_rows]
    right_rows = np.full(len(firsts), -1, np.int64)
    found = matches > 0
    right_rows[found] = index.rows[firsts[found]]
    return left_rows, right_rows


def check_unique(
    index: KeyIndex, table: Mapping[str, pa.Array] | pa.RecordBatch, key: Sequence[str], where: str
) -> int:
    """Checks that no key of the index has two rows.

    Args:
      index: over the columns ``key`` of ``table``.
      table: to show a repeated key.
      key: the columns that are declared unique.
      where: the source, for the message.

    Returns:
      The number of keys. Rows with a null in a key column match nothing, and are not counted.

    Raises:
      DataError: shows the first repeated key in the table, and its number of rows.
    """
    counts = np.diff(index.starts)
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        worst = repeated[np.argmin(index.rows[index.starts[repeated]])]
        row = int(index.rows[index.starts[worst]])
        shown = ", ".join(f"{name}={python_value(table[name], row)!r}" for name in key)
        others = (
            f" (and {len(repeated) - 1} more keys occur more than once)"
            if len(repeated) > 1
            else ""
        )
        raise DataError(
            f"{where}: found {shown} {counts[worst]} times{others}, expected once, because the "
            "source declares "
            f"'key: [{', '.join(key)}]'. Remove the repeated rows, or leave 'key' out if several "
            "matches are meant."
        )
    return len(counts)
