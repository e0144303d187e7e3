"""``log1p``: the logarithm of 1 + x.

It suits counts and amounts with a long tail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.formula import Formula, Library
from beam_pipelines.encodings.values import check_parameters


@dataclasses.dataclass(frozen=True)
class Log1p(Formula, Fixed):
    """Natural logarithm of 1 + x; null stays null.

    -1 becomes -inf, and smaller values NaN, as in numpy and TensorFlow.
    """

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Log1p:
        """Takes no parameters."""
        check_parameters(parameters, {})
        return cls()

    def formula(self, x: Any, library: Library) -> Any:
        """Takes the logarithm."""
        return library.log1p(x)
