"""``min_max``: scaled from the range of the values to a given range."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_pipelines.encodings.analyzers import Moments
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.formula import Formula, Library, ToFloat
from beam_pipelines.encodings.values import check_parameters, need_number

_EXPECTED = "two numbers, the first one less, as in {min_max: [0, 1]}"


@dataclasses.dataclass(frozen=True)
class MinMax(ToFloat, Encoding):
    """Maps the smallest value to ``low`` and the largest to ``high``, linearly.

    As ``tft.scale_by_min_max``. Values beyond the fitted range go beyond ``low`` and ``high``;
    ``clip`` limits them. Null stays null, NaN stays NaN, infinities stay infinite; fitting ignores
    them. If all values are equal, they become ``low``.

    Attributes:
      low, high: the range to scale to.
    """

    low: float = 0.0
    high: float = 1.0

    analyzer = Moments
    elementwise = True
    keeps_apart = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> MinMax:
        """Takes the range: ``{min_max: [-1, 1]}``; 0 to 1 by default."""
        check_parameters(parameters, {"value": _EXPECTED})
        value = parameters.get("value", [0, 1])
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        low, high = (float(need_number(item, _EXPECTED)) for item in value)
        if not low < high:
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        return cls(low, high)

    def fit(self, analysis: Moments) -> FittedMinMax:  # type: ignore[override]
        """Takes the extremes; without values, those of the range itself."""
        if not analysis.weight:
            return FittedMinMax(self.low, 1.0, self.low)
        width = analysis.maximum - analysis.minimum
        return FittedMinMax(
            analysis.minimum, (self.high - self.low) / width if width else 1.0, self.low
        )


@dataclasses.dataclass(frozen=True)
class FittedMinMax(Formula):
    """``(x - minimum) · scale + low``.

    Attributes:
      minimum: of the values it was fitted on.
      scale: width of the range to scale to, divided by that of the values.
      low: result for the minimum.
    """

    minimum: float
    scale: float
    low: float

    keeps_apart = True

    def formula(self, x: Any, library: Library) -> Any:
        """Scales."""
        return (x - self.minimum) * self.scale + self.low
