"""Draws a feature's values as inline SVG or HTML bars, all splits over each other."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.statistics.numeric import NumberStatistics
from beam_pipelines.statistics.table import ColumnStatistics, value_type
from beam_pipelines.statistics.text import TextStatistics

SPLIT_COLORS = 5  # in the template
_TOP_VALUES = 5
_SHOWN_CHARACTERS = 120
_BARS = 24
_BAR_WIDTH, _HEIGHT = 10, 46


def chart(columns: Mapping[str, ColumnStatistics]) -> str:
    """Returns a chart of one feature as HTML: bars of its most frequent values, or the outline of its distribution.

    Args:
      columns: split name -> statistics of the feature there.
    """
    kind = next(iter(columns.values())).type
    if pa.types.is_binary(value_type(kind)):
        return ""
    values = [column.values for column in columns.values()]
    texts = [text for text in values if isinstance(text, TextStatistics)]
    if texts:
        return _text_bars(texts)
    numbers = [number for number in values if isinstance(number, NumberStatistics)]
    few = {value for number in numbers for value in number.values[: _TOP_VALUES + 1].tolist()}
    if not few:
        return ""
    if len(few) <= _TOP_VALUES and all(number.distinct == len(number.values) for number in numbers):
        return _number_bars(numbers, sorted(few), kind)
    return _outlines(numbers, kind)


def number_text(value: float | None, column_type: pa.DataType) -> str:
    """Returns a number as people read it: of dates and times, the date or time it stands for; ``–`` for ``None``."""
    if value is None:
        return "–"
    kind = value_type(column_type)
    if pa.types.is_temporal(kind) and math.isfinite(value):
        stored = pa.scalar(round(value), pa.int32() if pa.types.is_date32(kind) else pa.int64())
        try:
            return str(stored.cast(kind).as_py())[:16]
        except (ValueError, OverflowError):  # beyond what Python's dates can hold
            return plain_number(value)
    return plain_number(value)


def plain_number(value: float) -> str:
    """Returns a number in four digits or so, whole ones in full up to 15."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{value:.4e}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def clipped(text: str) -> str:
    """Returns the first 120 characters of a text."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _text_bars(texts: Sequence[TextStatistics]) -> str:
    shares = [{str(value): count / text.count for value, count in text.top(1000)} for text in texts]
    total: dict[str, float] = {}
    for share in shares:
        for value, part in share.items():
            total[value] = total.get(value, 0.0) + part
    top = sorted(total, key=lambda value: (-total[value], value))[:_TOP_VALUES]
    return _bars({value: [share.get(value, 0.0) for share in shares] for value in top})


def _number_bars(numbers: Sequence[NumberStatistics], values: Sequence[float], kind: pa.DataType) -> str:
    shares: dict[str, list[float]] = {}
    for value in values:
        counts = [int(number.counts[number.values == value].sum()) for number in numbers]
        shares[number_text(value, kind)] = [
            count / max(1, number.count) for count, number in zip(counts, numbers, strict=True)
        ]
    return _bars(shares)


def _bars(shares: Mapping[str, Sequence[float]]) -> str:
    """Returns a line for each value, with a bar for each split as long as its share, and the largest share."""
    if not shares:
        return ""
    longest = max(max(share) for share in shares.values())
    lines = []
    for value, share in shares.items():
        shown = html.escape(clipped(value))
        label = f'<bdi title="{shown}">{shown}</bdi>' if value.strip() else '<bdi class="soft">(blank)</bdi>'
        bars = "".join(
            f'<span class="bar s{number % SPLIT_COLORS}" style="width:{100 * part / longest:.1f}%"></span>'
            for number, part in enumerate(share)
        )
        lines.append(f"{label}<span>{bars}</span><span>{100 * max(share):.1f}%</span>")
    return f'<div class="top">{"".join(lines)}</div>'


class _Axis(NamedTuple):
    """Edges of the bars, and whether their widths grow with the values."""

    edges: npt.NDArray[np.float64]
    logarithmic: bool


def _outlines(numbers: Sequence[NumberStatistics], kind: pa.DataType) -> str:
    """Returns the distributions over each other, each scaled to its own number of values."""
    whole = not pa.types.is_floating(value_type(kind))
    axis = _axis([number for number in numbers if number.moments.count], whole)
    heights = [_heights(number, axis.edges) for number in numbers]
    highest = max(float(height.max()) for height in heights)
    paths = "".join(
        f'<path class="s{number % SPLIT_COLORS}" d="{_steps(height / highest)}"/>'
        for number, height in enumerate(heights)
        if height.any()
    )
    low, high = (
        number_text(round(edge) if whole else edge, kind) for edge in (float(axis.edges[0]), float(axis.edges[-1]))
    )
    scale = ", logarithmic" if axis.logarithmic else ""
    note = "<span>log</span>" if axis.logarithmic else ""
    width = _BAR_WIDTH * (len(axis.edges) - 1)
    return (
        f'<svg viewBox="0 0 {width} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="Distribution from {low} to {high}{scale}">{paths}</svg>'
        f'<div class="ends" aria-hidden="true"><span>{low}</span>{note}<span>{high}</span></div>'
    )


def _axis(numbers: Sequence[NumberStatistics], whole: bool) -> _Axis:
    """Returns the axis from the 1st to the 99th percentile of all splits; logarithmic if most values crowd at its start."""
    cuts = [dataclasses.replace(number, minus_infinities=0, plus_infinities=0).quantiles(100) for number in numbers]
    low, high = min(cut[1] for cut in cuts), max(cut[99] for cut in cuts)
    if low == high:
        low, high = min(cut[0] for cut in cuts), max(cut[100] for cut in cuts)
    if low >= 0 and max(cut[50] for cut in cuts) - low < (high - low) / 12:
        edges = np.expm1(np.linspace(np.log1p(low), np.log1p(high), _BARS + 1))
        edges[[0, -1]] = low, high
        return _Axis(np.unique(np.round(edges)) if whole else edges, logarithmic=True)
    return _Axis(np.linspace(low / 2, high / 2, _BARS + 1) * 2, logarithmic=False)


def _heights(number: NumberStatistics, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns each bar's share of the values; what lies outside counts in the outermost bars."""
    bars = len(edges) - 1
    places = np.searchsorted(edges, number.values.astype(np.float64), side="right").clip(1, bars) - 1
    weights = np.bincount(places, weights=number.counts, minlength=bars)
    return np.asarray(weights / max(1, number.moments.count))


def _steps(heights: npt.NDArray[np.float64]) -> str:
    """Returns the outline of bars of relative heights (0 to 1) as an SVG path."""
    points = "".join(f"V{_HEIGHT - 1 - (_HEIGHT - 3) * height:.1f}h{_BAR_WIDTH}" for height in heights.tolist())
    return f"M0 {_HEIGHT - 1}{points}V{_HEIGHT - 1}Z"
