"""Columns like ids: every row has its own value."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import FeatureView
from beam_pipelines.core.columns import value_type

# Fewer values may differ by chance.
_FEWEST = 50
# An estimate of distinct texts is off by some per cent.
_SHARE_OF_TEXTS = 0.95
# Numbers that count rows leave out some of them, at most half.
_LEAST_NUMBERS, _MOST_NUMBERS = 0.9, 2


def are_like_ids(first: ColumnStatistics, second: ColumnStatistics) -> bool:
    """Whether both columns are like ids; one may have few rows."""
    columns = first, second
    return any(map(is_like_ids, columns)) and all(is_like_ids(one, 0) for one in columns)


def are_views_like_ids(first: FeatureView, second: FeatureView) -> bool:
    """Whether TFDV's statistics of both features are like those of ids."""
    views = first, second
    return any(map(_is_like_ids, views)) and all(_is_like_ids(one, 0) for one in views)


def is_like_ids(column: ColumnStatistics, fewest: int = _FEWEST) -> bool:
    """Whether nearly all texts, or all whole numbers, differ.

    Beyond the limit of counting, numbers are ids if they are about as many as their range has.

    Args:
      column: its statistics.
      fewest: values that it must have, as few may differ by chance.
    """
    values, kind = column.values, value_type(column.type)
    if isinstance(values, TextStatistics):
        is_text = pa.types.is_string(kind)
        return is_text and _are_distinct_texts(values.distinct, values.count, fewest)
    if not pa.types.is_integer(kind) or not isinstance(values, NumberStatistics):
        return False
    if values.distinct is not None:
        return values.count >= fewest and values.distinct == values.count
    return _are_counted(values.minimum, values.maximum, values.count, fewest)


def _is_like_ids(feature: FeatureView, fewest: int = _FEWEST) -> bool:
    if feature.texts is not None:
        return _are_distinct_texts(feature.texts.unique, feature.counted_values, fewest)
    if isinstance(feature.minimum, int) and isinstance(feature.maximum, int):
        return _are_counted(feature.minimum, feature.maximum, feature.counted_values, fewest)
    return False


def _are_distinct_texts(distinct: int, count: int, fewest: int) -> bool:
    return count >= fewest and distinct >= _SHARE_OF_TEXTS * count


def _are_counted(minimum: float | None, maximum: float | None, count: int, fewest: int) -> bool:
    if minimum is None or maximum is None or count < fewest:
        return False
    return _LEAST_NUMBERS * count <= maximum - minimum + 1 <= _MOST_NUMBERS * count
