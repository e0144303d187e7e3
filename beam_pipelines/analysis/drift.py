"""Drift of a column, and whether chance explains it."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.anomalies.rules.distances import (
    finite_cells_of_histograms,
    jensen_shannon,
    rank_counts,
)
from beam_pipelines.analysis.axis import BARS, FEW_VALUES, bar_shares, common_axis
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.columns import value_type

# Drift from here on is large, unless chance explains it.
LARGE_DRIFT = 0.1
# Chance explains what happens more often than this by chance.
CHANCE = 0.01
# Values that a cell has in the smaller sample, if both are of one distribution.
_LEAST_EXPECTED = 5
# Bars of equal shares for which the error of points is that of a sample.
_BARS_OF_POINTS = 50

Counts = npt.NDArray[np.float64]
_Feature: TypeAlias = statistics_pb2.FeatureNameStatistics


class Divergence(NamedTuple):
    """The difference of two distributions.

    Attributes:
      bits: Jensen–Shannon divergence, 0 for equal and 1 for disjoint distributions.
      chi_square: Pearson's statistic of the hypothesis that both are samples of one distribution;
        rare values count as one.
      freedom: its degrees of freedom.
    """

    bits: float
    chi_square: float
    freedom: int

    @property
    def beyond_chance(self) -> float:
        """The divergence without the part that few rows have by chance.

        Samples of one distribution have a chi-square of about its degrees of freedom.
        """
        if self.chi_square <= self.freedom:
            return 0.0
        return self.bits * (1 - self.freedom / self.chi_square)

    @property
    def p_value(self) -> float:
        """Probability of at least this difference in samples of one distribution."""
        return chi_square_tail(self.chi_square, self.freedom)


def chi_square_tail(value: float, freedom: int) -> float:
    """Returns the probability of at least this chi-square.

    Of several degrees of freedom it is Wilson and Hilferty's approximation (1931), right to about
    0.005.
    """
    if not freedom or value <= 0:
        return 1.0
    if freedom == 1:
        return math.erfc(math.sqrt(value / 2))
    spread = 2 / (9 * freedom)
    deviation = ((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(deviation / math.sqrt(2)) / 2


def divergence_of_counts(first: Counts, second: Counts) -> Divergence | None:
    """Returns the divergence of counts; ``None`` if a side has none."""
    sums = first.sum(), second.sum()
    if not all(sums):
        return None
    # Chi-square needs some values in each cell: rare ones share a cell.
    is_rare = (first + second) * (min(sums) / sum(sums)) < _LEAST_EXPECTED
    cells = [np.append(side[~is_rare], side[is_rare].sum()) for side in (first, second)]
    both = cells[0] + cells[1]
    some = both > 0
    ratio = math.sqrt(sums[1] / sums[0])
    differences = (cells[0] * ratio - cells[1] / ratio)[some]
    chi_square = float((differences * differences / both[some]).sum())
    return Divergence(jensen_shannon(first, second), chi_square, int(some.sum()) - 1)


def divergence_of_rows(
    first: tuple[float, float], second: tuple[float, float]
) -> Divergence | None:
    """Returns the divergence of rows with and without something."""
    return divergence_of_counts(*(np.array(side, np.float64) for side in (first, second)))


def divergence(first: ColumnStatistics, second: ColumnStatistics) -> Divergence | None:
    """Returns the divergence of two columns' values.

    It is ``None`` for columns without values, for bytes, and for texts against numbers.

    Texts are compared value by value; texts without a count of their own count as one. Numbers are
    compared by the bars of their chart, so that one outlier is no drift; TFDV compares 10 buckets
    of each side's own range. Nulls, NaN and infinities do not count.
    """
    kinds = value_type(first.type), value_type(second.type)
    if pa.types.is_binary(kinds[0]) or pa.types.is_binary(kinds[1]):
        return None
    if isinstance(first.values, TextStatistics) and isinstance(second.values, TextStatistics):
        return divergence_of_counts(*_text_counts(first.values, second.values))
    if isinstance(first.values, NumberStatistics) and isinstance(second.values, NumberStatistics):
        return divergence_of_counts(*_number_counts(first.values, second.values, kinds[0]))
    return None


def divergence_of_protos(first: _Feature, second: _Feature) -> Divergence | None:
    """Returns the divergence of two features of TFDV's statistics.

    Texts are those of the rank histograms, numbers the finite ones of the standard histograms.
    """
    left, right = rank_counts(first), rank_counts(second)
    if left and right:
        texts = sorted({*left, *right})
        counts = (np.array([side.get(text, 0.0) for text in texts]) for side in (left, right))
        return divergence_of_counts(*counts)
    histograms = [
        histogram
        for feature in (first, second)
        for histogram in feature.num_stats.histograms[:1]
        if histogram.type == statistics_pb2.Histogram.STANDARD
    ]
    if len(histograms) < 2:
        return None
    return divergence_of_counts(*finite_cells_of_histograms(*histograms))


def _text_counts(first: TextStatistics, second: TextStatistics) -> list[Counts]:
    """Returns each text's count on both sides.

    The last entry has all texts that are not kept.
    """
    encoded = pa.concat_arrays([first.values, second.values]).dictionary_encode()
    places, number = encoded.indices.to_numpy(), len(encoded.dictionary)
    counted = []
    for text, indices in (
        (first, places[: len(first.values)]),
        (second, places[len(first.values) :]),
    ):
        counts = np.bincount(indices, weights=text.counts, minlength=number)
        counted.append(np.append(counts, max(0.0, text.count - counts.sum())))
    return counted


def _number_counts(
    first: NumberStatistics, second: NumberStatistics, kind: pa.DataType
) -> list[Counts]:
    """Returns the counts of both sides' numbers in the same bars.

    If both have few values, each value has a bar.
    """
    numbers = [first, second]
    if not all(number.moments.count for number in numbers):
        return [np.zeros(1), np.zeros(1)]
    if all(number.exact and len(number.values) <= FEW_VALUES for number in numbers):
        values = np.unique(np.concatenate([number.values.astype(np.float64) for number in numbers]))
        edges = np.append(values, np.inf)
    else:
        edges = common_axis(numbers, kind, BARS).edges
    return [bar_shares(number, edges) * _known_count(number) for number in numbers]


def _known_count(number: NumberStatistics) -> float:
    """Returns the count of values, or one with the error of points.

    Each of m points stands for 1/m of the values, so that a bar's share is off by about 1/m.
    """
    count = number.moments.count
    return count if number.exact else min(count, len(number.values) ** 2 / _BARS_OF_POINTS)
