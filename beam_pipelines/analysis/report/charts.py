"""Draws a feature's values, all splits over each other: outlines of distributions as SVG, frequent
values as bars.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.report.markup import SPLIT_COLORS, share, shown
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.table import ColumnStatistics, value_type
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.formatting import show_value

# Numbers with more values than this are drawn as a distribution.
FEW_VALUES = 5
# Of texts, so many of a split's most frequent values are candidates for those that are shown.
_CANDIDATES = 1000
_FEWEST_BARS, _VALUES_PER_BAR = 12, 5
# Below it, float64 holds every integer.
_EXACT_INTEGERS = 1 << 53
_WIDE = 1e300


class Chart(NamedTuple):
    """How finely a distribution is drawn: its largest number of bars, and the number of different
    heights.
    """

    bars: int
    height: int


# In half pixels, and in pixels, of page.css.
SMALL = Chart(bars=24, height=88)
LARGE = Chart(bars=60, height=170)  # shows the same once more, to those who see it


class Frequent(NamedTuple):
    """A frequent value, as people read it, and how often it occurs in each split."""

    value: str
    counts: tuple[int, ...]


class Axis(NamedTuple):
    """Edges of the bars, the values at both ends, and whether the widths grow with the values."""

    edges: npt.NDArray[np.float64]
    low: float
    high: float
    logarithmic: bool = False


def frequent_values(columns: Mapping[str, ColumnStatistics], number: int) -> list[Frequent]:
    """Returns a column's most frequent values over all splits; numbers with more than ``number``
    values have none.

    Texts come by their summed shares, numbers by value. A text's count is 0 where it is not among a
    split's first thousand.
    """
    kind = value_type(next(iter(columns.values())).type)
    values = [column.values for column in columns.values()]
    texts = [text for text in values if isinstance(text, TextStatistics)]
    if texts:
        return [] if pa.types.is_binary(kind) else _frequent_texts(texts, number)
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    few = sorted({value for item in numbers for value in item.values[: number + 1].tolist()})
    if len(few) > number or not all(item.distinct == len(item.values) for item in numbers):
        return []
    return [
        Frequent(
            show_value(value, kind),
            tuple(int(item.counts[item.values == value].sum()) for item in numbers),
        )
        for value in few
    ]


def _frequent_texts(texts: Sequence[TextStatistics], number: int) -> list[Frequent]:
    candidates = [text.value_counts.frequent(_CANDIDATES) for text in texts]
    encoded = pa.concat_arrays([values for values, _ in candidates]).dictionary_encode()
    counts = np.zeros((len(texts), len(encoded.dictionary)), np.int64)
    shares, start = np.zeros(counts.shape[1]), 0
    for split, (text, (_, own)) in enumerate(zip(texts, candidates, strict=True)):
        places = encoded.indices.slice(start, len(own)).to_numpy()
        counts[split, places], start = own, start + len(own)
        shares += counts[split] / max(1, text.count)
    rare = len(shares) - number
    places = np.flatnonzero(shares >= (np.partition(shares, rare)[rare] if rare > 0 else 0))
    values = encoded.dictionary.take(pa.array(places)).to_pylist()
    top = sorted(zip((-shares[places]).tolist(), values, places.tolist(), strict=True))[:number]
    return [Frequent(value, tuple(counts[:, place].tolist())) for _, value, place in top]


def bars(values: Iterable[Frequent], totals: Sequence[int]) -> str:
    """Returns a line for each value: its name, a bar for the first split with a mark for each other
    one, the first's share.

    Args:
      values: to be shown.
      totals: number of values in each split; the lengths of the bars are shares of these.
    """
    shares = [
        [count / max(1, total) for count, total in zip(item.counts, totals, strict=True)]
        for item in values
    ]
    longest = max((max(line) for line in shares), default=0.0)
    lines = [
        f"{shown(item.value, 40)}{_bar(line, longest)}{share(item.counts[0], totals[0])}"
        for item, line in zip(values, shares, strict=True)
    ]
    return f"<div class=bars>{''.join(lines)}</div>" if lines else ""


def _bar(shares: Sequence[float], longest: float) -> str:
    widths = [100 * part / longest for part in shares] if longest else [0.0] * len(shares)
    marks = "".join(
        f"<i class=s{number % SPLIT_COLORS} style=left:{width:.3g}%></i>"
        for number, width in enumerate(widths[1:], 1)
    )
    return f"<p><b style=width:{widths[0]:.3g}%></b>{marks}</p>"


def distribution(columns: Mapping[str, ColumnStatistics], size: Chart) -> str:
    """Returns the distributions of a numeric column over each other, each scaled to its own number
    of values.

    The outermost bars also hold what lies beyond the 1st and the 99th percentile. Nothing for other
    columns, or without values.
    """
    numbers = [
        column.values for column in columns.values() if isinstance(column.values, NumberStatistics)
    ]
    if not any(number.moments.count for number in numbers):
        return ""
    kind = value_type(next(iter(columns.values())).type)
    axis = common_axis(numbers, kind, size.bars)
    heights = [bar_shares(number, axis.edges) for number in numbers]
    highest = max(float(height.max()) for height in heights)
    paths = "".join(
        f'<path class=s{number % SPLIT_COLORS} d="{_outline(height / highest, size)}"/>'
        for number, height in enumerate(heights)
        if height.any()
    )
    low, high = (
        html.escape(show_value(end if pa.types.is_floating(kind) else round(end), kind))
        for end in (axis.low, axis.high)
    )
    scale = ", logarithmic" if axis.logarithmic else ""
    note = "log" if axis.logarithmic else ""
    name = (
        "aria-hidden=true"
        if size is LARGE
        else f'role=img aria-label="Distribution from {low} to {high}{scale}"'
    )
    return (
        f'<svg viewBox="0 0 {len(axis.edges) - 1} {size.height}" preserveAspectRatio=none '
        f"{name}>{paths}</svg>"
        f"<p class=ends aria-hidden=true>{low}<b>{note}</b>{high}</p>"
    )


def common_axis(numbers: Sequence[NumberStatistics], kind: pa.DataType, bars: int) -> Axis:
    """Returns an axis from the 1st to the 99th percentile of all splits; logarithmic if most values
    crowd at its start.

    Args:
      numbers: at least one has finite values.
      kind: of the values; all but floats are whole numbers.
      bars: largest number of bars; whole numbers of a small range have a bar each, few distinct
        values have fewer.
    """
    finite = [
        dataclasses.replace(number, minus_infinities=0, plus_infinities=0) for number in numbers
    ]
    cuts = [number.quantiles(100) for number in finite if number.count]
    low, high = min(cut[1] for cut in cuts), max(cut[99] for cut in cuts)
    if low == high:
        low, high = min(cut[0] for cut in cuts), max(cut[100] for cut in cuts)
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
        )  # whole, so that every bar stands for as many numbers
        return Axis(low + width * np.arange(math.ceil((high - low + 1) / width) + 1.0), low, high)
    # Values that were rounded somewhere lie in steps: bars of a few steps do not show them.
    bars = min(
        bars, max(_FEWEST_BARS, max(len(number.values) for number in numbers) // _VALUES_PER_BAR)
    )
    scale = (
        4.0 if high - low > _WIDE else 1.0
    )  # beyond it, the difference may leave the range of float64
    return Axis(np.linspace(low / scale, high / scale, bars + 1) * scale, low, high)


def bar_shares(number: NumberStatistics, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns each bar's share of the finite values; what lies outside counts in the outermost
    bars.
    """
    bars = len(edges) - 1
    places = (
        np.searchsorted(edges, number.values.astype(np.float64), side="right").clip(1, bars) - 1
    )
    weights = np.bincount(places, weights=number.counts, minlength=bars)
    return np.asarray(weights / max(1, number.moments.count))


def _outline(heights: npt.NDArray[np.float64], size: Chart) -> str:
    """Returns the outline of bars of relative heights (0 to 1) and a width of 1 as an SVG path."""
    floor, room = size.height - 1, size.height - 3
    tops = (floor - np.round(room * heights).astype(int)).tolist()
    bars = ((top, len(list(same))) for top, same in itertools.groupby(tops))
    return f"M0 {floor}" + "".join(f"V{top}h{width}" for top, width in bars) + f"V{floor}Z"
