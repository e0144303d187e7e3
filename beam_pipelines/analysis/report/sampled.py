"""Sampled rows in the report: encodings, descriptions of columns, examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.report.details import Cell, Table
from beam_pipelines.analysis.report.encodings import EncodedFeature
from beam_pipelines.analysis.report.examples import Example


class Described(NamedTuple):
    """A column of the table of features.

    Attributes:
      key: by which the table is sorted, a word of small letters.
      title: its head.
      about: a note below the table.
      cells: feature -> its cell.
      order: feature -> the number that sorts it.
      tables: feature -> a table of its details.
    """

    key: str
    title: str
    about: str
    cells: Mapping[str, Cell]
    order: Mapping[str, float]
    tables: Mapping[str, Table]


@dataclasses.dataclass(frozen=True)
class SampledRows:
    """A description of sampled rows.

    Attributes:
      rows: number of sampled rows of all splits.
      examples: some of the rows.
      encodings: of the features that are encoded.
      described: of each column, by other packages.
      compared: number of rows that were compared with each other; the sample before it is thinned.
      repeats: number of these that have the values of an earlier one.
      alerts: of numbers that are not what they were.
    """

    rows: int = 0
    examples: tuple[Example, ...] = ()
    encodings: tuple[EncodedFeature, ...] = ()
    described: tuple[Described, ...] = ()
    compared: int = 0
    repeats: int = 0
    alerts: tuple[Alert, ...] = ()
