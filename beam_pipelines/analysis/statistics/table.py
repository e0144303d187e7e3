"""Statistics of columns and tables, computed per batch and merged."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.composites import (
    Composite,
    CompositeCounts,
    count_composite,
    merged_counts,
)
from beam_pipelines.analysis.statistics.distribution import Distribution
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.numeric import NumberStatistics, count_distinct
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.slices import (
    MAX_SLICES,
    DataSlice,
    check_number,
    slice_rows,
)
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.columns import take_rows, value_type
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.pickling import PickledOnce

Values = NumberStatistics | TextStatistics
Weights = npt.NDArray[np.float64]


class WeightedPresence(NamedTuple):
    """Weights of present rows, of missing rows, and of values.

    ``num_values`` is the sum of the present rows' weights times their value counts.
    """

    present: float
    missing: float
    num_values: float


class StepValues(NamedTuple):
    """The values in the steps that are not null.

    ``min_values`` and ``max_values`` are the fewest and most of a step, 0 without steps;
    ``num_values`` are those of all steps.
    """

    min_values: int
    max_values: int
    num_values: int


@dataclasses.dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column.

    Attributes:
      type: the column's type (``core/columns.py``).
      present, missing: numbers of rows that are not null and null. An empty list is present.
      min_values, max_values: fewest and most values in a present row; 1 unless the column has
        lists; 0 without rows.
      num_values: values in all rows.
      values: statistics of the values; of lists, of their items.
      lengths: of a list column, distribution of the number of values in present rows; else
        ``None``.
      categories: of categorical integers, the counts of their texts; else ``None``.
      weighted: presence by weight, where the rows have weights.
      null_steps: of a feature list, the number of null steps; else ``None``.
      is_counted: whether the values were counted; else ``values`` and ``categories`` are of none.
      step_values: of a feature list whose steps are lists, their values; else ``None``. Then
        ``num_values`` and its like count steps.
    """

    type: pa.DataType
    present: int
    missing: int
    min_values: int
    max_values: int
    num_values: int
    values: Values
    lengths: Distribution | None = None
    categories: TextStatistics | None = None
    weighted: WeightedPresence | None = None
    null_steps: int | None = None
    is_counted: bool = True
    step_values: StepValues | None = None

    @classmethod
    def of(
        cls,
        array: pa.Array,
        weights: Weights | None = None,
        is_categorical: bool = False,
        limits: ColumnLimits | None = None,
        is_feature_list: bool = False,
        is_counted: bool = True,
    ) -> ColumnStatistics:
        """Returns the statistics of one array.

        bool, date, time and timestamp count as the integers that represent them.

        Args:
          array: the column.
          weights: of its rows, at least 0.
          is_categorical: whether integers are also counted like texts.
          limits: sizes at which accumulators turn into sketches.
          is_feature_list: whether a list's values are steps.
          is_counted: whether to count values, rather than presence and numbers of values only.
        """
        limits = limits or ColumnLimits()
        present = len(array) - array.null_count
        valency, lengths = (int(present > 0), int(present > 0), present), None
        items, item_weights = array, weights
        if pa.types.is_list(array.type):
            valency, lengths = _valency(array, limits)
            items = array.flatten()
            if weights is not None:
                item_weights = _repeated(weights, array)
        null_steps = items.null_count if is_feature_list else None
        step_values = None
        if pa.types.is_list(items.type):
            step_values = _values_of_steps(items)
            if item_weights is not None:
                item_weights = _repeated(item_weights, items)
            items = items.flatten()
        if not is_counted:
            items, item_weights = items.slice(0, 0), None if weights is None else weights[:0]
        values, categories = _values(items, item_weights, is_categorical, limits)
        weighted = None if weights is None else _weighted_presence(array, weights)
        return cls(
            array.type,
            present,
            array.null_count,
            *valency,
            values,
            lengths,
            categories,
            weighted,
            null_steps,
            is_counted,
            step_values,
        )

    @classmethod
    def merged(
        cls, parts: Sequence[ColumnStatistics], limits: ColumnLimits | None = None
    ) -> ColumnStatistics:
        """Returns the statistics of all parts' rows together."""
        limits = limits or ColumnLimits()
        filled = [part for part in parts if part.present]
        lengths = [part.lengths for part in parts if part.lengths is not None]
        categories = [part.categories for part in parts if part.categories is not None]
        weighted = [part.weighted for part in parts if part.weighted is not None]
        null_steps = [part.null_steps for part in parts if part.null_steps is not None]
        return cls(
            parts[0].type,
            sum(part.present for part in parts),
            sum(part.missing for part in parts),
            min((part.min_values for part in filled), default=0),
            max((part.max_values for part in filled), default=0),
            sum(part.num_values for part in parts),
            _merged_values([part.values for part in parts], limits),
            Distribution.merged(lengths, limits) if lengths else None,
            TextStatistics.merged(categories, limits) if categories else None,
            WeightedPresence(*map(sum, zip(*weighted, strict=True))) if weighted else None,
            sum(null_steps) if null_steps else None,
            parts[0].is_counted,
            _merged_steps(parts),
        )

    @property
    def average_values(self) -> float:
        """Average number of values in a present row; 0 without rows."""
        return self.num_values / self.present if self.present else 0.0

    @property
    def missing_fraction(self) -> float:
        """Share of rows that are null; 0 without rows."""
        return self.missing / (self.present + self.missing) if self.missing else 0.0


@dataclasses.dataclass(frozen=True)
class TableStatistics(PickledOnce):
    """Statistics of the rows of a table or of one split.

    Attributes:
      rows: number of rows.
      columns: column name -> its statistics, in the table's order.
      weight: sum of the rows' weights; ``None``: they have none.
      slices: slice -> statistics of its rows, which have no slices themselves; ordered.
      composites: counts of the plan's sparse and weighted features, in its order.
    """

    compresses = False  # megabytes, most of them compressed already
    rows: int
    columns: Mapping[str, ColumnStatistics]
    weight: float | None = None
    slices: Mapping[DataSlice, TableStatistics] = dataclasses.field(default_factory=dict)
    composites: tuple[CompositeCounts, ...] = ()

    @classmethod
    def of(cls, batch: pa.RecordBatch, plan: StatisticsPlan | None = None) -> TableStatistics:
        """Returns the statistics of one batch of column types.

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
                chosen = None if weights is None else weights[rows]
                slices[key] = _table(take_rows(batch, rows), chosen, plan, limits)
        return dataclasses.replace(table, slices={key: slices[key] for key in sorted(slices)})

    @classmethod
    def empty(cls, schema: pa.Schema, plan: StatisticsPlan | None = None) -> TableStatistics:
        """Returns the statistics of no rows."""
        return cls.of(pa.RecordBatch.from_pylist([], schema), plan)

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
        limits, of_slices = (
            ColumnLimits.of_columns(number),
            ColumnLimits.of_columns(number * MAX_SLICES),
        )
        return dataclasses.replace(
            _merged_tables(parts, limits), slices=_merged_slices(parts, of_slices)
        )

    @classmethod
    def joined(cls, parts: Sequence[TableStatistics], names: Sequence[str]) -> TableStatistics:
        """Returns a table's statistics from parts with some of its columns each.

        All parts are of the same rows; ``names`` gives the order of the columns.
        """
        columns = {name: column for part in parts for name, column in part.columns.items()}
        slices = {
            key: cls.joined([part.slices[key] for part in parts], names) for key in parts[0].slices
        }
        return dataclasses.replace(
            parts[0], columns={name: columns[name] for name in names}, slices=slices
        )

    def of_composites(self, chosen: Sequence[Composite]) -> TableStatistics:
        """Returns the statistics with some of the composites, in order."""
        slices = {key: part.of_composites(chosen) for key, part in self.slices.items()}
        known = {counts.composite: counts for counts in self.composites}
        composites = tuple(known[composite] for composite in chosen)
        return dataclasses.replace(self, slices=slices, composites=composites)

    def merge(self, other: TableStatistics) -> TableStatistics:
        """Returns the statistics of both tables' rows."""
        return TableStatistics.merged([self, other])


def is_text(column_type: pa.DataType) -> bool:
    """Whether a column holds texts or bytes, or lists of them."""
    kind = value_type(column_type)
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def as_numbers(array: pa.Array) -> pa.Array:
    """Returns the numbers that represent a column's values: int64, float or double."""
    if pa.types.is_int64(array.type) or pa.types.is_floating(array.type):
        return array
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).cast(pa.int64())
    return array.cast(pa.int64()) if pa.types.is_boolean(array.type) else array.view(pa.int64())


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
    columns = {
        name: ColumnStatistics.of(
            array, weights, name in categorical, limits, name in lists, plan.counts(name)
        )
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }
    return TableStatistics(
        batch.num_rows,
        columns,
        None if weights is None else float(weights.sum()),
        composites=tuple(count_composite(batch, composite) for composite in plan.composites),
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
        composites=tuple(
            map(merged_counts, zip(*(part.composites for part in parts), strict=True))
        ),
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
    """Returns the rows of each slice, in order.

    A list is in the slice of each of its items.
    """
    rows, items = np.arange(len(array)), array
    if pa.types.is_list(array.type):
        rows, items = (
            np.repeat(rows, array.value_lengths().fill_null(0).to_numpy()),
            array.flatten(),
        )
    return slice_rows(column, items if is_text(array.type) else as_numbers(items), rows)


def _valency(array: pa.Array, limits: ColumnLimits) -> tuple[tuple[int, int, int], Distribution]:
    """Returns the valency of a list column, and its distribution.

    The valency is the fewest and the most values of a row, and the values of all rows.
    """
    values, counts, _ = count_distinct(array.value_lengths().cast(pa.int64()))
    fewest, most = (int(values[0]), int(values[-1])) if len(values) else (0, 0)
    return (fewest, most, int((values * counts).sum())), Distribution.of(values, counts, limits)


def _values_of_steps(steps: pa.Array) -> StepValues:
    lengths = steps.drop_null().value_lengths().to_numpy()
    most = int(lengths.max(initial=0))
    return StepValues(int(lengths.min(initial=most)), most, int(lengths.sum()))


def _merged_steps(parts: Sequence[ColumnStatistics]) -> StepValues | None:
    """Returns the values of all parts' steps.

    The steps of a part may all be null.
    """
    found = [part.step_values for part in parts if part.step_values is not None]
    if not found:
        return None
    filled = [
        part.step_values
        for part in parts
        if part.step_values is not None and part.num_values > (part.null_steps or 0)
    ]
    return StepValues(
        min((steps.min_values for steps in filled), default=0),
        max((steps.max_values for steps in filled), default=0),
        sum(steps.num_values for steps in found),
    )


def _repeated(weights: Weights, lists: pa.Array) -> Weights:
    """Returns the weights of the values of lists."""
    repeated: Weights = np.repeat(weights, lists.value_lengths().fill_null(0).to_numpy())
    return repeated


def _values(
    items: pa.Array, weights: Weights | None, is_categorical: bool, limits: ColumnLimits
) -> tuple[Values, TextStatistics | None]:
    """Returns the statistics of values, and of the texts of categorical ones."""
    if is_text(items.type):
        return TextStatistics.of(items, weights, limits), None
    values, counts, sums = count_distinct(as_numbers(items), weights)
    numbers = NumberStatistics.of_value_counts(values, counts, sums, limits)
    if not is_categorical:
        return numbers, None
    return numbers, TextStatistics.of_value_counts(
        pa.array(values).cast(pa.string()), counts, sums, limits
    )


def _weighted_presence(array: pa.Array, weights: Weights) -> WeightedPresence:
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    present = float(weights[valid].sum())
    num_values = present
    if pa.types.is_list(array.type):
        num_values = float((weights * array.value_lengths().fill_null(0).to_numpy()).sum())
    return WeightedPresence(present, float(weights[~valid].sum()), num_values)


def _merged_values(parts: Sequence[Values], limits: ColumnLimits) -> Values:
    if isinstance(parts[0], TextStatistics):
        return TextStatistics.merged(
            [part for part in parts if isinstance(part, TextStatistics)], limits
        )
    return NumberStatistics.merged(
        [part for part in parts if isinstance(part, NumberStatistics)], limits
    )
