"""What the report shows of a sample of the rows."""

from __future__ import annotations

import dataclasses

from beam_pipelines.analysis.report.encodings import EncodedFeature


@dataclasses.dataclass(frozen=True)
class SampledRows:
    """A description of sampled rows.

    Attributes:
      rows: number of sampled rows of all splits.
      encodings: of the features that are encoded.
    """

    rows: int = 0
    encodings: tuple[EncodedFeature, ...] = ()
