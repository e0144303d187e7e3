"""Measures how features' values differ between splits and from a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.anomalies.rules.distances import jensen_shannon
from beam_pipelines.analysis.report.charts import FEW_VALUES, SMALL, bar_shares, common_axis
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.columns import value_type

BASELINE = "baseline"


class Drift(NamedTuple):
    """Divergence of a feature in ``split`` from ``reference``.

    The reference is another split or the baseline; ``value`` is in bits.
    """

    split: str
    reference: str
    value: float


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
            value = divergence(table.columns[name], column) if name in table.columns else None
            if value is not None:
                found.setdefault(name, []).append(Drift(split, reference, value))
    return {name: tuple(drifts) for name, drifts in found.items()}


def divergence(first: ColumnStatistics, second: ColumnStatistics) -> float | None:
    """Returns the Jensen-Shannon divergence of two columns' values in bits.

    It is 0 for equal and 1 for disjoint distributions, and ``None`` for columns without values, for
    bytes, and for texts against numbers.

    Texts are compared value by value; texts without a count of their own count as one. Numbers are
    compared by the bars of their chart, so that one outlier is no drift; TFDV compares 10 buckets
    of each side's own range. Nulls, NaN and infinities do not count.
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
    """Returns each text's count on both sides.

    The last entry has all texts that are not kept.
    """
    encoded = pa.concat_arrays([first.values, second.values]).dictionary_encode()
    places, number = encoded.indices.to_numpy(), len(encoded.dictionary)
    shares = []
    for text, indices in (
        (first, places[: len(first.values)]),
        (second, places[len(first.values) :]),
    ):
        counts = np.bincount(indices, weights=text.counts, minlength=number)
        shares.append(np.append(counts, max(0.0, text.count - counts.sum())))
    return shares


def _number_shares(
    first: NumberStatistics, second: NumberStatistics, kind: pa.DataType
) -> list[npt.NDArray[np.float64]]:
    """Returns the shares of both sides' numbers in the same bars.

    If both have few values, each value has a bar.
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
