"""Lengths of a column's texts, in characters or in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.statistics.text import TextStatistics


class Lengths(NamedTuple):
    """Shortest, mean and longest length."""

    shortest: int
    mean: float
    longest: int


def text_lengths(splits: Sequence[TextStatistics]) -> tuple[str, list[Lengths | None]]:
    """Returns the unit and each split's lengths.

    The lengths of a split without texts are ``None``.

    The unit is ``characters`` if all texts were counted. Of bytes, and of more texts than are
    counted, only lengths in ``bytes`` are known.
    """
    if all(values.exact and pa.types.is_string(values.values.type) for values in splits):
        return "characters", [_in_characters(values) for values in splits]
    lengths = [
        Lengths(values.min_bytes, values.average_bytes, values.max_bytes) if values.count else None
        for values in splits
    ]
    return "bytes", lengths


def _in_characters(values: TextStatistics) -> Lengths | None:
    if not values.count:
        return None
    lengths = pc.utf8_length(values.values).to_numpy().astype(np.int64)
    mean = float((lengths * values.counts).sum() / values.count)
    return Lengths(int(lengths.min()), mean, int(lengths.max()))
