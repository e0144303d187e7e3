"""A view of accumulators, for schema inference and validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
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
    """Statistics of one feature.

    Attributes:
      path: of the feature.
      type: ``FeatureNameStatistics.Type``.
      rows: number of rows of the split.
      present, missing: numbers of rows with and without it.
      levels: outermost first; one unless the feature has lists of lists.
      num_values: values in all rows.
      texts: of a STRING feature, or of categorical integers; else ``None``.
      minimum, maximum: of a number, infinities included; ``None`` if all are NaN.
      distinct: number of different integers; ``None`` of other values, and if it is not known.
      is_temporal: whether integers are known to be dates or times.
      nans: number of NaN values.
      infinities: numbers of minus and plus infinities.
      has_values_between_0_and_1: whether a number is known to be strictly between them.
      is_feature_list: whether it is a feature list of tf.SequenceExamples, whose levels are its
        steps and their values.
      is_counted: whether the values were counted; else only presence, type and numbers of values
        are known.
    """

    path: Steps
    type: int
    rows: int
    present: int
    missing: int
    levels: tuple[Level, ...]
    num_values: int
    texts: TextStatistics | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    distinct: int | None = None
    is_temporal: bool = False
    nans: int = 0
    infinities: tuple[int, int] = (0, 0)
    has_values_between_0_and_1: bool = False
    is_feature_list: bool = False
    is_counted: bool = True

    @property
    def strings(self) -> TextStatistics | None:
        """The texts of a STRING feature."""
        return self.texts if self.type == _Feature.STRING else None

    @property
    def fraction_present(self) -> float:
        """Share of rows that have the feature."""
        return self.present / self.rows


def views_of(statistics: TableStatistics) -> dict[Steps, FeatureView]:
    """Returns path -> view of each column, in order."""
    views = (view_of_column(name, column) for name, column in statistics.columns.items())
    return {view.path: view for view in views}


def view_of_column(name: str, column: ColumnStatistics) -> FeatureView:
    """Returns the view of one column's statistics."""
    view = FeatureView(
        steps_of(name, column.null_steps is not None),
        feature_type(column.type),
        column.present + column.missing,
        column.present,
        column.missing,
        (Level(column.missing, column.min_values, column.max_values), *_steps(column)),
        column.innermost.num_values,
        is_feature_list=column.null_steps is not None,
        is_counted=column.is_counted,
    )
    if not column.is_counted:
        return view
    values = column.values
    if isinstance(values, NumberStatistics):
        above = np.searchsorted(values.values, 0, side="right")
        return dataclasses.replace(
            view,
            minimum=values.minimum,
            maximum=values.maximum,
            distinct=values.distinct if view.type == _Feature.INT else None,
            is_temporal=pa.types.is_temporal(value_type(column.type)),
            nans=values.nans,
            infinities=(values.minus_infinities, values.plus_infinities),
            has_values_between_0_and_1=bool((values.values[above : above + 1] < 1).any()),
            texts=column.categories,
        )
    return dataclasses.replace(view, texts=values) if view.type == _Feature.STRING else view


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
    count, low, high = feature.num_values, feature.minimum, feature.maximum
    if feature.is_temporal or count < fewest:
        return False
    if feature.distinct is not None:
        return feature.distinct == count
    if feature.texts is not None:
        return feature.texts.distinct >= _SHARE_OF_TEXTS * count
    if not isinstance(low, int) or not isinstance(high, int):
        return False
    return _LEAST_NUMBERS * count <= high - low + 1 <= _MOST_NUMBERS * count
