"""Tables of a feature's details: summary, quantiles, values, drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.compare import Drift
from beam_pipelines.analysis.epochs import Show
from beam_pipelines.analysis.report.charts import Frequent
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import MAX_DISTINCT, NumberStatistics
from beam_pipelines.analysis.statistics.text import LARGE_BYTES, TextStatistics
from beam_pipelines.core.arrow.columns import is_date, value_type
from beam_pipelines.core.formatting import MINUS, show_number, show_share, show_spread

_PERCENTILES = {
    0: "Min",
    1: "1%",
    5: "5%",
    25: "25%",
    50: "Median",
    75: "75%",
    95: "95%",
    99: "99%",
    100: "Max",
}


class Cell(NamedTuple):
    """Content of a table's cell.

    Attributes:
      text: a value, or the lower end of a range.
      end: the upper end of a range, or ``""``.
      small: a remark after the value.
      is_high: whether the value is highlighted.
      bar: width of a bar in pixels, or ``""``.
    """

    text: str
    end: str = ""
    small: str = ""
    is_high: bool = False
    bar: str = ""


class DetailTable(NamedTuple):
    """A table of a feature's details.

    Attributes:
      title: head of the first column.
      heads: heads of the other columns.
      lines: (name, cells).
      style: a class of page.css.
    """

    title: str
    heads: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Cell]]]
    style: str = ""


_Columns = Mapping[str, ColumnStatistics]
_Lines = Iterator[tuple[str, list[Cell]]]


def totals_of(columns: _Columns) -> list[int]:
    """Returns the number of values in each split."""
    return [column.values.count for column in columns.values()]


def show_distinct(column: ColumnStatistics) -> Cell:
    """Returns the number of distinct values, and whether it is an estimate."""
    number = column.values.distinct
    if not column.is_counted:
        return Cell("–")
    if number is None:
        return Cell(f">{MAX_DISTINCT:,}")
    if isinstance(column.values, TextStatistics) and not column.values.exact:
        # Longer values count as one beyond the exact bounds.
        sign = "≥" if column.values.max_bytes > LARGE_BYTES else "≈"
        return Cell(f"{sign}{number:,}")
    return Cell(f"{number:,}")


class Lengths(NamedTuple):
    """Shortest, mean and longest length."""

    shortest: int
    mean: float
    longest: int


def text_lengths(splits: Sequence[TextStatistics]) -> tuple[str, list[Lengths | None]]:
    """Returns the unit and each split's lengths; ``None`` without texts.

    The unit is ``characters`` if all texts were counted. Of bytes, and of more texts than are
    counted, only lengths in ``bytes`` are known.
    """
    if all(values.exact and pa.types.is_string(values.values.type) for values in splits):
        return "characters", [_in_characters(values) for values in splits]
    lengths = [
        Lengths(values.min_bytes, values.average_bytes, values.max_bytes) if values.count else None
        for values in splits
    ]
    return "bytes", lengths


def _in_characters(values: TextStatistics) -> Lengths | None:
    if not values.count:
        return None
    lengths = pc.utf8_length(values.values).to_numpy().astype(np.int64)
    mean = float((lengths * values.counts).sum() / values.count)
    return Lengths(int(lengths.min()), mean, int(lengths.max()))


def show_drift(drift: Drift) -> Cell:
    """Returns the bits of a drift, with three decimals."""
    text = "<0.001" if 0 < drift.value < 0.001 else f"{drift.value:.3f}" if drift.value else "0"
    return Cell(text, is_high=drift.is_high)


def detail_tables(
    columns: _Columns, values: Sequence[Frequent], drifts: Sequence[Drift], show: Show
) -> Iterator[DetailTable]:
    """Yields the tables of the details; some have no lines."""
    splits = list(columns)
    first = next(iter(columns.values()))
    yield DetailTable("Summary", splits, list(_summary(columns, show)))
    if isinstance(first.values, NumberStatistics):
        yield DetailTable("Quantiles", splits, list(_quantiles(columns, show)))
    few = isinstance(first.values, NumberStatistics) or all(
        (column.values.distinct or 0) <= len(values) for column in columns.values()
    )
    totals = totals_of(columns)
    counts = [
        (
            item.value,
            [_count(count, total) for count, total in zip(item.counts, totals, strict=True)],
        )
        for item in values
    ]
    yield DetailTable("Values" if few else "Most frequent values", splits, counts, "shares")
    if len(drifts) > 1:
        compared = [
            (f"{drift.split} against {drift.reference}", [show_drift(drift)]) for drift in drifts
        ]
        yield DetailTable("Drift", ["Divergence"], compared, "plain")


def figures(columns: _Columns, show: Show) -> dict[str, list[Cell]]:
    """Returns name -> a cell for each split, of a column."""
    return dict([*_summary(columns, show), *_quantiles(columns, show)])


def _count(count: int, total: int) -> Cell:
    return Cell(f"{count:,}", small=show_share(count, total))


def _summary(columns: _Columns, show: Show) -> _Lines:
    """Yields (name, a cell for each split)."""
    stats = list(columns.values())
    values = [column.values for column in stats]
    kind = value_type(stats[0].type)
    yield "Present", [Cell(f"{column.present:,}") for column in stats]
    yield "Missing", [_count(column.missing, column.present + column.missing) for column in stats]
    if pa.types.is_list(stats[0].type):
        rows = [column.innermost for column in stats]
        yield "Values", [Cell(f"{found.num_values:,}") for found in rows]
        yield (
            "Values in a row",
            [Cell(f"{found.min_values:,} – {found.max_values:,}") for found in rows],
        )
        yield "Mean values in a row", [Cell(show_number(column.average_values)) for column in stats]
    yield "Distinct", [show_distinct(column) for column in stats]
    numbers = [item for item in values if isinstance(item, NumberStatistics)]
    if numbers:
        # The mean of a bool is a number.
        mean_kind = pa.int64() if pa.types.is_boolean(kind) else kind
        means = [item.mean if item.count else None for item in numbers]
        yield "Mean", [Cell(show(mean, mean_kind)) for mean in means]
        yield (
            "Std. deviation",
            [
                Cell(show_spread(item.standard_deviation, kind) if item.count else "–")
                for item in numbers
            ],
        )
        if not is_date(kind):
            yield "Zeros", [_count(item.zeros, item.count) for item in numbers]
        for name, field in (
            ("NaN", "nans"),
            (f"{MINUS}∞", "minus_infinities"),
            ("∞", "plus_infinities"),
        ):
            cells = [_count(getattr(item, field), item.count + item.nans) for item in numbers]
            if any(getattr(item, field) for item in numbers):
                yield name, cells
    yield from _weighted(stats, show)
    texts = [item for item in values if isinstance(item, TextStatistics)]
    if texts:
        yield from _lengths(texts)
        if any(item.undercount for item in texts):
            yield "Counts too low by up to", [Cell(f"{item.undercount:,}") for item in texts]


def _weighted(columns: Sequence[ColumnStatistics], show: Show) -> _Lines:
    """Yields what the rows' weights change; nothing without weights."""
    presence = [column.weighted for column in columns if column.weighted is not None]
    if len(presence) == len(columns):
        shares = [show_share(one.missing, one.present + one.missing) for one in presence]
        yield "Missing, by weight", [Cell(share) for share in shares]
    moments = [
        column.values.weighted.moments
        for column in columns
        if isinstance(column.values, NumberStatistics) and column.values.weighted is not None
    ]
    if len(moments) == len(columns):
        kind = value_type(columns[0].type)
        mean_kind = pa.int64() if pa.types.is_boolean(kind) else kind
        means = [show(one.mean if one.weight else None, mean_kind) for one in moments]
        yield "Mean, by weight", [Cell(mean) for mean in means]


def _lengths(texts: Sequence[TextStatistics]) -> _Lines:
    """Yields the lengths of texts."""
    unit, lengths = text_lengths(texts)
    known = [found or Lengths(0, 0.0, 0) for found in lengths]
    yield f"Shortest, {unit}", [Cell(f"{found.shortest:,}") for found in known]
    means = [show_number(found.mean) if found else "–" for found in lengths]
    yield f"Mean length, {unit}", [Cell(mean) for mean in means]
    yield f"Longest, {unit}", [Cell(f"{found.longest:,}") for found in known]


def _quantiles(columns: _Columns, show: Show) -> _Lines:
    """Yields percentiles, from the minimum to the maximum."""
    kind = value_type(next(iter(columns.values())).type)
    cuts = [
        column.values.percentiles.tolist()
        for column in columns.values()
        if isinstance(column.values, NumberStatistics)
    ]
    if any(cuts):
        whole = not pa.types.is_floating(kind)
        for place, name in _PERCENTILES.items():
            values = [cut[place] if cut else None for cut in cuts]
            yield (
                name,
                [Cell(show(_whole(value) if whole else value, kind)) for value in values],
            )


def _whole(value: float | None) -> float | None:
    return None if value is None else round(value)
