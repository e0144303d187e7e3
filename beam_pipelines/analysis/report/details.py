"""Tables of a feature's details: summary, quantiles, values, drift."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.analysis.compare import Drift
from beam_pipelines.analysis.description import Figure, counted
from beam_pipelines.analysis.report.charts import Frequent
from beam_pipelines.analysis.report.markup import BLANK, escaped, show_figure
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.core.formatting import shorten


class DetailTable(NamedTuple):
    """A table of a feature's details.

    Attributes:
      title: head of the first column.
      heads: heads of the other columns.
      lines: (name, figures).
      style: a class of page.css.
    """

    title: str
    heads: Sequence[str]
    lines: Sequence[tuple[str, Sequence[Figure]]]
    style: str = ""


def show_table(table: DetailTable) -> str:
    """Returns a table as HTML."""
    heads = "".join([f"<th>{escaped(head)}" for head in (table.title, *table.heads)])
    lines = [f'<div class="part {table.style}"><table><thead><tr>{heads}<tbody>\n']
    for name, figures in table.lines:
        cells = "".join([f"<td>{show_figure(figure)}\n" for figure in figures])
        lines.append(f"<tr><th>{_show_name(name)}{cells}\n")
    return "".join([*lines, "</table></div>"])


@functools.lru_cache(100)
def _show_name(name: str) -> str:
    """Returns a line's name as HTML; tables share most names."""
    return escaped(shorten(name, 120)) if name.strip() else BLANK


def totals_of(columns: Sequence[ColumnStatistics]) -> list[int]:
    """Returns the number of values in each split."""
    return [column.values.count for column in columns]


def show_drift(drift: Drift) -> Figure:
    """Returns the bits of a drift, with three decimals."""
    text = "<0.001" if 0 < drift.value < 0.001 else f"{drift.value:.3f}" if drift.value else "0"
    return Figure(drift.value, text, is_high=drift.is_high)


def detail_tables(
    splits: Sequence[str],
    columns: Sequence[ColumnStatistics],
    described: Mapping[str, Mapping[str, Sequence[Figure]]],
    values: Sequence[Frequent],
    drifts: Sequence[Drift],
) -> Iterator[DetailTable]:
    """Yields the tables of the details; some have no lines.

    Args:
      splits, columns: their names, and statistics of the feature in each of them.
      described: title of a table -> its lines.
      values: frequent ones.
      drifts: from other splits and the baseline.
    """
    for title, found in described.items():
        yield DetailTable(title, splits, list(found.items()))
    few = isinstance(columns[0].values, NumberStatistics) or all(
        (column.values.distinct or 0) <= len(values) for column in columns
    )
    totals = totals_of(columns)
    counts = [(item.value, list(map(counted, item.counts, totals))) for item in values]
    yield DetailTable("Values" if few else "Most frequent values", splits, counts, "shares")
    if len(drifts) > 1:
        compared = [
            (f"{drift.split} against {drift.reference}", [show_drift(drift)]) for drift in drifts
        ]
        yield DetailTable("Drift", ["Divergence"], compared, "plain")
