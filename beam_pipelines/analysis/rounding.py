"""Finds numbers that are not what they were, in sampled rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.alerts import MERGED, Alert
from beam_pipelines.recipe.text.yaml_text import yaml_text

# Up to this share of the values, neighbours of a wide column fall together by chance.
_MOST_SHARE = 0.01
_MOST_VALUES = 5_000
# Beyond, a float64 has lost the digits of an integer.
_LARGEST = 2.0**53


def find_merged(feature: str, column: str, before: pa.Array, after: pa.Array) -> Iterator[Alert]:
    """Yields an alert if float32 merge more numbers than by chance.

    Args:
      feature, column: names.
      before: int64 or float64 of rows, in the column.
      after: the same numbers as float32.
    """
    if not before.null_count and _count_distinct(before) == _count_distinct(after):
        return
    known = pc.and_(before.is_valid(), pc.is_finite(after)).fill_null(False)
    places = np.flatnonzero(known.to_numpy(zero_copy_only=False))
    places = places[:: 1 + len(places) // _MOST_VALUES]
    distinct, first = np.unique(before.take(pa.array(places)), return_index=True)
    written = after.to_numpy(zero_copy_only=False)[places][first]
    same = np.flatnonzero(written[1:] == written[:-1])
    if len(same) <= _MOST_SHARE * len(distinct):
        return
    if pa.types.is_integer(before.type):
        cure = "leave 'cast: float32' out"
    else:
        type_ = "int64" if _are_whole(distinct) else "text"
        cure = f"'types: {{{yaml_text(column)}: {type_}}}' of the source keeps them"
    pair = [*distinct[same[0] : same[0] + 2].tolist(), written[same[0]].item()]
    low, high, both = (f"{number:.17g}" if number % 1 else str(int(number)) for number in pair)
    yield Alert(
        feature,
        MERGED,
        f"{len(distinct):,} different numbers of sampled rows become "
        f"{len(distinct) - len(same):,}, as {low} and {high} become {both}; {cure}",
    )


def _count_distinct(numbers: pa.Array) -> int:
    """Returns the number of distinct values, but one; each NaN is one."""
    values = np.sort(numbers.to_numpy(zero_copy_only=False))
    return int(np.count_nonzero(values[1:] != values[:-1]))


def _are_whole(numbers: pa.Array | np.ndarray) -> bool:
    values = np.asarray(numbers)
    return bool(((values == np.trunc(values)) & (np.abs(values) <= _LARGEST)).all())
