"""Sampled rows in the report: encodings, descriptions of columns, examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.description import Figure, counted, describe, show_of
from beam_pipelines.analysis.drift import FEW_VALUES
from beam_pipelines.analysis.report import charts
from beam_pipelines.analysis.report.details import DetailTable, totals_of
from beam_pipelines.analysis.report.images import ImageSample
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.formatting import show_share

_Columns = Mapping[str, ColumnStatistics]


class Coverage(NamedTuple):
    """How many values a vocabulary knows.

    Attributes:
      size: texts of the vocabulary.
      values, known: values, and those of them in the vocabulary.
    """

    size: int
    values: int
    known: int


class EncodedFeature(NamedTuple):
    """A feature that encodings made.

    Attributes:
      name: of the feature.
      columns: that it is made of.
      steps: kinds of its encodings, in order.
      type: of the encoded values.
      before: chart of the column as HTML; ``""`` of several columns.
      after: chart of the feature as HTML.
      table: numbers of each split.
    """

    name: str
    columns: tuple[str, ...]
    steps: tuple[str, ...]
    type: str
    before: str
    after: str
    table: DetailTable


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
        pictures[0] if len(pictures) == 1 else "",
        _picture("", after, labels),
        DetailTable("Sampled rows", list(after), list(_lines(after, coverage.values()))),
    )


def _picture(name: str, columns: _Columns, labels: Sequence[str] = ()) -> str:
    found = list(columns.values())
    show = show_of(name, found, labels)
    values = charts.frequent_values(found, FEW_VALUES, show)
    if values:
        return charts.draw_values(values, totals_of(found))
    return charts.draw_distributions([found], [show])[0]


def _lines(after: _Columns, coverage: Collection[Coverage]) -> Iterator[tuple[str, list[Figure]]]:
    """Yields (name, a figure for each split)."""
    stats = list(after.values())
    yield from describe(stats, show_of("", stats))
    if coverage:
        yield "Texts in the vocabulary", [counted(one.size) for one in coverage]
        shares = [show_share(one.values - one.known, one.values) for one in coverage]
        yield "Out of vocabulary", [Figure(None, share) for share in shares]


class Example(NamedTuple):
    """A row of a split.

    Attributes:
      split: its name.
      cells: (raw value, encoded value) of columns, then of new features; a value is ``None`` where
        there is no such column or feature.
    """

    split: str
    cells: tuple[tuple[str | None, str | None], ...]


class Examples(NamedTuple):
    """Some rows.

    Attributes:
      names: of columns, then of new features.
      rows: the rows.
      more: number of names left out.
    """

    names: tuple[str, ...] = ()
    rows: tuple[Example, ...] = ()
    more: int = 0


class Described(NamedTuple):
    """A column of the table of features.

    Attributes:
      key: by which the table is sorted, a word of small letters.
      title: its head.
      about: a note below the table.
      cells: feature -> its cell.
      order: feature -> the number that sorts it.
    """

    key: str
    title: str
    about: str
    cells: Mapping[str, Figure]
    order: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class SampledRows:
    """A description of sampled rows.

    Attributes:
      rows: number of sampled rows of all splits.
      examples: some of the rows.
      images: some of the images, if rows are images.
      encodings: of the features that are encoded.
      described: of each column, by other packages.
      compared: number of rows that were compared with each other; the sample before it is thinned.
      repeats: number of these that have the values of an earlier one.
      alerts: of numbers that are not what they were.
    """

    rows: int = 0
    examples: Examples = dataclasses.field(default_factory=Examples)
    images: tuple[ImageSample, ...] = ()
    encodings: tuple[EncodedFeature, ...] = ()
    described: tuple[Described, ...] = ()
    compared: int = 0
    repeats: int = 0
    alerts: tuple[Alert, ...] = ()
