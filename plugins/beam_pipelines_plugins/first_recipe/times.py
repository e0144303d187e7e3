"""Columns of numbers that are times, as columns of timestamps."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis import epochs
from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile, profile_column
from beam_pipelines_plugins.first_recipe.joins import Side

_MICROSECONDS = 10**6


class DerivedTime(NamedTuple):
    """The times of a column of numbers.

    Attributes:
      number: the column of numbers.
      name: of the times.
      unit: of the numbers, as ``unit_of`` returns it.
      reason: one line.
    """

    number: str
    name: str
    unit: str
    reason: str

    @property
    def sql(self) -> str:
        """The expression that makes times of the numbers."""
        return epochs.time_sql(self.number, self.unit)


def with_times(side: Side, prefix: str = "") -> tuple[Side, list[DerivedTime]]:
    """Returns a side with times in place of numbers, and these times.

    Args:
      side: sampled rows.
      prefix: of its columns in joined rows.
    """
    rows, columns, times = side.rows, dict[str, ColumnProfile](), list[DerivedTime]()
    for name, column in side.columns.items():
        columns[name] = column
        if not column.distinct or not (column.is_integer or pa.types.is_floating(column.type)):
            continue
        low, high = column.range
        unit = epochs.unit_of(name, low, high, column.values.to_numpy())
        if unit is None:
            continue
        reason = f"{unit} since 1970, {epochs.show_ends(low, high, unit)}"
        made, found = epochs.time_name(name, rows.column_names), _moments(rows.column(name), unit)
        rows = rows.set_column(rows.column_names.index(name), made, found)
        del columns[name]
        columns[made] = profile_column(made, found)
        times.append(DerivedTime(prefix + name, prefix + made, unit, reason))
    return side._replace(columns=columns, rows=rows), times


def _moments(numbers: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    floats = numbers.cast(pa.float64(), safe=False)
    floats = pc.if_else(pc.is_finite(floats), floats, None)
    if unit.endswith(epochs.OR_ZERO):
        floats = pc.if_else(pc.equal(floats, 0), None, floats)
    micros = pc.round(pc.multiply(epochs.seconds_of(floats, unit), float(_MICROSECONDS)))
    return micros.cast(pa.int64(), safe=False).cast(pa.timestamp("us"))
