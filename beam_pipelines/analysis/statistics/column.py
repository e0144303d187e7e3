"""Statistics of one column, computed per batch and merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.distribution import Distribution
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.numeric import NumberStatistics, count_distinct
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type

Values = NumberStatistics | TextStatistics
Weights = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


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


class RowValues(NamedTuple):
    """The values in present rows.

    ``min_values`` and ``max_values`` are the fewest and most of a row, 0 without rows;
    ``num_values`` are those of all rows. ``lengths`` is the distribution of their numbers, or
    ``None`` if each row has one.
    """

    min_values: int
    max_values: int
    num_values: int
    lengths: Distribution | None


@dataclasses.dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column.

    Attributes:
      type: the column's type (``core/arrow/columns.py``).
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
        Of a feature list ``num_values``, its like and ``lengths`` count steps, null ones too.
      step_values: of a feature list whose steps are lists, their values; else ``None``.
      values_in_rows: of a feature list with null steps, or with lists as steps, distribution of
        the number of values in present rows; else ``None``, and each step has one value.
      weighted_steps: presence of these steps by weight, where the rows have weights.
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
    values_in_rows: Distribution | None = None
    weighted_steps: WeightedPresence | None = None

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
        null_steps = step_values = values_in_rows = weighted_steps = None
        if pa.types.is_list(array.type):
            valency, lengths = _valency(array, limits)
            steps = array.flatten()
            null_steps = steps.null_count if is_feature_list else None
            step_values = _values_of_steps(steps) if pa.types.is_list(steps.type) else None
            if null_steps or step_values is not None:
                values_in_rows, weighted_steps = _values_in_rows(array, steps, weights, limits)
        counted = len(array) if is_counted else 0
        items, item_weights = _items(
            array[:counted], None if weights is None else weights[:counted]
        )
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
            values_in_rows,
            weighted_steps,
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
            *_merged_rows(parts, limits),
        )

    @property
    def innermost(self) -> RowValues:
        """The values in present rows; of a feature list, of its steps."""
        if self.values_in_rows is None:
            return RowValues(self.min_values, self.max_values, self.num_values, self.lengths)
        number = self.num_values - (self.null_steps or 0)
        if self.step_values is not None:
            number = self.step_values.num_values
        rows = self.values_in_rows
        fewest, most = (int(rows.values[0]), int(rows.values[-1])) if len(rows.values) else (0, 0)
        return RowValues(fewest, most, number, rows)

    @property
    def average_values(self) -> float:
        """Average number of values in a present row; 0 without rows."""
        return self.innermost.num_values / self.present if self.present else 0.0

    @property
    def missing_fraction(self) -> float:
        """Share of rows that are null; 0 without rows."""
        return self.missing / (self.present + self.missing) if self.missing else 0.0


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


def _values_in_rows(
    array: pa.Array, steps: pa.Array, weights: Weights | None, limits: ColumnLimits
) -> tuple[Distribution, WeightedPresence | None]:
    """Returns the distribution of values in rows, and weights of steps.

    Null rows have no place in the distribution.

    Args:
      array: lists of steps.
      steps: of all rows; lists, or values, where a null is none.
      weights: of the rows.
      limits: of the distribution.
    """
    filled = steps.is_valid().to_numpy(zero_copy_only=False)
    in_steps = filled.astype(np.int64)
    if pa.types.is_list(steps.type):
        in_steps = steps.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(in_steps)])
    ends = np.cumsum(array.value_lengths().fill_null(0).to_numpy())
    in_rows = np.diff(before[ends], prepend=0)[array.is_valid().to_numpy(zero_copy_only=False)]
    values, counts, _ = count_distinct(pa.array(in_rows))
    lengths = Distribution.of(values, counts, limits)
    if weights is None:
        return lengths, None
    weights = _repeated(weights, array)
    of_values = float((weights * in_steps).sum())
    sums = float(weights[filled].sum()), float(weights[~filled].sum())
    return lengths, WeightedPresence(*sums, of_values)


def _merged_rows(
    parts: Sequence[ColumnStatistics], limits: ColumnLimits
) -> tuple[Distribution | None, WeightedPresence | None]:
    """Returns the values in all parts' rows, and their steps by weight.

    In a part without them each step has one value.
    """
    if all(part.values_in_rows is None for part in parts):
        return None, None
    lengths = [part.innermost.lengths for part in parts]
    weighted = []
    for part in parts:
        steps = part.weighted_steps
        if steps is None and part.weighted is not None:
            steps = WeightedPresence(part.weighted.num_values, 0.0, part.weighted.num_values)
        weighted.append(steps)
    known = [steps for steps in weighted if steps is not None]
    return (
        Distribution.merged([one for one in lengths if one is not None], limits),
        WeightedPresence(*map(sum, zip(*known, strict=True))) if known else None,
    )


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


def _items(array: pa.Array, weights: Weights | None) -> tuple[pa.Array, Weights | None]:
    """Returns a column's values, of lists one by one, and their weights."""
    while pa.types.is_list(array.type):
        weights = None if weights is None else _repeated(weights, array)
        array = array.flatten()
    return array, weights


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
