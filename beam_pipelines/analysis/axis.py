"""The bars in which numbers of several splits are counted together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.numeric import NumberStatistics

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
    cuts = [number.cumulated(100)[0] for number in finite if number.count]
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


def bar_shares(number: NumberStatistics, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns float64[bars]: each bar's share of the finite values.

    Values outside the edges count in the outermost bars.
    """
    bars = len(edges) - 1
    places = (
        np.searchsorted(edges, number.values.astype(np.float64), side="right").clip(1, bars) - 1
    )
    weights = np.bincount(places, weights=number.counts, minlength=bars)
    return np.asarray(weights / max(1, number.moments.count))
