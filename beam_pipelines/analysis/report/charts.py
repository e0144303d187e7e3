"""Computes a feature's charts: outlines of distributions and bars of frequent values.

All splits share a chart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.description import Show
from beam_pipelines.analysis.drift import bar_shares, common_axis
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.formatting import show_share, show_value

# So many of each split's most frequent texts are candidates for the texts that are shown.
_CANDIDATES = 1000


# Largest number of a chart's bars, and its height in the units of its paths. In page.css, a unit of
# height is a pixel in details, and a quarter of one elsewhere.
_BARS, _HEIGHT = 60, 170


class Frequent(NamedTuple):
    """A frequent value as text, and its count in each split."""

    value: str
    counts: tuple[int, ...]


class Bar(NamedTuple):
    """Bars of a frequent value, one for each split.

    ``share`` is the first split's. ``widths`` are in per cent.
    """

    value: str
    share: str
    widths: tuple[str, ...]


class Outlines(NamedTuple):
    """Outlines of a column's distributions.

    Attributes:
      bars, height: width and height of the chart, in the units of the paths.
      paths: (number of the split, SVG path).
      low, high: values at the ends of the axis.
      is_logarithmic: whether the x axis is logarithmic.
    """

    bars: int
    height: int
    paths: tuple[tuple[int, str], ...]
    low: str
    high: str
    is_logarithmic: bool


def frequent_values(
    columns: Mapping[str, ColumnStatistics], number: int, show: Show = show_value
) -> list[Frequent]:
    """Returns a column's most frequent values over all splits.

    Numbers with more than ``number`` values, and bytes, have none.

    Texts are sorted by their summed shares, numbers by value. A text's count is 0 in a split that
    does not have it among its 1,000 most frequent texts.
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
            show(value, kind),
            tuple(int(item.counts[item.values == value].sum()) for item in numbers),
        )
        for value in few
    ]


def _frequent_texts(texts: Sequence[TextStatistics], number: int) -> list[Frequent]:
    candidates = [text.value_counts.frequent(_CANDIDATES) for text in texts]
    encoded = pa.concat_arrays([values for values, _ in candidates]).dictionary_encode()
    counts = np.zeros((len(texts), len(encoded.dictionary)), np.int64)
    shares, start = np.zeros(counts.shape[1]), 0
    for split, (text, (_, found)) in enumerate(zip(texts, candidates, strict=True)):
        places = encoded.indices.slice(start, len(found)).to_numpy()
        counts[split, places], start = found, start + len(found)
        shares += counts[split] / max(1, text.count)
    rare = len(shares) - number
    places = np.flatnonzero(shares >= (np.partition(shares, rare)[rare] if rare > 0 else 0))
    values = encoded.dictionary.take(pa.array(places)).to_pylist()
    top = sorted(zip((-shares[places]).tolist(), values, places.tolist(), strict=True))[:number]
    return [Frequent(value, tuple(counts[:, place].tolist())) for _, value, place in top]


def bars(values: Iterable[Frequent], totals: Sequence[int]) -> list[Bar]:
    """Returns a bar for each value.

    Args:
      values: to be shown.
      totals: number of values in each split.
    """
    shares = [
        [count / max(1, total) for count, total in zip(item.counts, totals, strict=True)]
        for item in values
    ]
    longest = max((max(line) for line in shares), default=0.0) or 1.0
    return [
        Bar(
            item.value,
            show_share(item.counts[0], totals[0]),
            tuple(f"{100 * part / longest:.3g}" for part in line),
        )
        for item, line in zip(values, shares, strict=True)
    ]


def distribution(
    columns: Mapping[str, ColumnStatistics], show: Show = show_value
) -> Outlines | None:
    """Returns the outlines of a numeric column's distributions.

    Returns ``None`` without finite numbers. Each split is scaled to its own number of values. The
    outermost bars include the values beyond the 1st and the 99th percentile.
    """
    numbers = [
        column.values for column in columns.values() if isinstance(column.values, NumberStatistics)
    ]
    if not any(number.moments.count for number in numbers):
        return None
    kind = value_type(next(iter(columns.values())).type)
    axis = common_axis(numbers, kind, _BARS)
    heights = [bar_shares(number, axis.edges) for number in numbers]
    highest = max(float(height.max()) for height in heights)
    low, high = (
        show(end if pa.types.is_floating(kind) else round(end), kind)
        for end in (axis.low, axis.high)
    )
    return Outlines(
        bars=len(axis.edges) - 1,
        height=_HEIGHT,
        paths=tuple(
            (split, _outline(height / highest))
            for split, height in enumerate(heights)
            if height.any()
        ),
        low=low,
        high=high,
        is_logarithmic=axis.logarithmic,
    )


def _outline(heights: npt.NDArray[np.float64]) -> str:
    """Returns the outline of bars of relative heights as an SVG path.

    Heights are from 0 to 1. Each bar has a width of 1.
    """
    floor, highest = _HEIGHT - 1, _HEIGHT - 3
    tops = (floor - np.round(highest * heights).astype(int)).tolist()
    bars = (f"V{top}h{len(list(equal))}" for top, equal in itertools.groupby(tops))
    return f"M0 {floor}{''.join(bars)}V{floor}Z"
