"""Encodings outside the package, as a user writes them: ``square`` and ``largest``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.encodings import Encoding, Feature, register_encoding
from beam_pipelines.encodings.analyzers import Moments
from beam_pipelines.encodings.array_values import check_parameters
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.formula import Formula, Library


@dataclasses.dataclass(frozen=True)
class Square(Formula, Fixed):
    """``x * x``; needs no fitting."""

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Square:
        """Takes no parameters."""
        check_parameters(parameters, {})
        return cls()

    def formula(self, x: Any, library: Library) -> Any:  # noqa: ARG002
        """Multiplies."""
        return x * x


@dataclasses.dataclass(frozen=True)
class Largest(Encoding):
    """``x / largest x``; fits the maximum."""

    analyzer = Moments
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Largest:
        """Takes no parameters."""
        check_parameters(parameters, {})
        return cls()

    def output(self, *features: Feature) -> Feature:
        """Numbers become float32."""
        return features[0].with_values(pa.float32())

    def fit(self, analysis: Moments) -> FittedLargest:  # type: ignore[override]
        """Takes the maximum."""
        return FittedLargest(analysis.maximum)


@dataclasses.dataclass(frozen=True)
class FittedLargest(Formula):
    """``x / maximum``."""

    maximum: float

    def formula(self, x: Any, library: Library) -> Any:  # noqa: ARG002
        """Divides."""
        return x / self.maximum


register_encoding("square", Square)
register_encoding("largest", Largest)
