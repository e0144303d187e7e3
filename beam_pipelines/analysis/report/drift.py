"""Measures how features' values differ between splits and from a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from beam_pipelines.analysis.drift import CHANCE, LARGE_DRIFT, divergence
from beam_pipelines.analysis.ids import are_like_ids
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.columns import is_date, value_type

BASELINE = "baseline"


class Drift(NamedTuple):
    """Divergence of a feature in ``split`` from ``reference``.

    Attributes:
      split: name of the split.
      reference: another split or the baseline.
      value: in bits, without the part that few rows have by chance.
      is_high: whether it is large, and chance does not explain it. Ids are never alike, and dates
        not those of a baseline.
    """

    split: str
    reference: str
    value: float
    is_high: bool = False


def measure_drift(
    statistics: Mapping[str, TableStatistics], baseline: Mapping[str, TableStatistics]
) -> dict[str, tuple[Drift, ...]]:
    """Compares each split with the first one and with an earlier dataset.

    A split is compared with the same split of the earlier dataset.

    Returns:
      Feature -> drifts. A feature that cannot be compared has no entry.
    """
    first = next(iter(statistics), "")
    pairs = [(split, first, statistics[first]) for split in list(statistics)[1:]]
    pairs += [(split, BASELINE, baseline[split]) for split in statistics if split in baseline]
    found: dict[str, list[Drift]] = {}
    for split, reference, table in pairs:
        for name, column in statistics[split].columns.items():
            other = table.columns.get(name)
            value = None if other is None else divergence(other, column)
            if other is None or value is None or not value.is_known:
                continue
            bits = value.beyond_chance
            is_high = bits >= LARGE_DRIFT and value.p_value < CHANCE
            is_other_day = reference == BASELINE and is_date(value_type(column.type))
            is_high = is_high and not is_other_day and not are_like_ids(other, column)
            found.setdefault(name, []).append(Drift(split, reference, bits, is_high))
    return {name: tuple(drifts) for name, drifts in found.items()}
