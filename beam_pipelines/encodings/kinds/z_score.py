"""``z_score``: standardized to mean 0 and deviation 1."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_pipelines.encodings.analyzers import Moments
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.formula import Formula, Library, ToFloat


@dataclasses.dataclass(frozen=True)
class ZScore(ToFloat, Encoding):
    """Subtracts the mean and divides by the population standard deviation.

    As ``tft.scale_to_z_score``. Null stays null, NaN stays NaN, infinities stay infinite; fitting
    ignores them. If all values are equal, they become 0.
    """

    analyzer = Moments
    elementwise = True
    keeps_apart = True

    def fit(self, analysis: Moments) -> FittedZScore:  # type: ignore[override]
        """Takes mean and deviation; without values, 0 and 1."""
        return FittedZScore(analysis.mean, analysis.deviation or 1.0)


@dataclasses.dataclass(frozen=True)
class FittedZScore(Formula):
    """``(x - mean) / deviation``.

    Attributes:
      mean, deviation: of the values it was fitted on; the deviation is not 0.
    """

    mean: float
    deviation: float

    keeps_apart = True

    def formula(self, x: Any, library: Library) -> Any:
        """Standardizes."""
        return (x - self.mean) / self.deviation
