"""Describes slices: their rows, and the label in them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis.report.values import Report
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.slices import DataSlice
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.columns import value_type
from beam_pipelines.core.formatting import show_number, show_share


class SliceRow(NamedTuple):
    """A slice.

    Attributes:
      name: column and value.
      cells: (rows, share of the split's rows, mean of the label) of each split; the mean is ``""``
        without a label of numbers.
    """

    name: str
    cells: tuple[tuple[str, str, str], ...]


def describe_slices(report: Report) -> list[SliceRow]:
    """Returns the slices of all splits, ordered."""
    tables = list(report.statistics.values())
    names = sorted({key for table in tables for key in table.slices})
    return [
        SliceRow(
            f"{key.column} = {key.value}",
            tuple(_cell(table, key, report.label) for table in tables),
        )
        for key in names
    ]


def _cell(table: TableStatistics, key: DataSlice, label: str | None) -> tuple[str, str, str]:
    own = table.slices.get(key)
    rows = 0 if own is None else own.rows
    mean = "" if own is None or label is None else _mean(own, label)
    return f"{rows:,}", show_share(rows, table.rows), mean


def _mean(table: TableStatistics, label: str) -> str:
    """Returns the mean of a label; of booleans the true share."""
    column = table.columns.get(label)
    if column is None:
        return ""
    values, kind = column.values, value_type(column.type)
    if not isinstance(values, NumberStatistics) or pa.types.is_temporal(kind) or not values.count:
        return ""
    if pa.types.is_boolean(kind):
        return f"{show_share(values.mean, 1.0)} true"
    return f"mean {show_number(values.mean)}"
