"""Tables of a feature's details: summary, quantiles, values, drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.analysis.compare import Drift
from beam_pipelines.analysis.description import Figure
from beam_pipelines.analysis.report.charts import Frequent
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.core.formatting import show_share


class Cell(NamedTuple):
    """Content of a table's cell.

    Attributes:
      text: a value, or the lower end of a range.
      end: the upper end of a range, or ``""``.
      small: a remark after the value.
      is_high: whether the value is highlighted.
    """

    text: str
    end: str = ""
    small: str = ""
    is_high: bool = False


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


def totals_of(columns: _Columns) -> list[int]:
    """Returns the number of values in each split."""
    return [column.values.count for column in columns.values()]


def cell_of(figure: Figure) -> Cell:
    """Returns a figure as a cell."""
    return Cell(figure.text, small=figure.share)


def show_drift(drift: Drift) -> Cell:
    """Returns the bits of a drift, with three decimals."""
    text = "<0.001" if 0 < drift.value < 0.001 else f"{drift.value:.3f}" if drift.value else "0"
    return Cell(text, is_high=drift.is_high)


def detail_tables(
    columns: _Columns,
    figures: Mapping[str, Sequence[Figure]],
    cuts: Mapping[str, Sequence[Figure]],
    values: Sequence[Frequent],
    drifts: Sequence[Drift],
) -> Iterator[DetailTable]:
    """Yields the tables of the details; some have no lines.

    Args:
      columns: split -> statistics of the feature.
      figures, cuts: its description, and its quantiles.
      values: frequent ones.
      drifts: from other splits and the baseline.
    """
    splits = list(columns)
    first = next(iter(columns.values()))
    for title, found in (("Summary", figures), ("Quantiles", cuts)):
        lines = [(name, list(map(cell_of, own))) for name, own in found.items()]
        yield DetailTable(title, splits, lines)
    few = isinstance(first.values, NumberStatistics) or all(
        (column.values.distinct or 0) <= len(values) for column in columns.values()
    )
    totals = totals_of(columns)
    counts = [
        (
            item.value,
            [
                Cell(f"{count:,}", small=show_share(count, total))
                for count, total in zip(item.counts, totals, strict=True)
            ],
        )
        for item in values
    ]
    yield DetailTable("Values" if few else "Most frequent values", splits, counts, "shares")
    if len(drifts) > 1:
        compared = [
            (f"{drift.split} against {drift.reference}", [show_drift(drift)]) for drift in drifts
        ]
        yield DetailTable("Drift", ["Divergence"], compared, "plain")
