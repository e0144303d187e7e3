"""A view of accumulators, for schema inference and validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.proto import feature_type
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.layout.schema_features import Steps, steps_of

_Feature = statistics_pb2.FeatureNameStatistics
_NO_NUMBERS = NumberStatistics.of(pa.array([], pa.int64()))
# Fewer values may differ by chance, and are no ids.
_FEWEST = 50
# An estimate of distinct texts is off by some per cent.
_SHARE_OF_TEXTS = 0.95
# Numbers that count rows leave out some of them, at most half.
_LEAST_NUMBERS, _MOST_NUMBERS = 0.9, 2


class Level(NamedTuple):
    """Missing lists and value counts at one level of nesting.

    ``min_values`` and ``max_values`` are the fewest and most of the lists that are not missing.
    """

    missing: int
    min_values: int
    max_values: int


@dataclasses.dataclass(frozen=True)
class FeatureView:
    """Statistics of one feature, by its type.

    Attributes:
      path: of the feature.
      type: ``FeatureNameStatistics.Type``.
      column: its statistics.
      levels: outermost first; one unless the feature has lists of lists.
      texts: of a STRING feature, or of categorical integers; else ``None``.
      numbers: of INT and FLOAT features; else of none.
    """

    path: Steps
    type: int
    column: ColumnStatistics
    levels: tuple[Level, ...]
    texts: TextStatistics | None
    numbers: NumberStatistics

    @property
    def strings(self) -> TextStatistics | None:
        """The texts of a STRING feature."""
        return self.texts if self.type == _Feature.STRING else None

    @property
    def rows(self) -> int:
        """Rows with and without the feature."""
        return self.column.present + self.column.missing

    @property
    def num_values(self) -> int:
        """Values in all rows."""
        return self.column.innermost.num_values


def views_of(statistics: TableStatistics) -> dict[Steps, FeatureView]:
    """Returns path -> view of each column, in order."""
    views = (view_of_column(name, column) for name, column in statistics.columns.items())
    return {view.path: view for view in views}


def view_of_column(name: str, column: ColumnStatistics) -> FeatureView:
    """Returns the view of one column's statistics."""
    kind, values, texts = feature_type(column.type), column.values, column.categories
    if isinstance(values, TextStatistics) and kind == _Feature.STRING and column.is_counted:
        texts = values
    return FeatureView(
        steps_of(name, column.null_steps is not None),
        kind,
        column,
        (Level(column.missing, column.min_values, column.max_values), *_steps(column)),
        texts,
        values if isinstance(values, NumberStatistics) else _NO_NUMBERS,
    )


def _steps(column: ColumnStatistics) -> Iterator[Level]:
    """Yields the second level of a feature list.

    A null step has no value, so that no number of values is promised in every step.
    """
    if column.null_steps is None:
        return
    one = int(column.num_values > column.null_steps)
    fewest, most, _ = column.step_values or (one, one, 0)
    yield Level(column.null_steps, 0 if column.null_steps else fewest, most)


def are_like_ids(first: FeatureView, second: FeatureView) -> bool:
    """Whether both features are like ids; one may have few rows."""
    views = first, second
    return any(map(is_like_ids, views)) and all(is_like_ids(one, 0) for one in views)


def is_like_ids(feature: FeatureView, fewest: int = _FEWEST) -> bool:
    """Whether nearly all texts, or all whole numbers, differ.

    Numbers whose different ones are not counted are ids if they are about as many as their range
    has.

    Args:
      feature: its statistics.
      fewest: values that it must have, as few may differ by chance.
    """
    count, numbers = feature.num_values, feature.numbers
    if count < fewest or pa.types.is_temporal(value_type(feature.column.type)):
        return False
    if feature.type == _Feature.INT and numbers.count and numbers.distinct is not None:
        return numbers.distinct == count
    if feature.texts is not None:
        return feature.texts.distinct >= _SHARE_OF_TEXTS * count
    low, high = numbers.minimum, numbers.maximum
    if not isinstance(low, int) or not isinstance(high, int):
        return False
    return _LEAST_NUMBERS * count <= high - low + 1 <= _MOST_NUMBERS * count
