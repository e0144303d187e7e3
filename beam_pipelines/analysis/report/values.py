"""Content of the report as frozen values."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.analysis.alerts import Alert
from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.report.sampled import SampledRows
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.chunks import Rejected

SPLIT_COLORS = 6  # in page.css
# Images up to this width are enlarged with sharp pixels.
_TINY_PIXELS = 64


class SplitSummary(NamedTuple):
    """Rows of a split, and the bytes of each shard file."""

    rows: int
    shard_bytes: tuple[int, ...] = ()

    @property
    def shards(self) -> int:
        """Number of shard files."""
        return len(self.shard_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all shard files."""
        return sum(self.shard_bytes)


class SourceSummary(NamedTuple):
    """Files of a source, ``rows`` kept and ``rejected``, and findings."""

    name: str
    files: int
    size_bytes: int
    rows: int
    rejected: int
    decisions: Sequence[str] = ()


class JoinSummary(NamedTuple):
    """Row counts of a join.

    ``how``, ``strategy`` and ``on`` are those of the recipe. ``matched`` and ``unmatched`` left
    rows came in. The join dropped ``dropped`` of the unmatched ones. Second matches added ``added``
    rows.
    """

    source: str
    how: str
    strategy: str
    on: str
    matched: int
    unmatched: int
    dropped: int = 0
    added: int = 0


class ImageSample(NamedTuple):
    """An encoded image of a split.

    Attributes:
      split: name of the split.
      label: text, or ``""`` without a label.
      media_type: ``image/png`` or ``image/jpeg``.
      data: bytes of the file.
    """

    split: str
    label: str
    media_type: str
    data: bytes

    @property
    def base64(self) -> str:
        """The file in base64."""
        return base64.b64encode(self.data).decode()

    @property
    def is_tiny(self) -> bool:
        """Whether this is a PNG of at most 64 pixels in width.

        Bytes 16 to 20 hold the width (PNG specification, 11.2.2 IHDR).
        """
        is_png = self.media_type == "image/png"
        return is_png and int.from_bytes(self.data[16:20], "big") <= _TINY_PIXELS


@dataclasses.dataclass(frozen=True)
class Report:
    """Content of the page.

    Attributes:
      name: name of the dataset.
      base: name of the source whose rows became examples.
      splits: split name -> row counts and shards; ``describe`` writes no shards.
      sources, joins: in the recipe's order.
      anomalies: result of ``anomalies.describe``.
      statistics: split name -> statistics, all with the same columns.
      filter_first, filter: what the recipe's filter demands before and after the joins, or ``""``.
      filtered_first, filtered: rows that it left out before the joins, and in all.
      left_out: rows that ``--limit`` or ``--sample`` left out.
      left_out_by: check -> rows that it left out.
      sampled_out, repeated: rows that a sample of classes left out, and that it added.
      label: the feature to predict, or ``None``.
      rejected: rejected rows of all sources, or the first of them.
      images: some of the images, if the examples are images.
      baseline: split name -> statistics of an earlier dataset; empty without one.
      schema: path of the recipe's schema; ``None``: it was inferred from the data.
      alerts: what is suspicious, though the schema may allow it.
      sampled: a description of sampled rows.
      recipe: the recipe as text; ``""``: it is not shown.
      seconds: how long the run took; ``None``: not known.
      versions: package -> its version.
      class_names: column of ids -> the name of each class.
      findings: the manifest's entries of checks.
    """

    name: str
    base: str
    splits: Mapping[str, SplitSummary]
    sources: Sequence[SourceSummary]
    joins: Sequence[JoinSummary]
    anomalies: Sequence[Row]
    statistics: Mapping[str, TableStatistics]
    filter_first: str = ""
    filter: str = ""
    filtered_first: int = 0
    filtered: int = 0
    left_out: int = 0
    left_out_by: Mapping[str, int] = dataclasses.field(default_factory=dict)
    sampled_out: int = 0
    repeated: int = 0
    label: str | None = None
    rejected: Sequence[Rejected] = ()
    images: Sequence[ImageSample] = ()
    baseline: Mapping[str, TableStatistics] = dataclasses.field(default_factory=dict)
    schema: str | None = None
    alerts: Sequence[Alert] = ()
    sampled: SampledRows = dataclasses.field(default_factory=SampledRows)
    recipe: str = ""
    seconds: float | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    class_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()

    @property
    def errors(self) -> int:
        """Number of anomalies that stop a run."""
        return sum(row.severity == "ERROR" for row in self.anomalies)

    @property
    def accepted(self) -> int:
        """Number of anomalies that the run accepted."""
        return sum(row.is_accepted for row in self.anomalies)

    @property
    def warnings(self) -> int:
        """Number of anomalies that a file of severities calls warnings."""
        return len(self.anomalies) - self.errors - self.accepted
