"""``z_score``: standardised to mean 0 and deviation 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.encodings.analyzers import Moments
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import Formula, Library
from beam_pipelines.encodings.values import check_parameters, need_numbers


@dataclasses.dataclass(frozen=True)
class ZScore(Encoding):
    """Subtracts the mean and divides by the population standard deviation, as
    ``tft.scale_to_z_score`` does.

    Null stays null, NaN stays NaN, infinities stay infinite; none of them is analysis from. Where
    all values are equal, they become 0.
    """

    analyzer = Moments
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> ZScore:
        """Takes no parameters."""
        check_parameters(parameters, {})
        return cls()

    def output(self, *features: Feature) -> Feature:
        """Numbers become float32."""
        return need_numbers(features[0]).with_values(pa.float32())

    def fit(self, analysis: Moments) -> FittedZScore:  # type: ignore[override]
        """Takes mean and deviation; of no values, 0 and 1."""
        return FittedZScore(analysis.mean, analysis.deviation or 1.0)


@dataclasses.dataclass(frozen=True)
class FittedZScore(Formula):
    """``(x - mean) / deviation``.

    Attributes:
      mean, deviation: of the values it was fitted on; the deviation is not 0.
    """

    mean: float
    deviation: float

    def formula(self, x: Any, library: Library) -> Any:
        """Standardises."""
        return (x - self.mean) / self.deviation
