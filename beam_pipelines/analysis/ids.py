"""Columns like ids: every row has its own value."""

from __future__ import annotations

from beam_pipelines.analysis.statistics.view import FeatureView

# Fewer values may differ by chance.
_FEWEST = 50
# An estimate of distinct texts is off by some per cent.
_SHARE_OF_TEXTS = 0.95
# Numbers that count rows leave out some of them, at most half.
_LEAST_NUMBERS, _MOST_NUMBERS = 0.9, 2


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
