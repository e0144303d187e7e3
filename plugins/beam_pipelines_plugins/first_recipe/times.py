"""Columns of numbers that are times, as columns of timestamps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis import epochs
from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile

_MICROSECONDS = 10**6


class DerivedTime(NamedTuple):
    """The times of a column of numbers.

    Attributes:
      number: the column of numbers.
      unit: of the numbers, as ``unit_of`` returns it.
      sql: the expression that makes times of it.
      column: the profile of the times, under their name.
      reason: one line.
    """

    number: str
    unit: str
    sql: str
    column: ColumnProfile
    reason: str

    def of(self, rows: pa.Table) -> pa.Table:
        """Returns rows with the times as one more column."""
        return rows.append_column(self.column.name, _moments(rows.column(self.number), self.unit))


def derive_times(columns: Sequence[ColumnProfile]) -> dict[str, DerivedTime]:
    """Returns column -> its times, for each column that has some."""
    taken = [column.name for column in columns]
    found = {}
    for column in columns:
        if not column.distinct or not (column.is_integer or pa.types.is_floating(column.type)):
            continue
        low, high = column.range
        unit = epochs.unit_of(column.name, low, high, column.values.to_numpy())
        if unit is None:
            continue
        times = _moments(column.values, unit)
        is_time = times.is_valid()
        counts = column.counts[is_time.to_numpy(zero_copy_only=False)]
        made = dataclasses.replace(
            column,
            name=epochs.time_name(column.name, taken),
            type=times.type,
            nulls=column.rows - int(counts.sum()),
            values=times.filter(is_time),
            counts=counts,
            skewness=0.0,
            is_key=False,
        )
        reason = f"{unit} since 1970, {epochs.show_ends(low, high, unit)}"
        sql = epochs.time_sql(column.name, unit)
        found[column.name] = DerivedTime(column.name, unit, sql, made, reason)
    return found


def _moments(numbers: pa.Array | pa.ChunkedArray, unit: str) -> pa.Array | pa.ChunkedArray:
    floats = numbers.cast(pa.float64(), safe=False)
    if unit.endswith(epochs.OR_ZERO):
        floats = pc.if_else(pc.equal(floats, 0), None, floats)
    micros = pc.round(pc.multiply(epochs.seconds_of(floats, unit), float(_MICROSECONDS)))
    return micros.cast(pa.int64(), safe=False).cast(pa.timestamp("us"))
