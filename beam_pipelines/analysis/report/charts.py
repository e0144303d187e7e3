"""Draws features' charts: outlines of distributions and bars of frequent values.

All splits share a chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.description import Show
from beam_pipelines.analysis.drift import bar_shares, common_axis
from beam_pipelines.analysis.report.markup import BLANK, SPLIT_COLORS, escaped
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.formatting import shorten, show_share

# So many of each split's most frequent texts are candidates for the texts that are shown.
_CANDIDATES = 1000


# Largest number of a chart's bars, and its height in the units of its paths. In page.css, a unit of
# height is a pixel in details, and a quarter of one elsewhere.
_BARS, _HEIGHT = 60, 170


class Frequent(NamedTuple):
    """A frequent value as text, and its count in each split."""

    value: str
    counts: tuple[int, ...]


def frequent_values(columns: Sequence[ColumnStatistics], number: int, show: Show) -> list[Frequent]:
    """Returns a column's most frequent values over all splits.

    Numbers with more than ``number`` values, and bytes, have none.

    Texts are sorted by their summed shares, numbers by value. A text's count is 0 in a split that
    does not have it among its 1,000 most frequent texts.
    """
    values = [column.values for column in columns]
    texts = [text for text in values if isinstance(text, TextStatistics)]
    if texts:
        kind = value_type(columns[0].type)
        return [] if pa.types.is_binary(kind) else _frequent_texts(texts, number)
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    few = sorted({value for item in numbers for value in item.values[: number + 1].tolist()})
    if len(few) > number or not all(item.distinct == len(item.values) for item in numbers):
        return []
    return [
        Frequent(
            show(value), tuple(int(item.counts[item.values == value].sum()) for item in numbers)
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


def draw_values(values: Sequence[Frequent], totals: Sequence[int]) -> str:
    """Returns a bar for each value and split as HTML.

    The longest one fills its line.

    Args:
      values: to be shown; their shares are the first split's.
      totals: number of values in each split.
    """
    shares = [
        [count / max(1, total) for count, total in zip(item.counts, totals, strict=True)]
        for item in values
    ]
    longest, lines = max(map(max, shares), default=0.0) or 1.0, []
    for item, line in zip(values, shares, strict=True):
        first, *others = (f"{100 * part / longest:.3g}%" for part in line)
        marks = (
            f"<i class=s{split % SPLIT_COLORS} style=left:{width}></i>"
            for split, width in enumerate(others, 1)
        )
        value = f"<bdi>{escaped(shorten(item.value, 40))}</bdi>" if item.value.strip() else BLANK
        share = escaped(show_share(item.counts[0], totals[0]))
        lines.append(f"{value}<p><b style=width:{first}></b>{''.join(marks)}</p>{share}")
    return f"<div class=bars>\n{''.join(lines)}</div>"


def draw_distributions(
    features: Sequence[Sequence[ColumnStatistics]], shows: Sequence[Show]
) -> list[str]:
    """Returns the outlines of each numeric column's distributions as HTML.

    Without finite numbers it is empty. Each split is scaled to its own number of values. The
    outermost bars include the values beyond the 1st and the 99th percentile.
    """
    found, charts = [""] * len(features), {}
    for place, columns in enumerate(features):
        values = [column.values for column in columns]
        numbers = [one for one in values if isinstance(one, NumberStatistics)]
        if any(one.moments.count for one in numbers):
            kind = value_type(columns[0].type)
            charts[place] = numbers, common_axis(numbers, kind, _BARS), pa.types.is_floating(kind)
    paths = _paths([(numbers, axis.edges) for numbers, axis, _ in charts.values()])
    for place, (numbers, axis, is_floating) in charts.items():
        ends = axis.low, axis.high
        low, high = (escaped(shows[place](end if is_floating else round(end))) for end in ends)
        about, scale = (", logarithmic", "log") if axis.logarithmic else ("", "")
        own = enumerate(zip(numbers, paths, strict=False))  # the paths of other charts follow
        drawn = [
            f'<path class=s{split % SPLIT_COLORS} d="{path}"/>'
            for split, (one, path) in own
            if one.moments.count
        ]
        found[place] = (
            f'<svg viewBox="0 0 {len(axis.edges) - 1} {_HEIGHT}" preserveAspectRatio=none role=img '
            f'aria-label="Distribution from {low} to {high}{about}">{"".join(drawn)}</svg>'
            f"<p class=ends aria-hidden=true>{low}<b>{scale}</b>{high}</p>"
        )
    return found


def _paths(
    charts: Sequence[tuple[Sequence[NumberStatistics], npt.NDArray[np.float64]]],
) -> Iterator[str]:
    """Yields the outline of each split's bars as an SVG path.

    Each bar has a width of 1. Numbers of a chart have the same edges.
    """
    if not charts:
        return
    sides = [(one, edges) for numbers, edges in charts for one in numbers]
    heights = bar_shares([one for one, _ in sides], [edges for _, edges in sides])
    bars = [len(numbers) * (len(edges) - 1) for numbers, edges in charts]
    heights /= np.repeat(np.maximum.reduceat(heights, np.cumsum([0, *bars[:-1]])), bars)
    floor, highest = _HEIGHT - 1, _HEIGHT - 3
    tops = (floor - np.rint(highest * heights)).astype(int)
    firsts = np.cumsum([0, *(len(edges) - 1 for _, edges in sides[:-1])])
    is_step = np.append(True, tops[1:] != tops[:-1])
    is_step[firsts] = True
    places = np.flatnonzero(is_step)
    steps = np.column_stack([tops[places], np.diff(places, append=len(tops))])
    numbers_of_steps = np.add.reduceat(is_step.astype(int), firsts).tolist()
    shapes = [f"M0 {floor}{'V%dh%d' * number}V{floor}Z" for number in numbers_of_steps]
    yield from ("\n".join(shapes) % tuple(steps.ravel().tolist())).split("\n")
