"""Drift of a column, and whether chance explains it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type

# Numbers with more values than this are counted in bars.
FEW_VALUES = 5
# Most bars of a small chart, by which drift is measured.
BARS = 24
_FEWEST_BARS, _VALUES_PER_BAR = 12, 5
# Below it, float64 holds every integer.
_EXACT_INTEGERS = 1 << 53
_WIDE = 1e300


class Axis(NamedTuple):
    """Edges of the bars, both end values, and the kind of scale."""

    edges: npt.NDArray[np.float64]
    low: float
    high: float
    logarithmic: bool = False


def common_axis(numbers: Sequence[NumberStatistics], kind: pa.DataType, bars: int) -> Axis:
    """Returns an axis that covers the splits' 1st to 99th percentiles.

    It is logarithmic if it starts at 0 or above and has the median of every split in its first
    twelfth.

    Args:
      numbers: statistics of the splits; at least one has finite values.
      kind: type of the values; all but floats are whole numbers.
      bars: largest number of bars. Whole numbers of a small range have a bar each; few distinct
        values have fewer bars.
    """
    finite = [
        dataclasses.replace(number, minus_infinities=0, plus_infinities=0)
        if number.minus_infinities or number.plus_infinities
        else number
        for number in numbers
    ]
    cuts = [number.percentiles for number in finite if number.count]
    low, high = float(min(cut[1] for cut in cuts)), float(max(cut[99] for cut in cuts))
    if low == high:
        low, high = float(min(cut[0] for cut in cuts)), float(max(cut[100] for cut in cuts))
    if low == high:
        return Axis(np.array([low, high]), low, high)
    whole = not pa.types.is_floating(kind)
    if low >= 0 and max(cut[50] for cut in cuts) - low < (high - low) / 12:
        edges = np.expm1(np.linspace(np.log1p(low), np.log1p(high), bars + 1))
        edges[[0, -1]] = low, high
        return Axis(np.unique(np.round(edges)) if whole else edges, low, high, logarithmic=True)
    if whole and max(abs(low), abs(high)) < _EXACT_INTEGERS:
        width = math.ceil(
            (high - low + 1) / bars
        )  # whole, so that every bar covers as many numbers
        return Axis(low + width * np.arange(math.ceil((high - low + 1) / width) + 1.0), low, high)
    # Rounded values form steps; a bar of a few steps hides them.
    bars = min(
        bars, max(_FEWEST_BARS, max(len(number.values) for number in numbers) // _VALUES_PER_BAR)
    )
    scale = (
        4.0 if high - low > _WIDE else 1.0
    )  # beyond it, the difference may leave the range of float64
    return Axis(np.linspace(low / scale, high / scale, bars + 1) * scale, low, high)


def bar_shares(
    numbers: Sequence[NumberStatistics], edges: Sequence[npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """Returns float64[all bars]: each bar's share of the finite values.

    Values outside the edges count in the outermost bars.

    Args:
      numbers: one or more.
      edges: of the bars of each of them.
    """
    places, before = [], 0
    for number, own in zip(numbers, edges, strict=True):
        inner = number.values.astype(np.float64).searchsorted(own[:-1])
        inner[0] = 0
        places.append(inner + before)
        before += len(number.values)
    starts = np.concatenate(places)
    counts = np.concatenate([*(number.counts for number in numbers), np.zeros(1, np.int64)])
    # For a bar without values ``reduceat`` gives the first count of the next one.
    sums = np.add.reduceat(counts, starts) * (np.diff(starts, append=before) > 0)
    totals = [max(1, number.moments.count) for number in numbers]
    return np.asarray(sums / np.repeat(totals, [len(own) - 1 for own in edges]))


# Drift from here on is large, unless chance explains it.
LARGE_DRIFT = 0.1
# Chance explains what happens more often than this by chance.
CHANCE = 0.01
# Values that a cell of its own has in the smaller sample, if both are of one distribution.
_LEAST_EXPECTED = 1
# Variances below are rounding errors.
_ROUNDING = 1e-9
# Equal shares of different counts differ by so much at most.
_EQUAL_BITS = 1e-12
# Bars of equal shares for which the error of points is that of a sample.
_BARS_OF_POINTS = 50

Counts = npt.NDArray[np.float64]


class Divergence(NamedTuple):
    """The difference of two distributions.

    Attributes:
      bits: Jensen–Shannon divergence, 0 for equal and 1 for disjoint distributions.
      chi_square: Pearson's statistic of the hypothesis that both are samples of one distribution.
      freedom: its degrees of freedom.
      variance: of the statistic, if the rows of both samples are dealt to them at random.
      bits_of_cells: the divergence of that statistic's cells; rare values share some.
      is_known: whether other samples of the same rows would differ more or less; not if each value
        occurs once.
    """

    bits: float
    chi_square: float
    freedom: int
    variance: float
    bits_of_cells: float
    is_known: bool = True

    @property
    def beyond_chance(self) -> float:
        """The divergence without the part that few rows have by chance.

        Samples of one distribution have a chi-square of about its degrees of freedom.
        """
        if self.chi_square <= self.freedom:
            return 0.0
        return self.bits_of_cells * (1 - self.freedom / self.chi_square)

    @property
    def p_value(self) -> float:
        """Probability of at least this difference in samples of one distribution.

        The statistic is compared with a chi-square of its mean and variance.
        """
        if not self.variance or self.chi_square <= 0:
            return 1.0
        scale = self.variance / (2 * self.freedom)
        tail = chi_square_tail(self.chi_square / scale, self.freedom / scale)
        # The approximation of the tail does not hold far below the mean.
        return tail if self.chi_square > self.freedom else max(tail, 0.5)


def jensen_shannon(left: Counts, right: Counts) -> float:
    """Returns the Jensen–Shannon divergence of two arrays of weights.

    It is in bits, from 0 to 1; less than 1e-12, the rounding error, is 0. Both sides must have
    weight.
    """
    p, q = left / left.sum(), right / right.sum()
    mean = (p + q) / 2
    divergence = (_divergence(p, mean) + _divergence(q, mean)) / 2
    return 0.0 if divergence < _EQUAL_BITS else min(1.0, divergence)


def _divergence(p: Counts, q: Counts) -> float:
    """Returns the Kullback–Leibler divergence in bits.

    ``q`` is not 0 where ``p`` is not.
    """
    some = (p > 0) & (q > 0)
    return float((p[some] * np.log2(p[some] / q[some])).sum())


def chi_square_tail(value: float, freedom: float) -> float:
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
    sums = float(first.sum()), float(second.sum())
    if not all(sums):
        return None
    cells = _without_rare(first, second)
    both = cells[0] + cells[1]
    ratio = math.sqrt(sums[1] / sums[0])
    differences = cells[0] * ratio - cells[1] / ratio
    chi_square = float((differences * differences / both).sum())
    variance = _variance_of_chi_square(sums, both)
    is_known = variance > 0 or np.count_nonzero(first + second) == 1
    return Divergence(
        jensen_shannon(first, second),
        chi_square,
        len(both) - 1,
        variance,
        jensen_shannon(*cells),
        is_known,
    )


def _without_rare(first: Counts, second: Counts) -> list[Counts]:
    """Returns the counts in cells that both samples together fill.

    Rare values share cells with those that are about as frequent in both samples together. This
    sum does not tell in which sample they are, so that chance still explains samples of one
    distribution.
    """
    sums, both = (first.sum(), second.sum()), first + second
    some = both > 0
    is_rare = some & (both * (min(sums) / sum(sums)) < _LEAST_EXPECTED)
    alone = some & ~is_rare
    if not is_rare.any():
        return [first[alone], second[alone]]
    size = np.log2(np.maximum(both[is_rare], 1)).astype(np.int64)
    _, group = np.unique(size, return_inverse=True)
    return [
        np.append(side[alone], np.bincount(group, weights=side[is_rare]))
        for side in (first, second)
    ]


def _variance_of_chi_square(rows: tuple[float, float], columns: Counts) -> float:
    """Returns the variance of Pearson's statistic of such a table.

    Rows are dealt to both samples at random (Haldane 1940, Dawson 1954). It is far above that of
    the chi-square distribution if many cells are small.
    """
    total, cells = sum(rows), len(columns)
    if cells < 2 or total <= 3:
        return 0.0
    of_rows = (total * sum(1 / row for row in rows) - 4) / (total - 2)
    of_cells = (total * float((1 / columns).sum()) - cells * cells) / (total - 2)
    free_rows = (total - 2) / (total - 1) - of_rows
    free_cells = (total - cells) * (cells - 1) / (total - 1) - of_cells
    variance = 2 * total / (total - 3) * free_rows * free_cells
    variance += total * total / (total - 1) * of_rows * of_cells
    return variance if variance > _ROUNDING * cells else 0.0


def divergence(first: ColumnStatistics, second: ColumnStatistics) -> Divergence | None:
    """Returns the divergence of two columns' values.

    It is ``None`` for columns without values, for bytes, and for texts against numbers.

    Texts are compared value by value; those that a side may have without a count of their own share
    a cell. Numbers are compared by the bars of their chart, so that one outlier is no drift; TFDV
    compares 10 buckets of each side's own range. Nulls, NaN and infinities do not count.
    """
    kinds = value_type(first.type), value_type(second.type)
    if pa.types.is_binary(kinds[0]) or pa.types.is_binary(kinds[1]):
        return None
    if isinstance(first.values, TextStatistics) and isinstance(second.values, TextStatistics):
        return divergence_of_counts(*_text_counts(first.values, second.values))
    if isinstance(first.values, NumberStatistics) and isinstance(second.values, NumberStatistics):
        return divergence_of_counts(*_number_counts(first.values, second.values, kinds[0]))
    return None


def _text_counts(first: TextStatistics, second: TextStatistics) -> list[Counts]:
    """Returns each text's count on both sides.

    The last entry has the texts that a side may or may not have, as it keeps the frequent ones
    only. Its other counts are as near to those of the other side as they may be.
    """
    encoded = pa.concat_arrays([first.values, second.values]).dictionary_encode()
    places, number = encoded.indices.to_numpy(), len(encoded.dictionary)
    parts = np.split(places, [len(first.values)])
    counted = [
        np.bincount(part, weights=side.counts, minlength=number)
        for part, side in zip(parts, (first, second), strict=True)
    ]
    is_open = np.zeros(number, bool)
    for here, there, side, other in ((0, 1, first, second), (1, 0, second, first)):
        if side.undercount and other.count:
            expected = counted[there] * (side.count / other.count)
            kept = np.isin(np.arange(number), parts[here])
            is_open |= ~kept & (expected <= side.undercount)
            counted[here] = np.clip(expected, counted[here], counted[here] + side.undercount)
    return [
        np.append(counts[~is_open], max(0.0, side.count - counts[~is_open].sum()))
        for counts, side in zip(counted, (first, second), strict=True)
    ]


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
    shares = np.split(bar_shares(numbers, [edges, edges]), 2)
    return [own * _known_count(number) for own, number in zip(shares, numbers, strict=True)]


def _known_count(number: NumberStatistics) -> float:
    """Returns the count of values, or one with the error of points.

    Each of m points stands for 1/m of the values, so that a bar's share is off by about 1/m.
    """
    count = number.moments.count
    return count if number.exact else min(count, len(number.values) ** 2 / _BARS_OF_POINTS)
