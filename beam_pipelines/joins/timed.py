"""Rows of a key by time, and those that a row sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.hashing import canonical_bits
from beam_pipelines.core.arrow.key_index import KeyIndex, Rows
from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.errors import DataError, Problem, nearest_column
from beam_pipelines.recipe.joins import AsOf, Join, Window
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sql.database import identifier

_DAY = 86_400_000_000
_LEAST = np.iinfo(np.int64).min


@dataclasses.dataclass(frozen=True)
class TimeOrder:
    """The times of an index' rows, in its order.

    Attributes:
      timed: names of the time columns.
      rows: int64[n], the rows of the table, in the index' order.
      given: int64[n], microseconds, in the table's order.
      times: int64[n], the same in the index' order; ascending within a key.
      is_tie: bool[n], whether a row has the key, time and tie of the one before it.
    """

    timed: AsOf | Window
    rows: Rows
    given: Rows
    times: Rows
    is_tie: npt.NDArray[np.bool_]


def microseconds(times: pa.Array) -> Rows:
    """Returns int64[n] of dates or timestamps.

    Null slots are undefined.
    """
    return canonical_bits(times) * (_DAY if pa.types.is_date(times.type) else 1)


def order_by_time(
    index: KeyIndex, table: pa.RecordBatch, timed: AsOf | Window
) -> tuple[KeyIndex, TimeOrder]:
    """Orders the rows of each key by time, then by ``tie``.

    Args:
      index: of the rows.
      table: the rows; their times have no nulls, and nulls of ``tie`` come first.
      timed: names of the columns.
    """
    rows = index.rows
    numbers = np.repeat(np.arange(len(index.hashes)), np.diff(index.starts))
    moments = microseconds(table.column(timed.right))
    by = [moments]
    if timed.tie is not None:
        tie = table.column(timed.tie)
        ranks = pc.rank(tie, tiebreaker="dense").to_numpy().astype(np.int64)
        by.append(np.where(tie.is_valid().to_numpy(zero_copy_only=False), ranks, 0))
    order = np.lexsort([*(each[rows] for each in reversed(by)), numbers])
    rows = rows[order]
    is_same = np.diff(numbers) == 0
    for each in by:
        is_same &= np.diff(each[rows]) == 0
    is_tie = np.append(np.zeros(min(1, len(rows)), np.bool_), is_same)
    return dataclasses.replace(index, rows=rows), TimeOrder(
        timed, rows, moments, moments[rows], is_tie
    )


def first_not_before(times: Rows, lows: Rows, highs: Rows, at: Rows) -> Rows:
    """Returns int64[m]: each range's first place that is not before ``at``.

    Args:
      times: int64[n], ascending within a range.
      lows, highs: int64[m], ranges of ``times``; the end of a range if all are before.
      at: int64[m].
    """
    lows, highs = lows.copy(), highs.copy()
    open_ = np.flatnonzero(lows < highs)
    while len(open_):
        middles = (lows[open_] + highs[open_]) >> 1
        is_before = times[middles] < at[open_]
        lows[open_[is_before]] = middles[is_before] + 1
        highs[open_[~is_before]] = middles[~is_before]
        open_ = open_[lows[open_] < highs[open_]]
    return lows


def see(
    order: TimeOrder, lows: Rows, highs: Rows, batch: pa.RecordBatch, join: Join
) -> tuple[Rows, Rows]:
    """Narrows ranges to rows that are neither later nor too old.

    Args:
      order: of the index.
      lows, highs: int64[m], the ranges of the keys; of an as-of join, the newest row remains.
      batch: the left rows; at a time of null no row is seen.
      join: of the recipe, with times.

    Raises:
      DataError: a row of the future would be seen, which never happens.
    """
    times = batch.column(order.timed.left)
    at = microseconds(times)
    end = at + order.timed.exact
    highs = first_not_before(order.times, lows, highs, end)
    if join.reach is not None:
        begin = np.maximum(at, _LEAST + join.reach) - join.reach
        lows = first_not_before(order.times, lows, highs, begin)
    if times.null_count:
        highs = np.where(times.is_valid().to_numpy(zero_copy_only=False), highs, lows)
    found = np.flatnonzero(lows < highs)
    # The table's own times: the check does not trust the order that the search needs.
    newest = order.given[order.rows[highs[found] - 1]]
    if np.any(newest >= end[found]):
        raise DataError(
            f"join with '{join.source}': a row of the future was found for "
            f"{np.count_nonzero(newest >= end[found]):,} rows, expected none. Nothing was written; "
            "report it."
        )
    if join.as_of is not None:
        lows = np.maximum(lows, highs - 1)
    return lows, highs


def check_ties(
    batch: pa.RecordBatch, order: TimeOrder, added: pa.RecordBatch, picked: Rows, join: Join
) -> None:
    """Checks that one row of the source is the newest.

    Equal rows, such as events that are logged twice, count as one.

    Args:
      batch: left rows.
      order: of the index.
      added: the columns that rows of the index add, in the table's order.
      picked: int64[m], the place of each left row's match, or -1.
      join: of the recipe.

    Raises:
      DataError: names key and time of the first row with several.
    """
    matched = np.flatnonzero(picked >= 0)
    wrong = matched[order.is_tie[picked[matched]]]
    if len(wrong) and added.num_columns:
        wrong = wrong[_differs(order, added)[picked[wrong]]]
    if not len(wrong):
        return
    timed, row, place = order.timed, int(wrong[0]), int(picked[wrong[0]])
    shown = ", ".join(f"{right}={python_value(batch[left], row)!r}" for left, right in join.on)
    time = np.datetime64(int(order.times[place]), "us")
    tie = f" and equal '{timed.tie}'" if timed.tie else ""
    raise DataError(
        f"join with '{join.source}': found several rows with {shown}, '{timed.right}' {time}{tie}, "
        f"expected one newest row for that at {python_value(batch[timed.left], row)}. Name a "
        "column that orders them, as 'tie: version' in 'as_of', or remove the repeated rows."
    )


def _differs(order: TimeOrder, added: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Returns bool[n]: whether a row is tied with another one before it."""
    hashes = _native.hash_rows(added.columns, 0)[order.rows]
    others = np.cumsum(order.is_tie & np.append(hashes[:1] != hashes[:1], np.diff(hashes) != 0))
    firsts = np.where(order.is_tie, 0, np.arange(len(hashes)))
    differs: npt.NDArray[np.bool_] = others > others[np.maximum.accumulate(firsts)]
    return differs


def time_problems(
    path: tuple[str | int, ...], join: Join, left: pa.Schema, right: pa.Schema
) -> Iterator[Problem]:
    """Yields the problems of a join's time columns.

    Args:
      path: of the times in the recipe.
      join: of the recipe.
      left: the rows so far.
      right: the columns of its source.
    """
    timed = join.timed
    if timed is None:
        return
    sides = {"left": (timed.left, left), "right": (timed.right, right), "tie": (timed.tie, right)}
    types = {}
    for key, (name, schema) in sides.items():
        if name is None:
            continue
        if name not in schema.names:
            of = "so far" if key == "left" else f"of source '{join.source}'"
            hint = nearest_column(name, schema.names)
            yield Problem((*path, key), f"found '{name}', expected one of the columns {of}.{hint}")
        elif message := _type_problem(key, name, schema.field(name).type):
            yield Problem((*path, key), message)
        else:
            types[key] = schema.field(name).type
    if {"left", "right"} <= types.keys() and types["left"] != types["right"]:
        yield Problem(path, _differ(join.source, timed, types["left"], types["right"]))


def _type_problem(key: str, name: str, type_: pa.DataType) -> str:
    """Returns what is wrong with a column's type, or ""."""
    shown = columns.type_name(type_)
    if key == "tie":
        return f"column '{name}' is {shown}, expected no list." if columns.is_list(type_) else ""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return ""
    made, sql = "seconds since 1970", f"make_timestamp({identifier(name)} * 1000000)"
    if pa.types.is_string(type_):
        made, sql = "texts like 31.12.2025", f"strptime({identifier(name)}, '%d.%m.%Y')"
    return (
        f"column '{name}' is {shown}, expected a date or a timestamp. Declare it in 'types' of its "
        f"source, or make one there and name it here; of {made} by "
        f"'derive: {{{yaml_text(f'{name}_time')}: {yaml_text(sql)}}}'."
    )


def _differ(source: str, timed: AsOf | Window, left: pa.DataType, right: pa.DataType) -> str:
    """Returns the problem of times of two types, with its remedy."""
    named = ((timed.left, left), (timed.right, right))
    is_zoned = any(getattr(type_, "tz", None) for type_ in (left, right))
    name, type_ = next(
        (name, type_)
        for name, type_ in named
        if (not getattr(type_, "tz", None) if is_zoned else pa.types.is_date(type_))
    )
    why = "A time without a zone is neither before nor after one with a zone. " if is_zoned else ""
    sql = identifier(name) + "::TIMESTAMP" * pa.types.is_date(type_)
    sql = yaml_text(f"timezone('UTC', {sql})" if is_zoned else sql)
    shown = [f"'{name}' is {columns.type_name(type_)}" for name, type_ in named]
    return (
        f"{shown[0]} and {shown[1]} of source '{source}', expected the same type. {why}Add "
        f"'derive: {{{yaml_text(f'{name}_time')}: {sql}}}' to the source of '{name}', and name "
        "that column here."
    )
