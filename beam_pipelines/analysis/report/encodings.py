"""Describes a feature before and after its encoding, by sampled rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis.axis import FEW_VALUES
from beam_pipelines.analysis.report.charts import (
    SMALL,
    Bar,
    Outlines,
    bars,
    distribution,
    frequent_values,
)
from beam_pipelines.analysis.report.details import Cell, Table, show_distinct, totals_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.years import show_of
from beam_pipelines.core.columns import type_name, value_type
from beam_pipelines.core.formatting import shorten, show_number, show_share, show_value

_Columns = Mapping[str, ColumnStatistics]


class Coverage(NamedTuple):
    """How many values a vocabulary knows.

    Attributes:
      size: texts of the vocabulary.
      values, known: values, and those of them in the vocabulary.
      distinct, known_distinct: different values, and those of them in the vocabulary.
    """

    size: int
    values: int
    known: int
    distinct: int
    known_distinct: int


class Picture(NamedTuple):
    """A chart: bars of few values, or a distribution."""

    bars: Sequence[Bar]
    outlines: Outlines | None


class EncodedFeature(NamedTuple):
    """A feature that encodings made.

    Attributes:
      name: of the feature.
      columns: that it is made of.
      steps: kinds of its encodings, in order.
      type: of the encoded values.
      before: chart of the column; ``None`` of several columns.
      after: chart of the feature.
      table: numbers of each split.
    """

    name: str
    columns: tuple[str, ...]
    steps: tuple[str, ...]
    type: str
    before: Picture | None
    after: Picture
    table: Table


def describe_encoding(
    name: str,
    steps: Sequence[str],
    before: Mapping[str, _Columns],
    after: _Columns,
    coverage: Mapping[str, Coverage],
    labels: Sequence[str] = (),
) -> EncodedFeature:
    """Describes a feature.

    Args:
      name: of the feature.
      steps: kinds of its encodings, in order.
      before: column -> split -> statistics of the sampled rows.
      after: split -> statistics of the encoded rows.
      coverage: split -> what the feature's vocabulary knows; empty without one.
      labels: texts of its ids; empty without a vocabulary.
    """
    pictures = [_picture(column, splits) for column, splits in before.items()]
    return EncodedFeature(
        name,
        tuple(before),
        tuple(steps),
        type_name(next(iter(after.values())).type),
        pictures[0] if len(pictures) == 1 else None,
        _picture("", after, labels),
        Table("Sampled rows", list(after), list(_lines(before, after, coverage))),
    )


def _picture(name: str, columns: _Columns, labels: Sequence[str] = ()) -> Picture:
    show = show_of(name, columns.values())
    if labels:
        show = functools.partial(_show_id, labels)
    values = frequent_values(columns, FEW_VALUES, show)
    outlines = None if values else distribution(columns, SMALL, show)
    return Picture(bars(values, totals_of(columns)), outlines)


def _show_id(labels: Sequence[str], value: float | None, kind: pa.DataType) -> str:
    """Returns an id with its text: ``1 (SALE)``; other numbers stay."""
    shown = show_value(value, kind)
    is_known = value is not None and 0 <= value < len(labels)
    return f"{shown} ({shorten(labels[int(value or 0)], 40)})" if is_known else shown


def _lines(
    before: Mapping[str, _Columns], after: _Columns, coverage: Mapping[str, Coverage]
) -> Iterator[tuple[str, list[Cell]]]:
    """Yields (name, a cell for each split)."""
    yield "Rows", [Cell(f"{column.present + column.missing:,}") for column in after.values()]
    if len(before) == 1:
        (columns,) = before.values()
        yield "Missing before", _missing(columns)
        yield "Missing after", _missing(after)
        yield "Distinct before", [show_distinct(column) for column in columns.values()]
    yield "Distinct after", [show_distinct(column) for column in after.values()]
    if coverage:
        found = list(coverage.values())
        yield "Texts in the vocabulary", [Cell(f"{one.size:,}") for one in found]
        shares = [show_share(one.values - one.known, one.values) for one in found]
        yield "Out of vocabulary", [Cell(share) for share in shares]
        shares = [show_share(one.known_distinct, one.distinct) for one in found]
        yield "Distinct texts in it", [Cell(share) for share in shares]
    numbers = [column.values for column in after.values()]
    if any(isinstance(item, TextStatistics) for item in numbers):
        return
    kind, show = value_type(next(iter(after.values())).type), show_of("", after.values())
    ends = [item for item in numbers if isinstance(item, NumberStatistics)]
    for title, field in (("Min after", "minimum"), ("Max after", "maximum")):
        yield title, [Cell(show(getattr(item, field), kind)) for item in ends]
    if pa.types.is_floating(kind):
        means = [show_number(item.mean) if item.count else "–" for item in ends]
        yield "Mean after", [Cell(mean) for mean in means]
        spreads = [show_number(item.standard_deviation) if item.count else "–" for item in ends]
        yield "Std. deviation after", [Cell(spread) for spread in spreads]


def _missing(columns: _Columns) -> list[Cell]:
    return [
        Cell(show_share(column.missing, column.present + column.missing))
        for column in columns.values()
    ]
