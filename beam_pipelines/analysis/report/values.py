"""The data of the report, which are all on disk."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.compare import Drift, as_json
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import mask
from beam_pipelines.core.layout.manifest import Manifest

SPLIT_COLORS = 6  # in page.css


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Data of the report that no other file of the dataset has.

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

    def to_text(self) -> str:
        """Returns the content of ``report.json``, without secrets of paths."""
        document = {
            key: value if key == "sampled" else _masked(value)
            for key, value in as_json(self).items()
        }
        return json.dumps(document, ensure_ascii=False) + "\n"


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    return list(map(_masked, value)) if isinstance(value, list) else value


class Report(NamedTuple):
    """Content of the page.

    Attributes:
      manifest: of the dataset or the description.
      statistics: split -> statistics, all with the same columns.
      data: content of ``report.json``.
    """

    manifest: Manifest
    statistics: Mapping[str, TableStatistics]
    data: Mapping[str, Any]
