"""Says how far each feature's values have moved: between splits, and from an earlier dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.report.charts import FEW_VALUES, SMALL, bar_shares, common_axis
from beam_pipelines.analysis.rules.distances import jensen_shannon
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.table import ColumnStatistics, TableStatistics, value_type
from beam_pipelines.analysis.statistics.text import TextStatistics

BASELINE = "baseline"


class Drift(NamedTuple):
    """How far a feature's values in ``split`` are from those in ``reference``: another split, or
    the baseline.
    """

    split: str
    reference: str
    value: float


def measure_drift(
    statistics: Mapping[str, TableStatistics], baseline: Mapping[str, TableStatistics]
) -> dict[str, tuple[Drift, ...]]:
    """Compares each split with the first one, and with the same split of an earlier dataset.

    Returns:
      Feature -> what could be measured.
    """
    first = next(iter(statistics), "")
    pairs = [(split, first, statistics[first]) for split in list(statistics)[1:]]
    pairs += [(split, BASELINE, baseline[split]) for split in statistics if split in baseline]
    found: dict[str, list[Drift]] = {}
    for split, reference, table in pairs:
        for name, column in statistics[split].columns.items():
            value = divergence(table.columns[name], column) if name in table.columns else None
            if value is not None:
                found.setdefault(name, []).append(Drift(split, reference, value))
    return {name: tuple(drifts) for name, drifts in found.items()}


def divergence(first: ColumnStatistics, second: ColumnStatistics) -> float | None:
    """Returns the Jensen-Shannon divergence of two columns' values in bits: 0 of equal
    distributions, 1 of disjoint ones.

    Texts are compared value by value; those that are not kept count as one. Numbers are compared by
    the bars of their chart, where TFDV compares 10 buckets of each side's own range: one large
    value in one split is then no difference. Nulls, NaN and infinities do not count. ``None`` of
    columns without values, of bytes, and of texts against numbers.
    """
    kinds = value_type(first.type), value_type(second.type)
    if pa.types.is_binary(kinds[0]) or pa.types.is_binary(kinds[1]):
        return None
    if isinstance(first.values, TextStatistics) and isinstance(second.values, TextStatistics):
        shares = _text_shares(first.values, second.values)
    elif isinstance(first.values, NumberStatistics) and isinstance(second.values, NumberStatistics):
        shares = _number_shares(first.values, second.values, kinds[0])
    else:
        return None
    return jensen_shannon(*shares) if all(side.any() for side in shares) else None


def _text_shares(first: TextStatistics, second: TextStatistics) -> list[npt.NDArray[np.float64]]:
    """Returns how often each text occurs on either side, last those that are not kept."""
    encoded = pa.concat_arrays([first.values, second.values]).dictionary_encode()
    places, number = encoded.indices.to_numpy(), len(encoded.dictionary)
    shares = []
    for text, own in ((first, places[: len(first.values)]), (second, places[len(first.values) :])):
        counts = np.bincount(own, weights=text.counts, minlength=number)
        shares.append(np.append(counts, max(0.0, text.count - counts.sum())))
    return shares


def _number_shares(
    first: NumberStatistics, second: NumberStatistics, kind: pa.DataType
) -> list[npt.NDArray[np.float64]]:
    """Returns how many of either side's numbers lie in each of the same bars; where there are few,
    each has its own.
    """
    numbers = [first, second]
    if not all(number.moments.count for number in numbers):
        return [np.zeros(1)]
    if all(number.exact and len(number.values) <= FEW_VALUES for number in numbers):
        values = np.unique(np.concatenate([number.values.astype(np.float64) for number in numbers]))
        edges = np.append(values, np.inf)
    else:
        edges = common_axis(numbers, kind, SMALL.bars).edges
    return [bar_shares(number, edges) for number in numbers]
