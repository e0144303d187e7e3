"""Sampled rows in the report: encodings, relations, slices, examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.giveaways import Giveaway
from beam_pipelines.analysis.relations import Relation
from beam_pipelines.analysis.report.encodings import EncodedFeature
from beam_pipelines.analysis.report.examples import Example


@dataclasses.dataclass(frozen=True)
class SampledRows:
    """A description of sampled rows.

    Attributes:
      rows: number of sampled rows of all splits.
      examples: some of the rows.
      encodings: of the features that are encoded.
      relations: column -> what it says about the label; empty without a label.
      label_title: the number of each bucket of a relation.
      shows_means: whether these numbers are means, and no shares.
      giveaways: columns that give the label away, if the recipe asks for them.
      compared: number of rows that were compared with each other; the sample before it is thinned.
      repeats: number of these that have the values of an earlier one.
      alerts: of numbers that are not what they were.
    """

    rows: int = 0
    examples: tuple[Example, ...] = ()
    encodings: tuple[EncodedFeature, ...] = ()
    relations: Mapping[str, Relation] = dataclasses.field(default_factory=dict)
    label_title: str = ""
    shows_means: bool = False
    giveaways: tuple[Giveaway, ...] = ()
    compared: int = 0
    repeats: int = 0
    alerts: tuple[Alert, ...] = ()
