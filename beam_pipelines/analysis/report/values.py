"""The data of the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.compare import Drift
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.layout.manifest import Manifest

PAGE = 200  # features that the report shows, and adds, at once


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Values of the report that no other file has.

    Attributes:
      anomalies: result of ``anomalies.describe``.
      alerts: what is suspicious, though the schema may allow it.
      rejected: rejected rows, the first of them at least.
      class_names: column of ids -> the name of each class.
      drifts: feature -> divergences of splits from others, and from an earlier dataset.
      sampled: a description of sampled rows.
    """

    anomalies: Sequence[Row] = ()
    alerts: Sequence[Alert] = ()
    rejected: Sequence[Rejected] = ()
    class_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    drifts: Mapping[str, Sequence[Drift]] = dataclasses.field(default_factory=dict)
    sampled: SampledRows = dataclasses.field(default_factory=SampledRows)


class Report(NamedTuple):
    """Content of the page.

    Attributes:
      manifest: of the dataset or the description.
      statistics: split -> statistics, all with the same columns.
      data: what no other file has.
    """

    manifest: Manifest
    statistics: Mapping[str, TableStatistics]
    data: ReportData
