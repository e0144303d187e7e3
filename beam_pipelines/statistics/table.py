"""Statistics of a column and of a table: values that are computed per batch and merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.statistics.numeric import NumberStatistics
from beam_pipelines.statistics.text import TextStatistics

Values = NumberStatistics | TextStatistics


@dataclasses.dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column.

    Attributes:
      type: the column's type (``columns.py``).
      present, missing: rows that are not null, and rows that are. An empty list is present.
      min_values, max_values: fewest and most values in a present row; 1 unless the column holds lists; 0 of no rows.
      num_values: values in all rows.
      values: statistics of the values themselves; of lists, of their items.
    """

    type: pa.DataType
    present: int
    missing: int
    min_values: int
    max_values: int
    num_values: int
    values: Values

    @classmethod
    def of(cls, array: pa.Array) -> ColumnStatistics:
        """Returns the statistics of one array. bool, date, time and timestamp count as the integers they are written as."""
        present = len(array) - array.null_count
        shortest = longest = int(present > 0)
        num_values = present
        items = array
        if pa.types.is_list(array.type):
            lengths = pc.list_value_length(array).drop_null().to_numpy()
            num_values = int(lengths.sum())
            shortest, longest = (int(lengths.min()), int(lengths.max())) if present else (0, 0)
            items = array.flatten()
        values = TextStatistics.of(items) if is_text(array.type) else NumberStatistics.of(_numbers(items))
        return cls(array.type, present, array.null_count, shortest, longest, num_values, values)

    @classmethod
    def merged(cls, parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
        """Returns the statistics of all parts' rows together."""
        filled = [part for part in parts if part.present]
        return cls(
            parts[0].type,
            sum(part.present for part in parts),
            sum(part.missing for part in parts),
            min((part.min_values for part in filled), default=0),
            max((part.max_values for part in filled), default=0),
            sum(part.num_values for part in parts),
            _merged_values([part.values for part in parts]),
        )

    @property
    def average_values(self) -> float:
        """Average number of values in a present row; 0 of no rows."""
        return self.num_values / self.present if self.present else 0.0

    @property
    def missing_fraction(self) -> float:
        """Share of rows that are null; 0 of no rows."""
        return self.missing / (self.present + self.missing) if self.missing else 0.0


@dataclasses.dataclass(frozen=True)
class TableStatistics:
    """Statistics of the rows of a table, or of one of its splits.

    Attributes:
      rows: number of rows.
      columns: column name -> its statistics, in the table's order.
    """

    rows: int
    columns: Mapping[str, ColumnStatistics]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> TableStatistics:
        """Returns the statistics of one batch of column types."""
        columns = zip(batch.schema.names, batch.columns, strict=True)
        return cls(batch.num_rows, {name: ColumnStatistics.of(array) for name, array in columns})

    @classmethod
    def empty(cls, schema: pa.Schema) -> TableStatistics:
        """Returns the statistics of no rows."""
        return cls.of(pa.RecordBatch.from_pylist([], schema))

    @classmethod
    def merged(cls, parts: Sequence[TableStatistics]) -> TableStatistics:
        """Returns the statistics of all parts' rows together; at least one part, all with the same columns.

        Counts, moments and extremes are the same to the last bit whatever the order of the parts. So are distinct values, top
        values and distributions while they are exact; beyond their bounds, fix the order to get the same result again.
        """
        if len(parts) == 1:
            return parts[0]
        return cls(
            sum(part.rows for part in parts),
            {name: ColumnStatistics.merged([part.columns[name] for part in parts]) for name in parts[0].columns},
        )

    def merge(self, other: TableStatistics) -> TableStatistics:
        """Returns the statistics of both tables' rows together."""
        return TableStatistics.merged([self, other])


def value_type(column_type: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values: of a list, of its items."""
    return column_type.value_type if pa.types.is_list(column_type) else column_type


def is_text(column_type: pa.DataType) -> bool:
    """Whether a column holds texts or bytes, or lists of them."""
    kind = value_type(column_type)
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _numbers(array: pa.Array) -> pa.Array:
    """Returns the numbers that a column's values are written as: int64, float or double."""
    if pa.types.is_int64(array.type) or pa.types.is_floating(array.type):
        return array
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).cast(pa.int64())
    return array.cast(pa.int64()) if pa.types.is_boolean(array.type) else array.view(pa.int64())


def _merged_values(parts: Sequence[Values]) -> Values:
    if isinstance(parts[0], TextStatistics):
        return TextStatistics.merged([part for part in parts if isinstance(part, TextStatistics)])
    return NumberStatistics.merged([part for part in parts if isinstance(part, NumberStatistics)])
