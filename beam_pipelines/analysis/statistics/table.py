"""Statistics of tables and their slices, computed per batch and merged."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.blocks import Columns, Plain, count_columns
from beam_pipelines.analysis.statistics.column import ColumnStatistics, Weights, as_numbers, is_text
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.core.arrow.columns import empty_batch, take_rows
from beam_pipelines.core.errors import DataError

# Each slice has statistics of its own.
MAX_SLICES = 100


class DataSlice(NamedTuple):
    """The rows that have a value in a column.

    Attributes:
      column: its name.
      value: the value as text; dates and times as the integers that represent them.
    """

    column: str
    value: str

    @property
    def name(self) -> str:
        """The name of the slice's dataset, as TFDV names it: ``column_value``."""
        return f"{self.column}_{self.value}"


def check_number(column: str, number: int) -> None:
    """Checks that a column has few enough slices.

    Raises:
      DataError: it has too many.
    """
    if number > MAX_SLICES:
        raise DataError(
            f"statistics.slice_by, column '{column}': found more than {MAX_SLICES} values, "
            "expected at most so many, because each "
            "has statistics of its own. Leave the column out, or derive one of fewer values."
        )


@dataclasses.dataclass(frozen=True)
class TableStatistics:
    """Statistics of the rows of a table or of one split.

    Attributes:
      rows: number of rows.
      columns: column name -> its statistics, in the table's order.
      weight: sum of the rows' weights; ``None``: they have none.
      slices: slice -> statistics of its rows, which have no slices themselves; ordered.
    """

    rows: int
    columns: Mapping[str, ColumnStatistics]
    weight: float | None = None
    slices: Mapping[DataSlice, TableStatistics] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, batch: pa.RecordBatch, plan: StatisticsPlan | None = None) -> TableStatistics:
        """Returns the statistics of one batch of column types.

        Args:
          batch: rows of all columns.
          plan: of the statistics; by default nothing beyond those of all rows.

        Raises:
          DataError: a row has no weight or a negative one, or there are too many slices.
        """
        plan = plan or StatisticsPlan()
        weights = None if plan.weight is None else _weights(plan.weight, batch.column(plan.weight))
        table = _table(batch, weights, plan, ColumnLimits.of_columns(batch.num_columns))
        limits = ColumnLimits.of_columns(batch.num_columns * MAX_SLICES)
        slices: dict[DataSlice, TableStatistics] = {}
        for column in plan.slice_by:
            for key, rows in _slice_rows(column, batch.column(column)).items():
                slices[key] = _table(
                    take_rows(batch, rows), None if weights is None else weights[rows], plan, limits
                )
        return dataclasses.replace(table, slices={key: slices[key] for key in sorted(slices)})

    @classmethod
    def empty(cls, schema: pa.Schema, plan: StatisticsPlan | None = None) -> TableStatistics:
        """Returns the statistics of no rows."""
        return cls.of(empty_batch(schema), plan)

    @classmethod
    def merged(
        cls, parts: Sequence[TableStatistics], num_columns: int | None = None
    ) -> TableStatistics:
        """Returns the statistics of all parts' rows; at least one part.

        Counts, moments and extremes without weights are the same to the last bit whatever the order
        of the parts. So are distinct values, top values and distributions while they are exact. For
        other statistics merge in a fixed order to get the same result.

        Args:
          parts: of the same plan and the same columns, all of the table's or some.
          num_columns: of the table, if the parts have only some of its columns.

        Raises:
          DataError: there are too many slices.
        """
        if len(parts) == 1:
            return parts[0]
        number = len(parts[0].columns) if num_columns is None else num_columns
        limits = ColumnLimits.of_columns(number)
        of_slices = ColumnLimits.of_columns(number * MAX_SLICES)
        return dataclasses.replace(
            _merged_tables(parts, limits), slices=_merged_slices(parts, of_slices)
        )

    @classmethod
    def joined(cls, parts: Sequence[TableStatistics]) -> TableStatistics:
        """Returns a table's statistics from those that ``of_columns`` has cut."""
        columns = Columns({name: one for part in parts for name, one in part.found.items()})
        slices = {key: cls.joined([part.slices[key] for part in parts]) for key in parts[0].slices}
        return dataclasses.replace(parts[0], columns=columns, slices=slices)

    @property
    def found(self) -> Mapping[str, ColumnStatistics | Plain]:
        """The columns as ``Columns`` keeps them."""
        return self.columns.found if isinstance(self.columns, Columns) else self.columns

    def of_columns(self, start: int, number: int) -> TableStatistics:
        """Returns the statistics of consecutive columns, and of their slices."""
        columns = Columns(dict(itertools.islice(self.found.items(), start, start + number)))
        slices = {key: part.of_columns(start, number) for key, part in self.slices.items()}
        return dataclasses.replace(self, columns=columns, slices=slices)


def _weights(column: str, array: pa.Array) -> Weights:
    """Returns the weights of a batch's rows.

    Raises:
      DataError: a weight is null, negative or not finite.
    """
    weights: Weights = (
        array.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        found = array[int(np.flatnonzero(wrong)[0])].as_py()
        raise DataError(
            f"statistics.weight, column '{column}': found {'null' if found is None else found} as "
            "the weight of a row, expected a number of at least 0 in every row. Filter such rows "
            "out, or derive a column that has none."
        )
    return weights


def _table(
    batch: pa.RecordBatch, weights: Weights | None, plan: StatisticsPlan, limits: ColumnLimits
) -> TableStatistics:
    categorical, lists = set(plan.categorical), set(plan.lists)
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    plain = [name for name in arrays if name not in categorical and name not in plan.private]
    together = count_columns({name: arrays[name] for name in plain if weights is None}, limits)
    columns = {
        name: together.get(name)
        or ColumnStatistics.of(
            array, weights, name in categorical, limits, name in lists, name not in plan.private
        )
        for name, array in arrays.items()
    }
    return TableStatistics(
        batch.num_rows, Columns(columns), None if weights is None else float(weights.sum())
    )


def _merged_tables(parts: Sequence[TableStatistics], limits: ColumnLimits) -> TableStatistics:
    weights = [part.weight for part in parts if part.weight is not None]
    return TableStatistics(
        sum(part.rows for part in parts),
        {
            name: ColumnStatistics.merged([part.columns[name] for part in parts], limits)
            for name in parts[0].columns
        },
        sum(weights) if weights else None,
    )


def _merged_slices(
    parts: Sequence[TableStatistics], limits: ColumnLimits
) -> dict[DataSlice, TableStatistics]:
    of_slice: dict[DataSlice, list[TableStatistics]] = {}
    for part in parts:
        for key, table in part.slices.items():
            of_slice.setdefault(key, []).append(table)
    for column, number in collections.Counter(key.column for key in of_slice).items():
        check_number(column, number)
    return {key: _merged_tables(of_slice[key], limits) for key in sorted(of_slice)}


def _slice_rows(column: str, array: pa.Array) -> dict[DataSlice, npt.NDArray[np.int64]]:
    """Returns the rows of each slice, ascending; nulls are in no slice.

    A list is in the slice of each of its items.

    Raises:
      DataError: there are more than ``MAX_SLICES`` values.
    """
    rows, items = np.arange(len(array)), array
    if pa.types.is_list(array.type):
        rows = np.repeat(rows, array.value_lengths().fill_null(0).to_numpy())
        items = array.flatten()
    values = items if is_text(array.type) else as_numbers(items)
    rows = rows[values.is_valid().to_numpy(zero_copy_only=False)]
    encoded = values.drop_null().dictionary_encode()
    check_number(column, len(encoded.dictionary))
    names, places = encoded.dictionary.cast(pa.string()).to_pylist(), encoded.indices.to_numpy()
    return {
        DataSlice(column, name): np.unique(rows[places == place])
        for place, name in enumerate(names)
    }
